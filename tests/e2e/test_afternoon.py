"""An author's afternoon: from an empty folder and the wheel to plugins that a real containerd runs."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.containerd.bridged import configure, create, knob, prepared
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


Types = Callable[..., str]
"""Runs a command that succeeds, as an author does; returns what it prints."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def types(need: object, home: Path, tmp_path: Path) -> Types:
    """The author's folder is `home`, and a virtual environment has the wheel."""
    wheels.copy_sources(tmp_path / "source")
    wheel = wheels.build(tmp_path / "source", tmp_path)
    environment = wheels.clean(home, wheels.environment(tmp_path / "venv", f"{wheel}[binaries,testing]"))

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def containerd(containerd_1_7: Release, installed: Path) -> Iterator[Containerd]:
    with Containerd(release=containerd_1_7, prepare=prepared(installed)) as containerd:
        yield containerd


def test_each_kind_is_built_and_works(
    types: Types, home: Path, containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    for name, options in KINDS.items():
        types("nri", "new", name, *options)
    types("nri", "build", *KINDS, "--name", "kinds")
    entries = {name: json.loads((home / name / f"10-{name}.conf").read_text())["plugins"] for name in KINDS}
    for name in KINDS:
        assert types("nri", "check", "--conf-dir", name, "--bin-dir", "dist/kinds").endswith("all is well\n")
        types("nri", "conformance", f"dist/kinds/{name}", "--conf", json.dumps(entries[name][0]["conf"]))

    # As the README of `nri new` says.
    shutil.copytree(home / "dist/kinds", containerd.enclosure.opt_nri / "own", symlinks=True)
    for name in KINDS:
        (containerd.enclosure.opt_nri / "bin" / name).symlink_to(f"/opt/nri/own/{name}")
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, *[entry for plugins in entries.values() for entry in plugins], {"type": "keeper"})
    levels = {f"level.{name}.example.com": "high" for name in ("leveler", "wisher")}
    pod = cri.run_pod("web", annotations=levels, labels={"io.kubernetes.pod.namespace": "default"})
    container = create(cri, pod)
    cri.start(container)
    assert knob(containerd, container, "cpu.shares") == "421"  # of the weight 50
    assert "GREETING=hello" in (containerd.process_of(container) / "environ").read_text().split("\0")
    (seen,) = [request for request in keeper.requests() if (request["state"], request["id"]) == ("create", container)]
    results = {result["plugin"]: result.get("metadata") for result in seen["results"]}
    assert results["greeter"] == {"greeting": f"welcome, {container[:12]}"}
    assert results["leveler"] == {"level": "high"}
    assert results["wisher"]["weight"].startswith("400, before ")
