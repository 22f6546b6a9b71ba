"""The part of the packaging that pyproject.toml can't express: the version, commit and date are those of git."""

import os
import runpy
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

stamp = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools/stamp"))


class BuildPy(build_py):
    """Stamps what goes into the wheel; an editable installation uses the sources as they are."""

    def run(self) -> None:
        """As for any build_py."""
        super().run()
        if not self.editable_mode:
            stamp["write"](os.path.join(self.build_lib, "nri/__init__.py"))


class Sdist(sdist):
    """Stamps the sources that are handed on: there is no git beside them."""

    def make_release_tree(self, base_dir: str, files: Any) -> None:
        """As for any sdist."""
        super().make_release_tree(base_dir, files)
        path = os.path.join(base_dir, "nri/__init__.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        os.unlink(path)  # it may be a hard link to the source
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        stamp["write"](path)


setup(version=stamp["stamps"]()["__version__"], cmdclass={"build_py": BuildPy, "sdist": Sdist})
