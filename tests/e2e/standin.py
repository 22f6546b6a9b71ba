"""A stand-in for a v0.1 plugin: keeps every request it is given, and answers as the test says.

It is a shell script and needs nothing installed: it shows what a runtime does, and nothing of this project.
"""

import json
from pathlib import Path
from typing import Any

_SCRIPT = """\
#!/bin/sh
name="{kept}/$(date +%s%N)"
cat > "$name.part"
mv "$name.part" "$name.json"
echo "$*" > "{kept}/arguments"
printf '%s\\n' '{{"plugin":"{plugin}","version":"0.1","error":"'"$(cat "{kept}/error")"'"}}'
"""


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

    @property
    def arguments(self) -> str:
        return (self.kept / "arguments").read_text().strip()

    def requests(self) -> list[dict[str, Any]]:
        """The requests so far, oldest first."""
        return [json.loads(file.read_text()) for file in sorted(self.kept.glob("*.json"))]
