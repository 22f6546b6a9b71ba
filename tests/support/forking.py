"""Programs in forked processes and in new ones, to compare the two."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from nri.process.conversation import launch
from tests.support.processes import MEASURED
from tests.support.waiting import SOON

ROOT = Path(__file__).parents[2]
HOST = ROOT / "tests/plugins/forking_host.py"
NAME = "a-program-with-a-long-name"


def start_host(
    script: Path, *, stdin: str = "", seconds: float = SOON, watchdog: bool = False
) -> subprocess.Popen[bytes]:
    """The host, which forks for a script."""
    job = {
        "script": str(script),
        "type": NAME,
        "stdin": stdin,
        "seconds": seconds,
        "watchdog": watchdog,
    }
    return subprocess.Popen(
        [sys.executable, str(HOST), json.dumps(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), **MEASURED},
        cwd="/",
    )


def forked(script: Path, **options: Any) -> dict[str, Any]:
    """Run a script in a forked process; return what came of it."""
    with start_host(script, **options) as process:
        stdout, _ = process.communicate(timeout=2 * SOON)
    assert process.returncode == 0
    done: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    assert done["host"] == [True, 2], "the host's handlers or its mask have changed"
    assert done["children"] == bool(options.get("watchdog")), "a child is not reaped"
    return done


def started(script: Path, stdin: str = "") -> dict[str, Any]:
    """Run a script as a new interpreter; return what came of it."""
    lines: list[str] = []
    words = [sys.executable, "-I", "-S", "-X", "utf8", str(script), "invoke"]
    output = launch(
        sys.executable, words, stdin.encode(), time.monotonic() + SOON, log=lines.append
    )
    return {
        "stdout": output.stdout.decode(errors="backslashreplace"),
        "stderr": "\n".join(lines),
        "status": output.status,
        "stopped": output.stopped,
    }
