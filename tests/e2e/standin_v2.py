"""Stand-ins for NRI v2 plugins that a runtime launches: they keep how they were launched, and what they were told."""

import json
import sys
from pathlib import Path
from typing import Any

from harness.containerd.enclosure import Enclosure
from tests.plugins.standin_v2 import fields

_SOURCE = Path(__file__).parent.parent / "plugins/standin_v2.py"
# Event, by number; runtimes up to NRI 0.11 put these into StateChange
_EVENTS = {
    1: "RunPodSandbox",
    2: "StopPodSandbox",
    3: "RemovePodSandbox",
    5: "PostCreateContainer",
    6: "StartContainer",
    7: "PostStartContainer",
    9: "PostUpdateContainer",
    11: "RemoveContainer",
}


class StandInV2:
    """A plugin `NN-name`; what it keeps is in the folder `kept`.

    `behaviour` is `serve`, or before it has registered `exit` or `hang`.
    """

    def __init__(self, plugin: str, kept: Path, *, behaviour: str = "serve") -> None:
        self.plugin, self.kept, self.behaviour = plugin, kept, behaviour
        kept.mkdir(parents=True)

    def install(self, enclosure: Enclosure) -> None:
        """Put it into /opt/nri/plugins."""
        file = enclosure.opt_nri / "plugins" / self.plugin
        file.parent.mkdir(exist_ok=True)
        call = f"main({str(self.kept)!r}, {self.behaviour!r})"
        file.write_text(f"#!{sys.executable} -IS\n{_SOURCE.read_text()}\n{call}\n")
        file.chmod(0o755)

    def launches(self) -> list[dict[str, Any]]:
        """How it was launched, each time."""
        return [line["launched"] for line in self._lines() if "launched" in line]

    def events(self) -> list[str]:
        """The names of what it was told so far."""
        return [_event(method, payload) for method, payload in self.calls()]

    def calls(self) -> list[tuple[str, dict[int, int | bytes]]]:
        """What it was told so far: the method, and the request's fields by number."""
        return [(ln["method"], fields(bytes.fromhex(ln["payload"]))) for ln in self._lines() if "method" in ln]

    def _lines(self) -> list[dict[str, Any]]:
        file = self.kept / "lines"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _event(method: str, request: dict[int, int | bytes]) -> str:
    return _EVENTS[int(request[1])] if method == "StateChange" else method
