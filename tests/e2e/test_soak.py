"""A short soak of the compiled bridge: what `make soak` does for minutes."""

import subprocess
import sys
from pathlib import Path

from tests.e2e import ROOT


def test_soak_with_hundreds_of_faults_passes(installed: Path) -> None:
    command = [sys.executable, "-m", "soak", "--events", "500", "--seed", "7"]
    bridge = installed / "opt/nri/plugins/10-v1bridge"
    done = subprocess.run(
        [*command, "--bridge", bridge], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds") == 8
