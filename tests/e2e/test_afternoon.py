"""An author's afternoon: from an empty folder and the wheel to plugins that a real containerd runs."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import grpc
import pytest

from harness.containerd.bridged import configure, create, knob, log, prepared
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd, Release
from tests.e2e.standin import StandIn
from tests.support import five, wheels

pytestmark = pytest.mark.runtime

KINDS = {
    "greeter": [],
    "leveler": ["--reads", "annotations"],
    "wisher": ["--reads", "annotations", "--writes", "cgroup"],
    "weigher": ["--writes", "cgroup"],
    "giver": ["--adjusts", "container"],
}


Types = Callable[..., str]
"""Runs a command that succeeds, or has this exit status, as an author does; returns what it prints."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def types(need: object, home: Path, tmp_path: Path) -> Types:
    """The author's folder is `home`, and a virtual environment has the wheel."""
    wheels.copy_sources(tmp_path / "source")
    wheel = wheels.build(tmp_path / "source", tmp_path)
    environment = wheels.clean(
        home, wheels.environment(tmp_path / "venv", f"{wheel}[binaries,testing]")
    )

    def run(*words: str, status: int = 0) -> str:
        done = subprocess.run(
            words, cwd=home, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def containerd(containerd_1_7: Release, installed: Path) -> Iterator[Containerd]:
    with Containerd(release=containerd_1_7, prepare=prepared(installed)) as containerd:
        yield containerd


def install(containerd: Containerd, built: Path, names: Iterable[str]) -> None:
    """Install plugins as the README of `nri new` says."""
    shutil.copytree(built, containerd.enclosure.opt_nri / "own", symlinks=True)
    for name in names:
        (containerd.enclosure.opt_nri / "bin" / name).symlink_to(f"/opt/nri/own/{name}")


def test_each_kind_is_built_and_works(
    types: Types, home: Path, containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    for name, options in KINDS.items():
        types("nri", "new", name, *options)
    types("nri", "build", *KINDS, "--name", "kinds")
    entries = {
        name: json.loads((home / name / f"10-{name}.conf").read_text())["plugins"] for name in KINDS
    }
    for name in KINDS:
        assert types("nri", "check", "--conf-dir", name, "--bin-dir", "dist/kinds").endswith(
            "all is well\n"
        )
        types(
            "nri",
            "conformance",
            f"dist/kinds/{name}",
            "--conf",
            json.dumps(entries[name][0]["conf"]),
        )

    install(containerd, home / "dist/kinds", KINDS)
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(
        containerd,
        *[entry for plugins in entries.values() for entry in plugins],
        {"type": "keeper"},
    )
    levels = {f"level.{name}.example.com": "high" for name in ("leveler", "wisher")}
    pod = cri.run_pod("web", annotations=levels, labels={"io.kubernetes.pod.namespace": "default"})
    container = create(cri, pod)
    cri.start(container)
    assert knob(containerd, container, "cpu.shares") == "421"  # of the weight 50
    assert "GREETING=hello" in (containerd.process_of(container) / "environ").read_text().split(
        "\0"
    )
    (seen,) = [
        request
        for request in keeper.requests()
        if (request["state"], request["id"]) == ("create", container)
    ]
    results = {result["plugin"]: result.get("metadata") for result in seen["results"]}
    assert results["greeter"] == {"greeting": f"welcome, {container[:12]}"}
    assert results["leveler"] == {"level": "high"}
    assert results["wisher"]["weight"].startswith("400, before ")


def test_simulate_shows_what_a_node_does(
    types: Types, home: Path, containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    """Each step of the tutorial, with plugins of which one is refused, one is ignored, and one misses a state."""
    sources = five.write(home)
    ask = {"cap.example.com": "20000"}
    words = [*sources, "--cgroups=v1", "--memory=0", "--json", "--annotation=cap.example.com=20000"]
    shown = json.loads(types("nri", "simulate", *words, status=1))  # of the plugin that is ignored
    types("nri", "build", *sources, "--name", "five")
    assert types("nri", "check", "--conf-dir", ".", "--bin-dir", "dist/five").endswith(
        "all is well\n"
    )
    for entry in five.ENTRIES:
        types(
            "nri",
            "conformance",
            f"dist/five/{entry['type']}",
            "--conf",
            json.dumps(entry.get("conf", {})),
        )

    install(containerd, home / "dist/five", five.SOURCES)
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "last", tmp_path / "kept")
    configure(containerd, *five.ENTRIES, {"type": "last", "states": ["setup", "update"]})
    labels = {"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.name": "web-0"}
    pod = cri.run_pod("web-0", annotations=ask, labels=labels)
    container = create(cri, pod)
    cri.start(container)
    assert "POD=web-0" in (containerd.process_of(container) / "environ").read_text().split("\0")
    assert knob(containerd, container, "cpu.cfs_quota_us") == "20000"
    cpu = {"cpu_shares": 1024, "cpu_quota": 100_000, "cpu_period": 100_000}
    cri.update_resources(container, **cpu, memory_limit_in_bytes=512 << 20)
    assert knob(containerd, container, "cpu.cfs_quota_us") == "20000"

    seen: dict[tuple[str, str], str] = {}
    for request in keeper.requests():
        if request["id"] == container:
            for result in request["results"]:
                words = [f"{key}={value}" for key, value in (result.get("metadata") or {}).items()]
                seen[request["state"], result["plugin"]] = " ".join(words) or "ok"
    of_container = {
        (row["event"], row["plugin"]): row["result"] for row in shown if row["container"]
    }
    assert {key: of_container[key] for key in seen} == seen
    assert {state for state, _ in seen} == {"setup", "create", "update"}
    ignored = "guard: the request lacks the extension configuration: "
    assert ignored.partition(": ")[2] in of_container["setup", "guard"]
    assert ignored in log(containerd)

    refused = create(
        cri, cri.run_pod("web-1", annotations={"cap.example.com": "much"}, labels=labels)
    )
    with pytest.raises(
        grpc.RpcError, match=r"cap\.example\.com: found 'much', expected microseconds"
    ):
        cri.start(refused)
