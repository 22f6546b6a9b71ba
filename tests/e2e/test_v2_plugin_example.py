"""The plugin of docs/writing-a-v2-plugin.md, as it stands there, beside a real containerd 1.7 and 2.x."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.containerd.bridged import create
from harness.containerd.instance import Containerd, Release
from tests.e2e import live
from tests.support.waiting import SOON, until

pytestmark = pytest.mark.runtime

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/writing-a-v2-plugin.md"


def test_the_logger_of_the_page_tells_a_pods_life(containerd_v2: Release, tmp_path: Path) -> None:
    found = re.search(r"```python logger\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    logger = tmp_path / "10-logger"  # its name tells who it is
    logger.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n{found[1]}")
    logger.chmod(0o755)
    said = tmp_path / "said"
    with Containerd(release=containerd_v2) as containerd, said.open("wb") as out:
        command = containerd.enclosure.command([logger])
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as plugin:
            try:
                until(lambda: "are there" in said.read_text(), "the logger to be synchronized", SOON)
                with containerd.cri() as cri:
                    live(cri, create)
                until(lambda: "is gone" in said.read_text(), "the end of the pod", SOON)
            finally:
                plugin.kill()

    configured, *rest = said.read_text().splitlines()
    assert configured == "configured by containerd with ''"
    assert rest == [
        "0 pods and 0 containers are there",
        "pod web runs in default",
        "container app is created: /bin/sleep 1000000",
        "container app starts",
        "container app stops",
        "pod web is gone",
    ]
