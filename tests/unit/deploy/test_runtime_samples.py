"""The samples that make an engine call `nri-runc`: they name it where it is installed."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import toml
from tests.support.installing import DEPLOY, ROOT

NRI_RUNC = "/opt/nri/sbin/nri-runc"


def read(name: str) -> Any:
    text = (DEPLOY / name).read_text()
    return json.loads(text) if name.endswith(".json") else tomllib.loads(text)


def test_podman_docker_and_crio_call_the_installed_runtimes() -> None:
    assert "for runtime in nri-runc nri-crun;" in (ROOT / "tools/binaries").read_text()
    engine = read("podman/50-nri.conf")["engine"]
    assert engine["runtimes"] == {name: [f"/opt/nri/sbin/{name}"] for name in ("nri-crun", "nri-runc")}
    assert {engine["runtime"], *engine["runtimes"]} <= set(engine["runtime_supports_json"])
    daemon = read("docker/daemon.json")
    assert daemon["runtimes"][daemon["default-runtime"]] == {"path": NRI_RUNC}
    ((name, runtime),) = read("crio/50-nri.conf")["crio"]["runtime"]["runtimes"].items()
    # Another name or root would hide the containers that exist from CRI-O.
    assert runtime == {
        "runtime_path": f"/opt/nri/sbin/nri-{name}",
        "runtime_type": "oci",
        "runtime_root": f"/run/{name}",
    }


@pytest.mark.parametrize(
    ("name", "version", "cri"),
    [
        ("config-1.toml", (1, 7), "io.containerd.grpc.v1.cri"),
        ("config-2.toml", (2, 1), "io.containerd.cri.v1.runtime"),
    ],
)
def test_containerd_is_configured_as_in_the_tests_that_run_it(name: str, version: tuple[int, ...], cri: str) -> None:
    sample = read(f"containerd/{name}")
    tested = tomllib.loads(toml.config(version, root=Path("/r"), socket=Path("/s"), oci_runtime=NRI_RUNC))
    assert sample["version"] == tested["version"]
    assert sample["plugins"][cri]["containerd"]["runtimes"] == tested["plugins"][cri]["containerd"]["runtimes"]
