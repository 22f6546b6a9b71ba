"""Three plugins in one folder of libraries, built once for all tests that look at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.authoring.authored import Built, build, plugin


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("authored")
    (folder / "packages/third").mkdir(parents=True)
    (folder / "packages/third/__init__.py").write_text(
        "def value():\n    from .late import VALUE\n    return VALUE\n"
    )
    (folder / "packages/third/late.py").write_text("VALUE = 'of a package'\n")
    (folder / "beside.py").write_text(
        "def mean():\n    import statistics\n    return str(statistics.mean([1, 3]))\n"
    )
    late = "from beside import mean; import third; result.metadata.update(mean=mean(), third=third.value())"
    (folder / "alpha.py").write_text(
        plugin("alpha", more="version = '1.2'; resident = True", invoke=late)
    )
    (folder / "beta").mkdir()
    (folder / "beta/beta.py").write_text(
        plugin("beta", more="resident = True", invoke="raise ValueError(request.conf)")
    )
    (folder / "beta/test_beta.py").write_text("import beta\n")
    (folder / "20-gamma.py").write_text(
        "from nri.v2 import stub\n\nclass Gamma(stub.V2Plugin):\n    def run_pod_sandbox(self, request, call):\n"
        "        print(request.pod.name, flush=True)\n\nstub.run(Gamma())\n"
    )
    words = [
        "alpha.py",
        "beta",
        "20-gamma.py",
        "--name",
        "pair",
        "--output",
        "out",
        "--conf",
        '{"cpus": "2-3"}',
    ]
    ran = build(folder, *words, path=str(folder / "packages"))
    assert ran.status == 0, ran.stderr
    return Built(folder, ran)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for sources."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"
