"""Stand-ins for plugins, which keep every request that a runtime gives them. They use nothing of this project.

A v0.1 plugin is a shell script that answers as the test says. A v2 plugin is ``tests/plugins/standin_v2.py``, which
keeps how it was launched, too.
"""

import json
import sys
from pathlib import Path
from typing import Any

from harness.containerd.enclosure import Enclosure
from tests.plugins.standin_v2 import fields

_SCRIPT = """\
#!/bin/sh
name="{kept}/$(date +%s%N)"
cat > "$name.part"
mv "$name.part" "$name.json"
echo "$*" > "{kept}/arguments"
state=$(sed -n 's/.*"state": *"\\([a-z]*\\)".*/\\1/p' "$name.json" | head -n 1)
answer="{kept}/answer.$state"
if [ -e "$answer" ]; then
    cat "$answer"
    exit
fi
printf '%s\\n' '{{"plugin":"{plugin}","version":"0.1","error":"'"$(cat "{kept}/error")"'"}}'
"""
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


LISTED = ["setup", "resize", "update", "pause", "resume"]
"""The states that a plugin gets only if its entry lists them."""


class StandIn:
    """A plugin executable `bin_dir/plugin`; what it is given is kept in the folder `kept`."""

    def __init__(self, bin_dir: Path, plugin: str, kept: Path) -> None:
        self.plugin, self.kept = plugin, kept
        kept.mkdir(parents=True)
        self.fail_with("")
        script = bin_dir / plugin
        script.write_text(_SCRIPT.format(kept=kept, plugin=plugin))
        script.chmod(0o755)

    def fail_with(self, error: str) -> None:
        """From now on answer with this error (plain text without quotes); with none if it is empty."""
        (self.kept / "error").write_text(error)

    def answer_with(self, state: str, result: dict[str, Any]) -> None:
        """From now on answer a request of this state with these keys, without an error."""
        document = {"plugin": self.plugin, "version": "0.1", "error": "", **result}
        (self.kept / f"answer.{state}").write_text(json.dumps(document))

    @property
    def arguments(self) -> str:
        return (self.kept / "arguments").read_text().strip()

    def requests(self) -> list[dict[str, Any]]:
        """The requests so far, oldest first."""
        return [json.loads(file.read_text()) for file in sorted(self.kept.glob("*.json"))]

    def states(self, id_: str) -> list[str]:
        """The states of the requests for a container so far."""
        return [each["state"] for each in self.requests() if each["id"] == id_]


def stand_in(enclosure: Enclosure, kept: Path) -> StandIn:
    """Install the plugin `standin`, alone and for every state."""
    plugin = StandIn(enclosure.opt_nri / "bin", "standin", kept)
    enclosure.configure({"type": "standin", "states": LISTED})
    return plugin


class StandInV2:
    """A plugin `NN-name`; what it keeps is in the folder `kept`."""

    def __init__(self, plugin: str, kept: Path) -> None:
        self.plugin, self.kept = plugin, kept
        kept.mkdir(parents=True)

    def install(self, enclosure: Enclosure) -> None:
        """Put it into /opt/nri/plugins."""
        file = enclosure.opt_nri / "plugins" / self.plugin
        file.parent.mkdir(exist_ok=True)
        call = f"main({str(self.kept)!r})"
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
