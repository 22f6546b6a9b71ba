"""An author's afternoon: from an empty folder and the wheel to plugins that a real containerd runs."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.containerd import image
from harness.containerd.bridged import configure, knob, prepared
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd, Release
from tests.e2e.standin import StandIn
from tests.support import wheels

pytestmark = pytest.mark.runtime

KINDS = {
    "greeter": [],
    "leveler": ["--reads", "annotations"],
    "wisher": ["--reads", "annotations", "--writes", "cgroup"],
    "weigher": ["--writes", "cgroup"],
    "giver": ["--adjusts", "container"],
}


class Author:
    """A person with a folder, and a virtual environment that has the wheel."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self.folder, self._environment = folder, wheels.clean(folder, commands)

    def types(self, *words: str, cwd: str = ".") -> str:
        """Run a command that succeeds; return what it prints."""
        done = subprocess.run(
            words, cwd=self.folder / cwd, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def author(need: object, tmp_path_factory: pytest.TempPathFactory) -> Author:
    place = tmp_path_factory.mktemp("author")
    wheels.copy_sources(place / "source")
    wheel = wheels.build(place / "source", place)
    (place / "home").mkdir()
    return Author(place / "home", wheels.environment(place / "venv", f"{wheel}[binaries,testing]"))


@pytest.fixture
def containerd(containerd_1_7: Release, installed: Path) -> Iterator[Containerd]:
    with Containerd(release=containerd_1_7, prepare=prepared(installed)) as containerd:
        yield containerd


def install(containerd: Containerd, folder: Path, *plugins: str) -> None:
    """Install plugins and their entries as the README of `nri new` says."""
    target = containerd.enclosure.opt_nri / "own"
    shutil.copytree(folder, target, symlinks=True)
    for plugin in plugins:
        (containerd.enclosure.opt_nri / "bin" / plugin).symlink_to(f"/opt/nri/own/{plugin}")


def entries(author: Author, *plugins: str) -> list[dict[str, object]]:
    documents = [json.loads((author.folder / name / f"10-{name}.conf").read_text()) for name in plugins]
    return [entry for document in documents for entry in document["plugins"]]


def start(cri: Cri, containerd: Containerd, **annotations: str) -> tuple[str, Path]:
    """Start a container; return its id and /proc/PID of its process."""
    pod = cri.run_pod("web", annotations=annotations, labels={"io.kubernetes.pod.namespace": "default"})
    container = cri.create_container(pod, "app", image=image.NAME, command=image.FOREVER)
    cri.start(container)
    return container, containerd.process_of(container)


def test_each_kind_is_built_and_works(author: Author, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    for name, options in KINDS.items():
        author.types("nri", "new", name, *options)
    author.types("nri", "build", *KINDS, "--name", "kinds")
    for name in KINDS:
        checked = author.types("nri", "check", "--conf-dir", name, "--bin-dir", "dist/kinds")
        assert checked.endswith("all is well\n")
        author.types(
            "nri", "conformance", f"dist/kinds/{name}", "--conf", json.dumps(entries(author, name)[0]["conf"])
        )

    install(containerd, author.folder / "dist/kinds", *KINDS)
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, *entries(author, *KINDS), {"type": "keeper"})
    levels = {f"level.{name}.example.com": "high" for name in ("leveler", "wisher")}
    container, process = start(cri, containerd, **levels)
    assert knob(containerd, container, "cpu.shares") == "421"  # of the weight 50
    assert "GREETING=hello" in (process / "environ").read_text().split("\0")
    (seen,) = [request for request in keeper.requests() if (request["state"], request["id"]) == ("create", container)]
    results = {result["plugin"]: result.get("metadata") for result in seen["results"]}
    assert results["greeter"] == {"greeting": f"welcome, {container[:12]}"}
    assert results["leveler"] == {"level": "high"}
    assert results["wisher"]["weight"].startswith("400, before ")
