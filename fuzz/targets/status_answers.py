"""Answers of a status socket: any bytes are refused with a sentence, or become a verdict in one short line and
a page that fits a terminal of 80 columns. The input is an answer.
"""

from __future__ import annotations

import contextlib
import json

from nri.cli.output import WIDTH
from nri.cli.status import page, pod_page
from nri.status.client import UNUSABLE, AskError, read, unusable
from nri.status.judging import DEGRADED, MAX_LINE, WELL, judge


def check(data: bytes) -> None:
    """Read the answer, and make all of it that can be made."""
    try:
        document = read(data, "/a.sock")
    except AskError as error:
        assert str(error).startswith("/a.sock: ")
        assert len(str(error)) < 2000
        return
    with contextlib.suppress(UnicodeDecodeError):  # of which each reader makes its own
        assert document == json.loads(data.decode())
    lines = []
    try:
        verdict = judge(document)
        assert verdict.code in (WELL, DEGRADED)
        assert verdict.line.isprintable()
        assert len(verdict.line.encode()) <= MAX_LINE
        lines += page(document, verdict)
    except UNUSABLE as error:
        assert str(unusable("/a.sock", error)).isprintable()
    try:
        lines += pod_page(document)
    except UNUSABLE as error:
        assert str(unusable("/a.sock", error)).isprintable()
    for line in lines:
        assert len(line) <= WIDTH, line
        assert line.isprintable(), line


_HISTOGRAM = {"bounds": [0.001, 2.5], "counts": [3, 0, 1], "sum": 4}
_PLUGIN = {
    "type": "clearcfs",
    "source": "/etc/nri/resource.d/10.conf",
    "index": 0,
    "states": ["create"],
    "timeout": 2,
    "failurePolicy": "fail",
    "binary": None,
    "problem": "not found",
    "build": None,
    "resident": {"state": "failed", "reason": None},
    "runs": {"create": {"ok": 3, "error": 1, "killed": 0, "ignored": 0}},
    "seconds": _HISTOGRAM,
    "last": {"create": "error"},
    "lastError": {"time": 1, "state": "create", "pod": "a/b", "container": None, "error": "\u001b[2J"},
}
_EVENT = {
    "event": "StartContainer",
    "answered": 4,
    "errors": 1,
    "late": 1,
    "seconds": _HISTOGRAM,
    "waiting": _HISTOGRAM,
    "nearDeadline": 1,
}
_STATUS = {
    "protocol": 1,
    "time": 1763802000.5,
    "bridge": {
        "version": "0.9",
        "commit": None,
        "date": None,
        "pid": 1,
        "started": 0,
        "state": "connected",
        "options": {},
    },
    "runtime": {
        "name": "containerd",
        "version": "v2",
        "nri": "0.8",
        "since": 1,
        "synchronized": False,
        "connections": 2,
    },
    "configuration": {
        "files": ["/a"],
        "hash": "abc",
        "valid": False,
        "faults": ["x"],
        "since": 1,
        "rejectedSince": 2,
    },
    "plugins": [_PLUGIN],
    "events": [_EVENT],
    "lateCreates": {"waiting": 0, "running": 0, "succeeded": 0, "failed": 0},
    "withoutPlugins": [
        {"id": "a", "pod": "a/b", "container": None, "plugin": None, "state": "create", "since": 1, "why": "e"}
    ],
    "record": {"directory": "/a", "fault": None},
    "inProgress": {"event": "StartContainer", "name": "a/b/c", "seconds": 1.5, "allowed": 2},
    "log": {"to": None, "lost": 0, "fault": None},
}
_PART = {
    "plugin": "clearcfs",
    "binary": None,
    "seconds": None,
    "outcome": "ok",
    "request": None,
    "result": '{"metadata":{"a":[1]}}',
    "error": "e",
}
_EXCHANGE = {
    "time": 1,
    "state": "create",
    "event": None,
    "id": "a",
    "container": None,
    "late": True,
    "seconds": 0.1,
    "error": "e",
    "plugins": [_PART],
}
_EXCHANGES = {"protocol": 1, "name": "a/b", "exchanges": [_EXCHANGE], "forgotten": 1}

JSON = True
SEEDS = (
    b"",
    b"[]",
    b"{",
    b'{"protocol": 2}',
    b'{"protocol": 1, "error": "\\u001b"}',
    json.dumps(_STATUS).encode(),
    json.dumps(_STATUS).encode().replace(b"commit", b"\x80commit"),
    json.dumps(_EXCHANGES).encode(),
    json.dumps(_EXCHANGES).replace("0.1", "1e999").encode(),
)
WORDS = tuple(
    f'"{key}"'.encode() for document in (_STATUS, _PLUGIN, _EVENT, _EXCHANGES, _EXCHANGE) for key in document
)
