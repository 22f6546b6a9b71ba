"""A stand-in for a v0.1 plugin, which keeps every request that a runtime gives it.

It is a shell script that answers as the test says, and uses nothing of this project.
"""

import json
from pathlib import Path
from typing import Any

from harness.containerd.enclosure import Enclosure

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
