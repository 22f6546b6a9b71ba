"""The rule for plugins that containerd runs itself."""

import os
import socket
from pathlib import Path

import pytest

from nri.client.oci import KIND_KEY
from nri.runtime import caller

SHIM = "/usr/bin/containerd-shim-runc-v2"
ADDRESS = "/run/containerd/containerd.sock"
UNKNOWN = "the version of containerd at {} is not known: {}; its plugins may run twice"


@pytest.mark.parametrize(
    ("version", "sandbox", "container"),
    [
        ((1, 2), False, False),
        ((1, 3), True, True),
        ((1, 6), True, True),
        ((1, 7), False, False),
        ((2, 0), True, False),
    ],
)
def test_what_each_generation_runs_itself(version: tuple[int, int], sandbox: bool, container: bool) -> None:
    assert caller.runs_for(version, is_sandbox=True) == sandbox
    assert caller.runs_for(version, is_sandbox=False) == container


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ([SHIM, "-namespace", "k8s.io", "-id", "x", "-address", ADDRESS], ADDRESS),
        ([SHIM, "-namespace=k8s.io", f"--address={ADDRESS}", "delete"], ADDRESS),
        ([SHIM, "-namespace", "moby", "-id", "x", "-address", ADDRESS], ""),
        ([SHIM, "-namespace", "k8s.io", "-address"], ""),
        (["/usr/bin/conmon", "-namespace", "k8s.io", "-address", ADDRESS], ""),
        ([], ""),
    ],
)
def test_a_shim_of_kubernetes_is_known_by_its_command_line(words: list[str], address: str) -> None:
    assert caller.address_of_shim(words) == address


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n", (1, 6)),
        ("containerd github.com/containerd/containerd/v2 v2.1.9 abc\n", (2, 1)),
        ("containerd containerd.io 1.7.0-rc.1 abc", (1, 7)),
    ],
)
def test_the_version_of_containerd(output: str, version: tuple[int, int]) -> None:
    assert caller.version_in(output) == version


def test_other_output_is_no_version() -> None:
    for output in ("", "containerd x HEAD.m abc", "a b v", "a b 1", "a b 1.x"):
        with pytest.raises(ValueError, match="it prints no version"):
            caller.version_in(output)


def test_a_container_without_the_annotation_is_not_of_kubernetes() -> None:
    said: list[str] = []
    assert not caller.runs_plugins_itself({}, os.getpid(), said.append)
    assert not caller.runs_plugins_itself({KIND_KEY: "container"}, os.getpid(), said.append)
    assert said == []


def test_a_containerd_without_a_known_version_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    address = str(tmp_path / "sock")
    monkeypatch.setattr(caller, "command_line", lambda pid: [SHIM, "-namespace", "k8s.io", "-address", address])
    assert not caller.runs_plugins_itself({KIND_KEY: "container"}, 1, said.append)
    with socket.socket(socket.AF_UNIX) as listening:  # this Python
        listening.bind(address)
        listening.listen()
        assert not caller.runs_plugins_itself({KIND_KEY: "sandbox"}, 1, said.append)
    assert said == [UNKNOWN.format(address, why) for why in ("No such file or directory", "it prints no version")]
