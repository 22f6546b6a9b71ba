"""Two plugins in one folder of libraries, built once for all tests that look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.authoring.authored import Built, build, plugin

if TYPE_CHECKING:
    from pathlib import Path

# As an editable installation does it: a finder that knows where one package is.
FINDER = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "editable":
            return spec_from_file_location(name, {place!r} + "/__init__.py", submodule_search_locations=[{place!r}])

sys.meta_path.append(Finder)
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("authored")
    for name in ("packages/third", "far/editable"):
        (folder / name).mkdir(parents=True)
    (folder / "packages/third/__init__.py").write_text(
        "def value():\n    from .late import VALUE\n    return VALUE\n"
    )
    (folder / "packages/third/late.py").write_text("VALUE = 'of a package'\n")
    (folder / "far/editable/__init__.py").write_text("VALUE = 'of an editable package'\n")
    (folder / "packages/sitecustomize.py").write_text(FINDER.format(place=str(folder / "far/editable")))
    (folder / "beside.py").write_text("def mean():\n    import statistics\n    return str(statistics.mean([1, 3]))\n")
    late = "from beside import mean; import third, editable"
    metadata = "result.metadata.update(mean=mean(), third=third.value(), editable=editable.VALUE)"
    only_for_web = f"if request.id == 'web': {late}; {metadata}"
    (folder / "alpha.py").write_text(
        plugin("alpha", more="version = '1.2'; resident = True; uses = ('third.late',)", invoke=only_for_web)
    )
    (folder / "beta").mkdir()
    (folder / "beta/beta.py").write_text(
        plugin("beta", top="NAME = ''.join(('frac', 'tions'))", invoke="__import__(NAME)")
    )
    (folder / "beta/test_beta.py").write_text("import beta\n")
    words = [
        "alpha.py",
        "beta",
        "--name",
        "pair",
        "--output",
        "out",
        "--conf",
        '{"cpus": "2-3"}',
        "--verbose",
        "--check-libc",
    ]
    ran = build(folder, *words, path=str(folder / "packages"))
    assert ran.status == 0, ran.stderr
    return Built(folder, ran)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for sources."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"
