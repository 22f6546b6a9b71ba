"""A mounted ConfigMap, and its exchange as the kubelet does it.

Visible files are links to ``..data/NAME``; ``..data`` is a link to a directory with a time in its name. A change
makes a new directory, exchanges ``..data`` by one rename, and removes the old directory (``AtomicWriter`` of the
kubelet). The directory of the volume has mode 0777.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class ConfigMapVolume:
    """A volume at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        path.mkdir(parents=True)
        path.chmod(0o777)
        self.write({})

    def write(self, files: dict[str, str]) -> None:
        """Exchange the content."""
        self._count += 1
        new = self.path / f"..2026_11_22_10_00_00.{self._count:09}"
        new.mkdir(mode=0o755)
        for name, text in files.items():
            (new / name).write_text(text)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        data, old = self.path / "..data", None
        if data.is_symlink():
            old = self.path / os.readlink(data)
        (self.path / "..data_tmp").symlink_to(new.name)
        (self.path / "..data_tmp").rename(data)
        for link in self.path.iterdir():
            if not link.name.startswith("..") and link.name not in files:
                link.unlink()
        if old is not None:
            shutil.rmtree(old)
