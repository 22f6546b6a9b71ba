"""End-to-end tests: real containerd, runc and crun, each in a place of its own that leaves nothing behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.containerd.cri import Cri
from harness.containerd.enclosure import HANGING, Enclosure
from harness.containerd.instance import Containerd
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent


def unreserved() -> str:
    """The CPUs of this machine but for 0, as a list of the kernel."""
    last = (os.cpu_count() or 1) - 1
    return "1" if last == 1 else f"1-{last}"


def hang(enclosure: Enclosure) -> Path:
    """Have one plugin, which hangs; return the file that it makes when it begins."""
    begun = enclosure.root / "begun"
    plugin = enclosure.opt_nri / "bin/hanging"
    plugin.write_text(HANGING.format(begun=begun))
    plugin.chmod(0o755)
    enclosure.configure({"type": "hanging"})
    return begun


def live(cri: Cri, create: Callable[[Cri, str], str], *, update: bool = False) -> tuple[str, str]:
    """Take a pod and a container through their lives; return their ids."""
    pod = cri.run_pod("web")
    container = create(cri, pod)
    cri.start(container)
    if update:
        cri.update_resources(container, cpu_quota=70_000)
    cri.stop(container)
    cri.stop_pod(pod)
    cri.remove(container)
    cri.remove_pod(pod)
    return pod, container


@contextmanager
def beside(containerd: Containerd, plugin: Path, text: str, ready: str) -> Iterator[Path]:
    """A v2 plugin with this text in the enclosure, which has said that it is ready; the file of what it says."""
    plugin.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n{text}")
    plugin.chmod(0o755)
    said = plugin.with_name("said")
    with said.open("wb") as out:
        command = containerd.enclosure.command([plugin])
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as process:
            try:
                until(lambda: ready in said.read_text(), "the plugin to be ready")
                yield said
            finally:
                process.kill()
                print(said.read_text())  # shown when the test fails
