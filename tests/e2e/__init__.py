"""End-to-end tests: real containerd, runc and crun, each in a place of its own that leaves nothing behind."""

import os
from collections.abc import Callable
from pathlib import Path

from harness.containerd.cri import Cri
from harness.containerd.enclosure import HANGING, Enclosure


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
