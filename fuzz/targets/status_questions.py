"""Requests to the bridge's status socket: any line has an answer that is a document of the protocol, or is refused
with a sentence that says what was expected. The input is a line.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

from nri.cli.status import page, pod_page
from nri.client import PluginError, Step
from nri.config.entries import PluginEntry
from nri.status.judging import judge
from nri.types import gojson
from nri.types.v1 import Request
from nri.v1bridge.chains import Chains
from nri.v1bridge.ledger import Ledger
from nri.v1bridge.log import EventLines, EventLog
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.status import PROTOCOL, QuestionError, Status, refusal

_NOWHERE = tempfile.gettempdir() + "/no/such/folder"


def _status() -> Status:
    """Return the status of a bridge that has served one pod, with a plugin that has failed."""
    options = BridgeOptions(conf_dir=_NOWHERE, conf_file=f"{_NOWHERE}.conf", resident=False)
    ledger = Ledger(["StartContainer"])
    step = Step(PluginEntry(type="clearcfs"), b'{"id": "a\xff"}')
    step.error = PluginError("clearcfs", "no cgroup")
    lines = EventLines(EventLog(), Request(state="create", id="a\x1b"), "default/web/app")
    lines.steps.append(step)
    ledger.ran(lines, "StartContainer", 0.1, "no cgroup")
    return Status(Chains(options, ledger, None, None, lambda within: True), ledger)


STATUS = _status()


def check(data: bytes) -> None:
    """Ask, and read the answer."""
    try:
        answer = json.loads(STATUS.answer(data))
    except QuestionError as error:
        assert "expected " in str(error)
        assert len(str(error)) < 500
        assert json.loads(refusal(str(error)))["protocol"] == PROTOCOL
        return
    asked: Any = gojson.loads(data)
    assert pod_page(answer) if asked["get"] == "pod" else page(answer, judge(answer))
    if asked["get"] == "pod":
        assert answer["name"] == asked["name"]
        assert bool(answer["exchanges"]) == (asked["name"] == "default/web")


JSON = True
SEEDS = (
    b'{"get": "status"}',
    b'{"get": "pod", "name": "default/web"}',
    b'{"get": "pod", "name": "\\ud800"}',
    b'{"get": "pod", "name": ""}',
    b'{"get": ["status"]}',
    b'{"get": "status", "get": "pod"}',
    b'{"get": null}',
    b"[]",
    b'"status"',
    b"1e999",
    b"",
    b"\xff",
    b"[" * 4000,
)
WORDS = (b'"get"', b'"status"', b'"pod"', b'"name"', b'"default/web"', b"null")
