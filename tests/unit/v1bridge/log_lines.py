"""Builders for the tests of the bridge's log."""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nri.client import Client, PluginError, Step
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request, Result, Spec
from nri.v1bridge import BridgeOptions
from nri.v1bridge import log as bridge_log
from nri.v1bridge.runs import EventLog, Run

CONTAINER = "default/web/app"
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def written() -> None:
    """Wait until all lines are written."""
    bridge_log.drain()
    bridge_log.bridge_handler.use(bridge_log.bridge_handler.place)


class Log:
    """A log's file, and what it has."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set_up(self, **options: Any) -> None:
        bridge_log.set_up(BridgeOptions(log_file=str(self.path), **options), launched=True)

    @property
    def text(self) -> str:
        """What the file has when all lines are written."""
        written()
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def fields(line: str) -> list[tuple[str, str]]:
    """A line's fields, as whoever reads the format would: KEY=VALUE, either of them quoted as in JSON."""
    word = r'(?:"(?:[^"\\]|\\.)*"|[^\s"=]+)'
    found = re.findall(rf"(?<= )([\w.]*?{word}|[\w.]+)=({word})(?= |$)", line)
    return [(key, json.loads(value) if value.startswith('"') else value) for key, value in found]


def request(
    state: str = "create", *, sandbox: bool = False, id: str = "1f92344f3c93e2381e18c2b9d9ffb698"
) -> Request:
    return Request(state=state, id=id, sandbox_id=id if sandbox else "6efd", spec=Spec())


def step(
    *,
    error: str = "",
    metadata: Mapping[str, str] = {},
    plugin: str = "konfine",
    seconds: float = 0.01234,
    policy: str = "",
) -> Step:
    made = Step(PluginEntry(type=plugin, failure_policy=policy), b"{}")
    made.seconds = seconds
    if error:
        how, _, reason = (
            error.rpartition(": ")
            if error.startswith(("killed: ", "refused: "))
            else ("", "", error)
        )
        made.error = PluginError(plugin, reason, killed=how == "killed", refused=how == "refused")
        made.is_ignored = policy == "ignore"
    else:
        made.result = Result(plugin=plugin, metadata=metadata)
    return made


def event(
    *steps: Step,
    name: str = CONTAINER,
    about: Request | None = None,
    says: tuple[str, ...] = (),
    error: str = "",
) -> None:
    """Log an event with these steps, the lines that its last plugin says, and the error that the runtime gets."""
    event_log, run = EventLog(), Run(Client(ConfigList()), about or request(), name)
    run.deadline = time.monotonic() + 2
    event_log.begin(run)
    for each in steps[:-1]:
        event_log.step(run, each)
    run.said += [(steps[-1].plugin.type, line) for line in says]
    for each in steps[-1:]:
        event_log.step(run, each)
    run.seconds, run.error = 0.0987, error
    event_log.end(run)


def says(text: str, name: str = CONTAINER) -> None:
    """Log what a plugin has written to stderr, and nothing else of its event."""
    run = Run(Client(ConfigList()), request(), name)
    run.said.append(("konfine", text))
    EventLog().end(run)
