"""``make install``, and the OCI hooks that run what it has installed."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.support.installing import DEPLOY, ROOT, source


def test_without_rights_it_stops_before_anything_is_done_and_says_why() -> None:
    with tempfile.TemporaryDirectory(prefix="nri-test-") as folder:
        os.chmod(folder, 0o755)  # anybody may look
        checkout = source(Path(folder))
        shutil.copy(ROOT / "Makefile", checkout)
        shut = Path(folder) / "shut"
        shut.mkdir(mode=0o555)
        (shut / "usr").mkdir(mode=0o555)
        nobody = 65534
        user: dict[str, Any] = {"user": nobody, "group": nobody, "extra_groups": []} if os.geteuid() == 0 else {}
        for command in (["tools/install", str(shut)], ["make", "--silent", "install", f"DESTDIR={shut}"]):
            done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, **user)
            assert done.returncode != 0
            (said,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
            who = pwd.getpwuid(user.get("user", os.geteuid())).pw_name
            assert said.startswith(f"tools/install: cannot write to {shut} as {who}; run it as root, or name a tree ")
            assert done.stdout == ""
        assert [path.name for path in shut.rglob("*")] == ["usr"]


# OCI hooks


def test_the_hooks_run_what_is_installed(installed: Path) -> None:
    for file in (DEPLOY / "hooks.d").iterdir():
        path = json.loads(file.read_text())["hook"]["path"]
        assert (installed / path.lstrip("/")).resolve().name == "nri"
