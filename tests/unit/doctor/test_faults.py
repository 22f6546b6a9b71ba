"""Each thing that can be wrong with a node is found, alone, with the line that mends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.support.scratch_node import CONFIG, CRIO, LAUNCHED, MAINTAINED, NRI, PLUGINS, SERVICE, SOCKET, ScratchNode

HOOK = '{"version": "1.0.0", "hook": {"path": "/opt/nri/lib/nri", "args": ["nri", "hook", "create"]}}'
RUNTIMES = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc'
OURS = f'{RUNTIMES}]\n{RUNTIMES}.options]\n  BinaryName = "/opt/nri/sbin/nri-runc"\n'
PODMAN = '[engine]\nruntime = "nri-crun"\n[engine.runtimes]\nnri-crun = ["/opt/nri/sbin/nri-crun"]\n'


RESTART = ", then systemctl restart containerd"


class Wrong(NamedTuple):
    """A change to a node on which nothing is wrong, and what is then found."""

    change: Callable[[ScratchNode], object]
    fault: str
    mend: str


def off(node: ScratchNode) -> None:
    node.write(CONFIG, MAINTAINED.replace("false", "true"))


def unlaunched(node: ScratchNode) -> None:
    node.path(LAUNCHED).unlink()


def replace_containerd(node: ScratchNode) -> None:
    node.path("/proc/700/cmdline").unlink()


def native(node: ScratchNode) -> None:
    unlaunched(node)
    node.containerd("1.6.20~ds1", "version = 2\n")


def outside_and_refused(node: ScratchNode) -> None:
    unlaunched(node)
    node.outside()
    node.write(CONFIG, f"{MAINTAINED}  disable_connections = true\n")


def other_socket(node: ScratchNode) -> None:
    unlaunched(node)
    node.outside("--socket", "/run/other.sock")


def twice_for_sandboxes(node: ScratchNode) -> None:
    node.containerd("2.1.9", MAINTAINED)
    node.plugins("konfine", "clearcfs", path="/etc/nri/conf.json")


def crio_off(node: ScratchNode) -> None:
    replace_containerd(node)
    node.crio("1.29.1")


def crio_off_in_a_file(node: ScratchNode) -> None:
    replace_containerd(node)
    node.crio("1.31.0", "[crio.nri]\nenable_nri = false\n")


def crio_with_hooks(node: ScratchNode) -> None:
    replace_containerd(node)
    node.crio()
    node.write("/usr/share/containers/oci/hooks.d/10-nri-create.json", HOOK)


def crio_with_our_runtime(node: ScratchNode) -> None:
    replace_containerd(node)
    node.crio(config='[crio.runtime.runtimes.nri-runc]\nruntime_path = "/opt/nri/sbin/nri-runc"\n')
    node.write("/opt/nri/sbin/nri-runc", "", 0o755)


def podman_twice(node: ScratchNode) -> None:
    node.program("/usr/bin/podman", "podman version 5.4.2")
    node.write("/etc/containers/containers.conf", PODMAN)
    node.write("/opt/nri/sbin/nri-crun", "", 0o755)
    node.write("/usr/share/containers/oci/hooks.d/10-nri-create.json", HOOK)


def docker_without_ours(node: ScratchNode) -> None:
    node.program("/usr/bin/dockerd", "Docker version 28.2.2, build e6534b4")
    node.write("/etc/docker/daemon.json", '{"runtimes": {"nri-runc": {"path": "/opt/nri/sbin/nri-runc"}}}')


CASES = [
    Wrong(
        off,
        "nri-off: containerd 1.7.24: NRI is off, so the bridge can't serve it",
        f"set disable = false in {NRI} of {CONFIG}{RESTART}",
    ),
    Wrong(
        lambda node: (
            node.write(CONFIG, f'imports = ["conf.d/*.toml"]\n{MAINTAINED}'),
            node.write("/etc/containerd/conf.d/nri.toml", f"version = 2\n{NRI}\n  disable = true\n"),
        ),
        "nri-off: containerd 1.7.24: NRI is off, so the bridge can't serve it",
        f"set disable = false in {NRI} of /etc/containerd/conf.d/nri.toml{RESTART}",
    ),
    Wrong(
        lambda node: node.write(CONFIG, f'disabled_plugins = ["io.containerd.nri.v1.nri"]\n{MAINTAINED}'),
        "nri-off: containerd 1.7.24: NRI is off, so the bridge can't serve it",
        f'take "io.containerd.nri.v1.nri" out of disabled_plugins in {CONFIG}, then systemctl restart containerd',
    ),
    Wrong(
        lambda node: node.write(CONFIG, MAINTAINED.removeprefix("version = 2\n")),
        f"section-ignored nri-off: {CONFIG} has no version, so containerd 1.7 ignores {NRI} in it",
        f"write version = 2 as the first line of {CONFIG}{RESTART}",
    ),
    Wrong(
        lambda node: node.containerd("2.1.9", "[plugins.nri]\n  disable = false\n"),
        "section-ignored: containerd 2 ignores [plugins.nri]",
        f"rename [plugins.nri] to {NRI} in {CONFIG}{RESTART}",
    ),
    Wrong(
        lambda node: node.write(CONFIG, f"{MAINTAINED}  disable_connection = true\n"),
        f"unknown-key: {CONFIG}: {NRI} has disable_connection, which containerd does not know",
        f"rename it to disable_connections{RESTART}",
    ),
    Wrong(
        lambda node: node.write(CONFIG, f"{MAINTAINED}password hunter2\n"),
        f"unreadable nri-off: {CONFIG}: it is not TOML: see line 5, column 10",
        f"correct {CONFIG}{RESTART}",
    ),
    Wrong(
        lambda node: node.write(
            "/usr/bin/containerd", "#!/bin/sh\necho 'containerd x 1.7.24'\ntest $1 = --version\n", 0o755
        ),
        f"refused: {CONFIG}: containerd refuses it (`/usr/bin/containerd --config {CONFIG} config dump` says why)",
        f"correct {CONFIG}{RESTART}",
    ),
    Wrong(
        outside_and_refused,
        "connections-off: containerd 1.7.24: it accepts no connections, so a bridge from outside can't serve it",
        f"set disable_connections = false in {NRI} of {CONFIG}{RESTART}",
    ),
    Wrong(
        other_socket,
        "other-socket: process 812 connects to /run/other.sock, and containerd 1.7.24 listens on "
        "/var/run/nri/nri.sock",
        "start the bridge with --socket /var/run/nri/nri.sock",
    ),
    Wrong(
        lambda node: node.outside(),
        f"two-bridges: containerd 1.7.24 launches {LAUNCHED}, and process 812 runs from outside: one of them "
        "is too many",
        f"rm {LAUNCHED}, then systemctl restart containerd; or systemctl disable --now {SERVICE}",
    ),
    Wrong(
        lambda node: node.link(
            f"/etc/systemd/system/multi-user.target.wants/{SERVICE}", f"/lib/systemd/system/{SERVICE}"
        ),
        f"two-bridges: containerd 1.7.24 launches {LAUNCHED}, and {SERVICE} runs from outside: one of them is "
        "too many",
        f"rm {LAUNCHED}, then systemctl restart containerd; or systemctl disable --now {SERVICE}",
    ),
    Wrong(
        unlaunched,
        "no-way: plugins are configured (clearcfs), and nothing runs them",
        f"ln -s ../lib/v1bridge {LAUNCHED}{RESTART}",
    ),
    Wrong(
        lambda node: node.containerd("1.6.20~ds1", "version = 2\n"),
        "no-v2 directory-unread: containerd 1.6.20 has no NRI v2, so the bridge can't serve it",
        "put the plugins into /etc/nri/conf.json, or use nri-runc: docs/running.md",
    ),
    Wrong(
        native,
        "directory-unread: containerd 1.6.20 does not read /etc/nri/resource.d, so clearcfs never run",
        "put them into /etc/nri/conf.json, or use nri-runc: docs/running.md",
    ),
    Wrong(
        twice_for_sandboxes,
        "twice: clearcfs run twice for each pod: containerd 2.1.9 runs those of /etc/nri/conf.json itself "
        "for the sandbox",
        "rm /etc/nri/conf.json",
    ),
    Wrong(
        lambda node: (
            node.write(CONFIG, MAINTAINED + OURS),
            node.write("/opt/nri/sbin/nri-runc", "", 0o755),
        ),
        "twice: containerd 1.7.24: the bridge and nri-runc run every plugin twice",
        f"name runc instead of nri-runc in {CONFIG}",
    ),
    Wrong(
        lambda node: node.path(SOCKET).unlink(),
        "no-socket: /var/run/nri/nri.sock does not exist, though containerd 1.7.24 has NRI on: it was not "
        "restarted since",
        "systemctl restart containerd",
    ),
    Wrong(
        lambda node: node.write("/opt/nri/plugins/logger", "", 0o755),
        "plugin-name: /opt/nri/plugins/logger: a name without two digits and a dash in front keeps "
        "containerd from starting",
        "move /opt/nri/plugins/logger away",
    ),
    Wrong(
        lambda node: node.write("/opt/nri/plugins/20-other", "", 0o644),
        "not-executable: /opt/nri/plugins/20-other is not executable: the runtime does not launch it",
        "chmod 0755 /opt/nri/plugins/20-other",
    ),
    Wrong(
        lambda node: node.path("/opt/nri/lib/v1bridge").unlink(),
        f"dangling no-way dangling: {LAUNCHED} is a link to a file that does not exist: the runtime can't launch it",
        f"install it again, or rm {LAUNCHED}",
    ),
    Wrong(
        lambda node: node.write("/etc/nri/conf.d/10-v1bridge.conf", '{"logLevel": "hunter2"}'),
        "options: /etc/nri/conf.d/10-v1bridge.conf: logLevel: found a value (not shown), expected one of debug, "
        "info, warning, error",
        "correct /etc/nri/conf.d/10-v1bridge.conf",
    ),
    Wrong(
        lambda node: node.write(PLUGINS, '{"version": "0.1", "plugins": [{"type": 7}]}'),
        f"invalid: {PLUGINS}:1:41: plugins[0].type: found a value (not shown), expected a string (a file name "
        "of letters, ",
        "correct the file; `nri check` shows what was found",
    ),
    Wrong(
        lambda node: node.path("/opt/nri/bin/clearcfs").unlink(),
        f"plugin: clearcfs ({PLUGINS}): not found in /opt/nri/bin",
        "install clearcfs there, or remove its entry",
    ),
    Wrong(
        lambda node: node.path("/opt/nri/bin/clearcfs").chmod(0o777),
        "not-roots: /opt/nri/bin/clearcfs is writable by others (mode 0777",
        "chown root:root /opt/nri/bin/clearcfs; chmod 0755 /opt/nri/bin/clearcfs",
    ),
    Wrong(
        lambda node: node.write("/etc/nri/runtime.json", '{"deadline": "soon"}'),
        "runtime-options: /etc/nri/runtime.json: deadline: found a value (not shown), expected ",
        "correct /etc/nri/runtime.json",
    ),
    Wrong(
        lambda node: node.write(
            "/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\ncgroupDriver: systemd\n"
        ),
        "drivers-differ: containerd 1.7.24: runc has the cgroup driver cgroupfs, the kubelet systemd "
        "(/var/lib/kubelet/config.yaml)",
        f"set SystemdCgroup = true in the options of the runtime runc in {CONFIG}, then systemctl restart containerd "
        "and systemctl restart kubelet",
    ),
    Wrong(
        lambda node: node.write("/proc/1/mountinfo", "30 23 0:26 / /sys rw - sysfs sysfs rw\n"),
        "no-cgroups: no cgroup hierarchy with controllers is mounted: plugins find no cgroup",
        "run this command on the host, or mount cgroups at /sys/fs/cgroup",
    ),
    Wrong(
        crio_off,
        "nri-off: CRI-O 1.29.1: NRI is off, so the bridge can't serve it",
        "set enable_nri = true in [crio.nri] of /etc/crio/crio.conf.d/99-nri.conf, then systemctl restart crio",
    ),
    Wrong(
        crio_off_in_a_file,
        "nri-off: CRI-O 1.31.0: NRI is off, so the bridge can't serve it",
        f"set enable_nri = true in [crio.nri] of {CRIO}, then systemctl restart crio",
    ),
    Wrong(
        crio_with_hooks,
        "twice: CRI-O 1.31.2: the bridge and OCI hooks run every plugin twice",
        "rm /usr/share/containers/oci/hooks.d/10-nri-create.json",
    ),
    Wrong(
        crio_with_our_runtime,
        "twice: CRI-O 1.31.2: the bridge and nri-runc run every plugin twice",
        "name runc instead of nri-runc in /etc/crio/crio.conf.d/99-nri.conf",
    ),
    Wrong(
        podman_twice,
        "twice: podman: nri-runc and OCI hooks run every plugin twice",
        "rm /usr/share/containers/oci/hooks.d/10-nri-create.json",
    ),
    Wrong(
        docker_without_ours,
        "no-program: /opt/nri/sbin/nri-runc, which /etc/docker/daemon.json names, does not exist: no "
        "container starts with it",
        "install it, or correct /etc/docker/daemon.json",
    ),
]


def test_nothing_is_wrong_with_a_node_that_is_well(node: ScratchNode) -> None:
    assert node.well().faults() == []


@pytest.mark.parametrize("wrong", CASES, ids=lambda wrong: wrong.fault.partition(":")[0])
def test_what_is_wrong_is_found_alone_and_with_the_line_that_mends_it(node: ScratchNode, wrong: Wrong) -> None:
    node.well()
    wrong.change(node)
    codes, _, text = wrong.fault.partition(": ")
    faults = node.faults()
    assert sorted(fault.code for fault in faults) == sorted(codes.split())
    first = next(fault for fault in faults if fault.code == codes.split()[0])
    assert first.text.startswith(text)
    assert first.mend == wrong.mend
