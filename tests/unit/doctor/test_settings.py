"""The settings of the runtimes: versions, imports, drop-in files, defaults, and the runtimes' own output."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from nri.doctor import FAULT, NOTE, OK, UNSEEN, Node, examine
from nri.process.launch import Output, launch
from tests.support.scratch_node import CONFIG, CRIO, MAINTAINED, NRI, ScratchNode


def levels(node: ScratchNode, code: str) -> list[str]:
    return [finding.level for finding in node.found(code)]


def texts(node: ScratchNode, code: str) -> list[str]:
    return [finding.text for finding in node.found(code)]


ON = "NRI is on; plugins of /opt/nri/plugins, socket /var/run/nri/nri.sock"


@pytest.mark.parametrize(
    ("version", "config", "is_on"),
    [
        ("1.7.0", None, False),
        ("2.0.0", None, True),
        ("2.3.4", None, True),
        ("1.7.24", MAINTAINED, True),
        ("1.7.24", "[plugins.nri]\n  disable = false\n", True),
        ("2.1.9", f"version = 3\n{NRI}\n  disable = true\n", False),
        ("2.3.0", f"version = 4\n{NRI}\n  disable = true\n", False),
        ("2.1.9", 'version = 2\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n', False),
    ],
)
def test_nri_is_on_by_version_and_file(node: ScratchNode, version: str, config: str | None, is_on: bool) -> None:
    node.containerd(version, config)
    node.listen()
    assert texts(node, "enabled") == ([ON] if is_on else [])
    assert levels(node, "nri-off") == ([] if is_on else [NOTE])


@pytest.mark.parametrize(("version", "is_on"), [("1.29.9", False), ("1.30.0", True), ("1.36.3", True)])
def test_crio_has_nri_by_default_since_1_30(node: ScratchNode, version: str, is_on: bool) -> None:
    node.crio(version)
    node.listen()
    assert texts(node, "enabled") == ([ON] if is_on else [])


def test_the_last_file_of_crio_counts_whatever_its_name(node: ScratchNode) -> None:
    node.crio(config="[crio.nri]\nenable_nri = false\n")
    node.write(
        "/etc/crio/crio.conf.d/20-more/on", "[crio.nri]\nenable_nri = true\nnri_plugin_request_timeout = 9000000000\n"
    )
    assert texts(node, "enabled") == [ON]
    assert texts(node, "settings") == ["nri_plugin_request_timeout is 9s"]


def test_the_output_of_containerd_counts_before_its_files(node: ScratchNode) -> None:
    dump = f'version = 2\n{NRI}\ndisable = false\nplugin_path = "/opt/other"\nplugin_request_timeout = "5s"\n'
    node.containerd(config=None, dump=dump)
    assert texts(node, "enabled") == ["NRI is on; plugins of /opt/other, socket /var/run/nri/nri.sock"]
    assert texts(node, "settings") == ["plugin_request_timeout is 5s"]


def test_without_programs_the_files_count_and_what_is_not_in_them_is_not_known(node: ScratchNode) -> None:
    node.containerd(config="version = 2\n")
    found = examine(Node(str(node.root))).findings
    assert [finding.level for finding in found if finding.code == "enabled"] == [UNSEEN]
    node.write(CONFIG, MAINTAINED)
    found = examine(Node(str(node.root))).findings
    assert [finding.text for finding in found if finding.code == "enabled"] == [ON]


def test_imports_of_containerd_1_7_replace_the_table_and_those_of_2_are_merged(node: ScratchNode) -> None:
    config = f'imports = ["/etc/containerd/conf.d/*.toml", "more.toml"]\n{MAINTAINED}'
    node.write("/etc/containerd/more.toml", f'version = 2\n{NRI}\n  plugin_request_timeout = "7s"\n')
    node.containerd("1.7.24", config)
    assert texts(node, "enabled") == []
    node.containerd("2.1.9", config)
    assert texts(node, "enabled") == [ON]
    assert texts(node, "settings") == ["plugin_request_timeout is 7s"]


def test_imports_that_go_in_a_circle_end(node: ScratchNode) -> None:
    node.containerd("2.1.9", f'imports = ["config.toml", "../containerd/config.toml"]\n{MAINTAINED}')
    assert texts(node, "enabled") == [ON]


@pytest.mark.parametrize("path", [CONFIG, CRIO, "/etc/docker/daemon.json"])
def test_a_file_that_our_user_may_not_read_is_not_seen_and_no_fault(
    node: ScratchNode, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    node.containerd()
    node.crio()
    node.process(814, "/usr/bin/dockerd")
    hidden, real = str(node.write(path, "{")), os.open

    def refuse(name: str, *arguments: int, **options: int) -> int:
        if name == hidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, *arguments, **options)

    monkeypatch.setattr("nri.doctor.node.os.open", refuse)
    assert [(each.level, each.text) for each in node.found("unreadable")] == [(UNSEEN, f"{path}: permission denied")]


def test_an_import_that_is_missing_keeps_containerd_1_7_from_starting(node: ScratchNode) -> None:
    config = f'imports = ["/etc/containerd/absent.toml"]\n{MAINTAINED}'
    node.containerd("1.7.24", config)
    assert levels(node, "unreadable") == [FAULT]
    node.containerd("2.1.9", config)
    assert levels(node, "unreadable") == []
    assert levels(node, "import-missing") == [NOTE]


@pytest.mark.parametrize("option", [["--config", "/srv/c.toml"], ["--config=/srv/c.toml"], ["-c", "/srv/c.toml"]])
def test_the_file_of_the_running_daemon_is_read(node: ScratchNode, option: list[str]) -> None:
    node.containerd(config=None)
    node.process(700, "/usr/bin/containerd", *option)
    node.write("/srv/c.toml", MAINTAINED)
    assert texts(node, "enabled") == [ON]


def test_a_daemon_that_sees_other_files_is_not_judged_by_these(node: ScratchNode) -> None:
    node.well()
    node.process(900, "/usr/bin/containerd", "--config", "/absent.toml", namespace="mnt:[9]")
    (finding,) = node.found("elsewhere")
    assert finding.level == UNSEEN
    assert finding.mend.endswith("nri doctor --root /proc/900/root")
    assert node.faults() == []


def test_a_containerd_without_cri_is_not_a_runtime_of_the_plugins(node: ScratchNode) -> None:
    node.containerd("1.7.24", 'disabled_plugins = ["cri"]\n')
    assert levels(node, "no-cri") == [NOTE]
    assert node.faults() == []


def test_a_service_of_containerd_that_does_not_run_is_looked_at_all_the_same(node: ScratchNode) -> None:
    node.well().write("/opt/nri/plugins/logger", "", 0o755)
    node.path("/proc/700/cmdline").unlink()
    assert levels(node, "not-running") == [NOTE]
    assert [finding.code for finding in node.faults()] == ["plugin-name"]


def test_a_newer_runtime_tells_the_kubelet_its_driver(node: ScratchNode) -> None:
    node.write("/var/lib/kubelet/config.yaml", '{"cgroupDriver": "systemd"}')
    node.write("/var/lib/kubelet/config.yaml", 'apiVersion: x\ncgroupDriver: "systemd" # as the runtime\n')
    node.containerd("2.1.9", None)
    assert levels(node, "drivers-differ") == [NOTE]
    node.containerd("1.6.20", None)
    assert levels(node, "drivers-differ") == [FAULT]


def test_crio_has_the_systemd_driver_by_default(node: ScratchNode) -> None:
    node.write("/var/lib/kubelet/config.yaml", "cgroupDriver: cgroupfs\n")
    node.crio("1.27.0")
    (fault,) = node.faults()
    assert fault.mend == (
        'set cgroup_manager = "cgroupfs" in [crio.runtime] of /etc/crio/crio.conf, then systemctl restart crio and '
        "systemctl restart kubelet"
    )
    node.write(CRIO, '[crio.runtime]\ncgroup_manager = "cgroupfs"\n')
    assert node.faults() == []


def test_podman_and_docker_with_our_runtime_are_ways(node: ScratchNode) -> None:
    node.plugins("clearcfs")
    node.program("/usr/bin/podman", "podman version 5.4.2")
    node.program("/usr/bin/dockerd", "Docker version 28.2.2, build e6534b4")
    runtime = '[engine]\nruntime = "nri-crun"\n[engine.runtimes]\nnri-crun = ["/absent", "/opt/nri/sbin/nri-crun"]\n'
    node.write("/etc/containers/containers.conf.d/50-nri.conf", runtime)
    daemon = '{"runtimes": {"nri-runc": {"path": "/opt/nri/sbin/nri-runc"}}, "default-runtime": "nri-runc"}'
    node.write("/etc/docker/daemon.json", daemon)
    for name in ("nri-runc", "nri-crun"):
        node.write(f"/opt/nri/sbin/{name}", "", 0o755)
    assert texts(node, "way") == ["docker: nri-runc", "podman: nri-runc"]
    assert node.faults() == []


def test_what_is_well_is_said(node: ScratchNode) -> None:
    found = node.well().examine().findings
    assert {finding.level for finding in found} == {OK, NOTE, UNSEEN}
    assert "containerd 1.7.24: the bridge, launched as /opt/nri/plugins/10-v1bridge" in [
        finding.text for finding in found if finding.code == "way"
    ]


def test_the_options_of_a_bridge_in_a_container_are_not_looked_for_on_the_host(node: ScratchNode) -> None:
    node.containerd()
    node.plugins("clearcfs")
    node.listen()
    node.write("/etc/nri/v1bridge.json", "not JSON")
    command = ("/opt/nri/lib/nri", "bridge", "--config", "/etc/nri/v1bridge.json", "--socket", "/host/nri.sock")
    node.process(812, *command, namespace="mnt:[9]")
    assert node.faults() == []
    assert levels(node, "options") == [UNSEEN]
    node.process(812, *command)
    assert [fault.code for fault in node.faults()] == ["options", "other-socket"]


def test_the_watchdog_of_a_bridge_is_no_bridge(node: ScratchNode) -> None:
    node.containerd()
    node.outside()
    node.process(813, "/opt/nri/lib/nri", "bridge", name="nri-watchdog")
    assert texts(node, "outside") == ["process 812 runs from outside"]


@pytest.mark.parametrize(
    ("command", "is_bridge"),
    [
        (["/usr/bin/python3", "/usr/local/bin/nri", "bridge"], True),
        (["nri", "bridge", "--config", "/etc/nri/v1bridge.json"], True),
        (["/srv/v1bridge"], True),
        (["nri", "bridge", "--help"], False),
        (["nri", "status", "--watch"], False),
        (["/opt/nri/plugins/10-v1bridge"], False),
        (["python3", "-m", "nri.cli.entry", "doctor"], False),
    ],
)
def test_a_bridge_from_outside_is_known_by_its_command_line(
    node: ScratchNode, command: list[str], is_bridge: bool
) -> None:
    node.process(812, *command)
    assert bool(node.found("outside")) == is_bridge


def test_a_program_that_is_several_is_called_by_its_name(node: ScratchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """As k3s: one executable, which looks at the name that it is called by."""
    called = []

    def launched(path: str, argv: list[str], *rest: Any, **options: Any) -> Output:
        called.append((path.removeprefix(str(node.root)), argv))
        return launch(path, argv, *rest, **options)

    monkeypatch.setattr("nri.doctor.node.launch", launched)
    node.write("/srv/k3s", "#!/bin/sh\necho k3s version v1.30.1\n", 0o755)
    node.process(700, "/srv/k3s")
    node.write("/proc/700/cmdline", "containerd\0")
    found = texts(node, "version")
    assert called[0] == ("/srv/k3s", ["containerd", "--version"])
    assert found == ["/srv/k3s: no version of containerd in the output of --version", "cgroup v2"]


def test_the_service_of_a_daemon_is_the_one_to_restart(node: ScratchNode) -> None:
    node.well().write(CONFIG, MAINTAINED.replace("false", "true"))
    node.write("/proc/700/cgroup", "1:name=systemd:/system.slice/k3s.service\n0::/system.slice/k3s.service\n")
    (fault,) = node.faults()
    assert fault.mend.endswith(", then systemctl restart k3s")
