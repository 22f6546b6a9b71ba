"""A directory with cgroups of plain files, as plugins in processes of their own see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.testing.cgroup_files import CgroupFiles

if TYPE_CHECKING:
    from pathlib import Path


class CgroupRoot:
    """Cgroups below *root*, with the places of a plugin conf that keep a plugin there.

    :param cpus: the machine's.
    """

    def __init__(self, root: Path, kind: str, cpus: str) -> None:
        self.root = root
        self.files = CgroupFiles(root / "cgroup", kind, cpus)
        (root / "mountinfo").write_text(self.files.mountinfo)

    @property
    def places(self) -> dict[str, str]:
        """Keys of a plugin conf."""
        return {"mountinfo": str(self.root / "mountinfo"), "run": str(self.root / "run")}
