"""A short soak of the compiled bridge: what `make soak` does for minutes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_soak_with_hundreds_of_faults_passes(installed: Path) -> None:
    command = [sys.executable, "-m", "soak", "--events", "500", "--seed", "7"]
    bridge = installed / "opt/nri/plugins/10-v1bridge"
    done = subprocess.run([*command, "--bridge", bridge], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds") == 8


def test_missing_bridge_prints_one_line_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soak", "--events", "1", "--bridge", str(tmp_path / "gone")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path}/gone did not register with the runtime; make binaries builds it\n"
