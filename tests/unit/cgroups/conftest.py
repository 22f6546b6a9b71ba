"""The cgroup trees of these tests: of plain files, and the kernel's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cgroups import knobs
from tests.support.real_cgroups import Real, real_cgroups
from tests.unit.cgroups.trees import INNER, SCOPE, Tree


@pytest.fixture(params=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param)


@pytest.fixture(params=["v1", "v2"])
def scoped(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    """A scope with crun's child."""
    return Tree(tmp_path, request.param, SCOPE, INNER)


@pytest.fixture
def v1(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "v1", "v1")


@pytest.fixture
def v2(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "v2", "v2")


@pytest.fixture
def real() -> Iterator[Real]:
    with real_cgroups() as real:
        yield real


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to knobs in a test: ``CGROUP/FILE TEXT``, in order."""
    lines: list[str] = []
    real = knobs.write

    def write_and_note(path: str, value: str, *rest: object) -> None:
        real(path, value, *rest)  # type: ignore[arg-type]
        lines.append(f"{'/'.join(path.rsplit('/', 2)[1:])} {value}")

    monkeypatch.setattr(knobs, "write", write_and_note)
    return lines
