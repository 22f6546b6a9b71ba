"""Garbage in the place of each file: the doctor ends, changes nothing, quotes nothing, says what it could not see."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.doctor import UNSEEN, Node, NodeFinding, examine
from tests.support.scratch_node import CONFIG, PLUGINS, SOCKET, ScratchNode

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "hunter2"


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64 + SECRET.encode())


def long(path: Path) -> None:
    with path.open("wb") as file:
        file.write(SECRET.encode() * 10)
        file.truncate(10 * 1024 * 1024)


def deep(path: Path) -> None:
    path.write_text("[" * 100_000 + SECRET)


def other_types(path: Path) -> None:
    path.write_text(
        f'version = "{SECRET}"\nimports = [1, "/etc/../../x/*", "{path}", "\\u0000"]\ndisabled_plugins = "{SECRET}"\n'
        '[plugins."io.containerd.nri.v1.nri"]\ndisable = 7\nsocket_path = []\nplugin_path = 1979-05-27\n'
        '[plugins."io.containerd.nri.v1.nri".default_validator]\nenable = true\nrequired_plugins = 4\n'
        '[plugins."io.containerd.grpc.v1.cri"]\ncontainerd = [1]\n'
        "[crio]\nnri = 7\nruntime = {runtimes = {x = 7}, hooks_dir = 7}\n"
        '[engine]\nruntime = 7\nruntimes = {a = 1, b = [1], c = []}\nhooks_dir = "x"\n'
    )


def other_json(path: Path) -> None:
    path.write_text('{"runtimes": {"a": 1, "b": {"path": 7}}, "default-runtime": [], "hook": [], "plugins": 7}')


def empty(path: Path) -> None:
    path.write_bytes(b"")


def directory(path: Path) -> None:
    path.mkdir()
    (path / "conf").mkdir()


def circle(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("/nonexistent")


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def out_of_the_root(path: Path) -> None:
    path.symlink_to("../" * 30 + "etc/shadow")


OPTIONS, DAEMON = "/etc/nri/conf.d/10-v1bridge.conf", "/etc/docker/daemon.json"
HOOK = "/usr/share/containers/oci/hooks.d/10.json"
KUBELET, LOG, CLEARCFS = "/var/lib/kubelet/config.yaml", "/var/log/syslog", "/opt/nri/bin/clearcfs"
LAUNCHED, MOUNTS, SOCKETS = "/opt/nri/plugins/10-v1bridge", "/proc/1/mountinfo", "/proc/net/unix"
GARBAGE: list[tuple[Callable[[Path], object], list[str]]] = [
    (other_types, [CONFIG, "/etc/crio/crio.conf", "/etc/containers/containers.conf", SOCKETS]),
    (binary, [CONFIG, "/etc/os-release", KUBELET]),
    (binary, [OPTIONS, MOUNTS, SOCKETS]),
    (binary, ["/usr/bin/containerd"]),
    (deep, [CONFIG, DAEMON, HOOK]),
    (circle, [PLUGINS, SOCKET, "/etc/crio/crio.conf.d/10.conf", LAUNCHED, CLEARCFS]),
    (circle, ["/opt/nri/plugins", "/etc/nri/resource.d"]),
    (other_json, [PLUGINS, DAEMON, HOOK]),
    (long, [PLUGINS, "/etc/os-release", LOG]),
    (empty, [SOCKET, OPTIONS, "/opt/nri/plugins", "/proc/700/cmdline"]),
    (device, ["/etc/nri/conf.json"]),
    (directory, [OPTIONS, LAUNCHED, KUBELET]),
    (out_of_the_root, ["/etc/nri/runtime.json"]),
    (os.mkfifo, [CLEARCFS, LOG]),
    (dangling, [LAUNCHED]),
]


@pytest.mark.parametrize(("kind", "files"), GARBAGE)
def test_garbage_in_the_place_of_files_is_survived(
    node: ScratchNode, kind: Callable[[Path], object], files: list[str]
) -> None:
    node.well()
    node.crio()
    node.program("/usr/bin/dockerd", "Docker version 28.2.2, build e6534b4")
    node.program("/usr/bin/podman", "podman version 5.4.2")
    for file in files:
        place = node.path(file)
        if place.is_dir():
            place.rename(node.root / f"away-{place.name}")
        else:
            place.unlink(missing_ok=True)
        kind(place)
    before = snapshot(node.root)
    examined = examine(Node(str(node.root)), within=100)
    assert [finding for finding in examined.findings if finding.code in ("failed", "hangs")] == []
    assert SECRET not in repr(examined.findings)
    assert all(len(finding.text) < 2100 for finding in examined.findings)
    assert len(examined.findings) > 10
    assert snapshot(node.root) == before


def snapshot(root: Path) -> list[tuple[str, int, int]]:
    """Each path below a directory with its mode and the time of its last change."""
    paths = sorted(Path(folder) / name for folder, folders, names in os.walk(root) for name in [*folders, *names])
    return [(str(path), path.lstat().st_mode, path.lstat().st_mtime_ns) for path in paths]


def test_no_file_at_all_is_survived(tmp_path: Path) -> None:
    examined = examine(Node(str(tmp_path)), within=100)
    assert examined.is_well
    assert [finding for finding in examined.findings if finding.code in ("failed", "hangs")] == []


def test_a_subject_that_fails_is_named_and_the_others_count(
    node: ScratchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("nri.doctor.owners.findings", fail)
    found = node.well().examine()
    (text,) = unseen(found.findings, "failed")
    assert text.startswith("nri doctor failed here: RuntimeError in ")
    assert {"log", "cgroups"} <= {finding.subject for finding in found.findings}


def test_a_subject_that_hangs_is_named_and_the_others_count(
    node: ScratchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr("nri.doctor.owners.findings", lambda *_: release.wait())
    try:
        found = node.well().examine(within=0.5)
    finally:
        release.set()
    assert found.hangs == ["files and owners"]
    assert unseen(found.findings, "hangs") == ["not done within 0.5 s: a file or directory hangs"]
    assert "log" in {finding.subject for finding in found.findings}


def test_a_program_that_hangs_is_killed_and_named(node: ScratchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.doctor.node.WITHIN", 0.2)
    monkeypatch.setattr(Node.run, "__kwdefaults__", {"within": 0.2, "name": ""})
    node.well().write("/usr/bin/containerd", "#!/bin/sh\nexec sleep 1000\n", 0o755)
    found = node.examine()
    assert unseen(found.findings, "version") == ["/usr/bin/containerd: killed: not done within 0.2 s"]


def test_a_program_that_others_can_write_to_is_not_run(node: ScratchNode) -> None:
    node.well().path("/usr/bin/containerd").chmod(0o777)
    (text,) = unseen(node.examine().findings, "version")
    assert text.startswith("/usr/bin/containerd: not run: is writable by others (mode 0777")


def unseen(findings: list[NodeFinding], code: str) -> list[str]:
    return [finding.text for finding in findings if finding.level == UNSEEN and finding.code == code]
