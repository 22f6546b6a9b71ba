"""States of a node, as an operator meets them: each cause is found once, with the command that fixes it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.config import refused
from nri.config.site import Site
from nri.doctor import engines
from nri.doctor.facts import POD
from nri.doctor.node import MAX_FILE, Node, reason
from nri.node.in_use import InUse
from nri.status import AskError
from tests.support import status_documents as documents
from tests.support.scratch_node import (
    CONFIG,
    LAUNCHED,
    MAINTAINED,
    NRI,
    PLUGINS,
    SERVICE,
    SOCKET,
    ScratchNode,
)
from tests.support.status_server import serving

HOOK = (
    '{"version": "1.0.0", "hook": {"path": "/opt/nri/lib/nri", "args": ["nri", "hook", "create"]}}'
)
HOOKS = "/usr/share/containers/oci/hooks.d/10-nri-create.json"
RUNTIMES = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc'
OURS = f'{RUNTIMES}]\n{RUNTIMES}.options]\n  BinaryName = "/opt/nri/sbin/nri-runc"\n'
PODMAN = {
    "version": {"Version": "5.4.2"},
    "host": {"ociRuntime": {"path": "/opt/nri/sbin/nri-crun"}},
}
DOCKER = {
    "DefaultRuntime": "nri-runc",
    "Runtimes": {"nri-runc": {"path": "/opt/nri/sbin/nri-runc"}},
}
RESTART = "systemctl restart containerd"
KUBECTL = "kubectl -n kube-system"
CHECK = "nri check says what was found and what is expected"
MORE = "nri status shows more; nri status --pod NAMESPACE/NAME, a pod's"


@pytest.fixture
def node(tmp_path: Path) -> ScratchNode:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    return ScratchNode(root)


def no_bridge(node: ScratchNode) -> None:
    node.path(LAUNCHED).unlink()
    node.status = None


def only_enabled(node: ScratchNode) -> None:
    no_bridge(node)
    node.write(f"/etc/systemd/system/multi-user.target.wants/{SERVICE}", "")


def crio_with_hooks(node: ScratchNode) -> None:
    node.crio()
    node.write(HOOKS, HOOK)


def not_let_in(node: ScratchNode) -> None:
    outside(node)
    node.write(CONFIG, f"{MAINTAINED}  disable_connections = true\n")


def native(node: ScratchNode) -> None:
    no_bridge(node)
    node.containerd("1.6.20~ds1", "version = 2\n")


def outside(node: ScratchNode, *arguments: str) -> None:
    node.path(LAUNCHED).unlink()
    node.outside(*arguments)


def twice_for_sandboxes(node: ScratchNode) -> None:
    node.containerd("2.1.9", MAINTAINED)
    node.plugins("konfine", "clearcfs", path="/etc/nri/conf.json")


def wrapped_on_1_6(node: ScratchNode) -> None:
    no_bridge(node)
    node.containerd("1.6.20~ds1", f"version = 2\n{OURS}")
    node.write("/opt/nri/sbin/nri-runc", "", 0o755)
    node.path(PLUGINS).unlink()
    node.plugins("konfine", path="/etc/nri/conf.json")


def podman_twice(node: ScratchNode) -> None:
    node.says("/usr/bin/podman", PODMAN)
    node.write("/opt/nri/sbin/nri-crun", "", 0o755)
    node.write(HOOKS, HOOK)


def docker_without_ours(node: ScratchNode) -> None:
    node.says("/usr/bin/docker", DOCKER)
    node.write("/usr/bin/dockerd", "", 0o755)


def refused_configuration(node: ScratchNode) -> None:
    assert node.status is not None
    node.status["configuration"] |= {
        "valid": False,
        "faults": ["10.conf: type: found 'hunter2', expected a name"],
    }


def in_a_pod(node: ScratchNode) -> None:
    """The bridge of a DaemonSet, which does not answer."""
    outside(node)
    node.process(812, "/opt/nri/lib/nri", "bridge", namespace="mnt:[2]")
    node.write(
        "/proc/812/cgroup", "0::/kubepods.slice/kubepods-podabc.slice/cri-containerd-0123.scope\n"
    )
    node.status = None


def shared_run(node: ScratchNode) -> None:
    """Others can write to /run, so no bridge makes its socket there."""
    node.status = None
    node.path("/run/x").parent.chmod(0o777)
    node.path("/run/nri/x")


def refused_config_map(node: ScratchNode) -> None:
    refused.note(
        f"{node.root}/etc/nri/resource.d", "/configuration", ["10.conf:1:1: x: found 'hunter2'"]
    )


def throttled(node: ScratchNode, periods: int = 100, stopped: int = 10) -> None:
    node.write("/proc/812/cgroup", "0::/kubepods/poda/b\n")
    content = f"usage_usec 5\nnr_periods {periods}\nnr_throttled {stopped}\nthrottled_usec 9\n"
    node.write("/sys/fs/cgroup/kubepods/poda/b/cpu.stat", content)


# A change to a healthy node; then of the fault that doctor finds: its code, its text and its remedy.
STATES: list[tuple[Callable[[ScratchNode], object], str, str, str]] = [
    (
        lambda node: node.write(CONFIG, MAINTAINED.replace("false", "true")),
        "nri-off",
        "containerd 1.7.24: NRI is off, so no bridge can serve it",
        f"set disable = false in {NRI} of {CONFIG}, whose first line must be version = 2; {RESTART}",
    ),
    (
        lambda node: node.write(
            CONFIG, f'disabled_plugins = ["io.containerd.nri.v1.nri"]\n{MAINTAINED}'
        ),
        "nri-off",
        "containerd 1.7.24: NRI is off",
        f'take "io.containerd.nri.v1.nri" out of disabled_plugins in {CONFIG}; {RESTART}',
    ),
    (
        lambda node: node.write(CONFIG, f"{MAINTAINED}# refused\n"),
        "refused",
        f"containerd refuses {CONFIG}: `/usr/bin/containerd --config {CONFIG} config dump` says why",
        f"correct {CONFIG}; {RESTART}",
    ),
    (
        not_let_in,
        "connections-off",
        "containerd 1.7.24 accepts no connections, so a bridge from outside can't serve it",
        f"set disable_connections (nri_disable_connections in CRI-O) to false in {CONFIG}; {RESTART}",
    ),
    (
        lambda node: outside(node, "--socket", "/run/other.sock"),
        "other-socket",
        "process 812 connects to /run/other.sock, and containerd 1.7.24 listens on /var/run/nri/nri.sock",
        "start the bridge with --socket /var/run/nri/nri.sock",
    ),
    (
        lambda node: node.outside(),
        "two-bridges",
        f"containerd 1.7.24 launches {LAUNCHED}, and process 812 runs from outside: one of them is too many",
        f"systemctl disable --now {SERVICE}, or delete its DaemonSet; or rm {LAUNCHED}, then {RESTART}",
    ),
    (
        no_bridge,
        "no-way",
        "plugins are configured, and nothing runs them",
        f"mkdir -p /opt/nri/plugins; ln -s /opt/nri/lib/v1bridge {LAUNCHED}; {RESTART}",
    ),
    (
        lambda node: setattr(node, "status", None),
        "not-answering",
        "a bridge should be running, and does not answer: /run/nri/v1bridge.sock does not exist",
        RESTART,
    ),
    (
        only_enabled,
        "not-answering",
        "a bridge should be running, and does not answer: /run/nri/v1bridge.sock does not exist",
        f"systemctl restart {SERVICE}",
    ),
    (
        lambda node: setattr(node, "status", b"no answer that is JSON"),
        "not-answering",
        "a bridge should be running, and does not answer: /run/nri/v1bridge.sock: ",
        RESTART,
    ),
    (
        lambda node: setattr(node, "status", documents.connecting()),
        "degraded",
        "the bridge looks for its runtime",
        MORE,
    ),
    (
        refused_configuration,
        "degraded",
        "the configuration is not valid, the last valid one is in use",
        MORE,
    ),
    (
        lambda node: node.containerd("1.6.20~ds1", "version = 2\n"),
        "no-v2",
        "containerd 1.6.20 has no NRI v2, so the bridge can't serve it",
        "name the plugins in /etc/nri/conf.json, or use nri-runc: docs/podman-docker-crio.md",
    ),
    (
        native,
        "directory-unread",
        "containerd 1.6.20 reads no directory: the plugins in it never run",
        "name the plugins in /etc/nri/conf.json, or use nri-runc: docs/podman-docker-crio.md",
    ),
    (
        twice_for_sandboxes,
        "twice",
        "clearcfs run twice for each pod: containerd 2.1.9 itself runs those of /etc/nri/conf.json",
        "move them to /etc/nri/resource.d, if they are not there; rm /etc/nri/conf.json",
    ),
    (
        wrapped_on_1_6,
        "twice",
        "konfine run twice for each pod: containerd 1.6.20 itself runs those of /etc/nri/conf.json",
        "move them to /etc/nri/resource.d, if they are not there; rm /etc/nri/conf.json",
    ),
    (
        lambda node: (
            node.write(CONFIG, MAINTAINED + OURS),
            node.write("/opt/nri/sbin/nri-runc", "", 0o755),
        ),
        "twice",
        f"containerd 1.7.24: nri-runc (/opt/nri/sbin/nri-runc) and the bridge, launched as {LAUNCHED} run",
        f"name runc in place of it in {CONFIG}",
    ),
    (
        crio_with_hooks,
        "twice",
        f"CRI-O 1.31.2: OCI hooks ({HOOKS}) and the bridge",
        f"rm {HOOKS}",
    ),
    (
        lambda node: node.crio("1.29.1", "[crio.nri]\n# enable_nri = false\n"),
        "nri-off",
        "CRI-O 1.29.1: NRI is off",
        "set enable_nri = true in [crio.nri] of /etc/crio/crio.conf.d/99-nri.conf; systemctl restart crio",
    ),
    (
        podman_twice,
        "twice",
        f"podman 5.4.2: nri-runc (/opt/nri/sbin/nri-crun) and OCI hooks ({HOOKS}) run every plugin twice",
        f"rm {HOOKS}",
    ),
    (
        docker_without_ours,
        "no-program",
        "/opt/nri/sbin/nri-runc, which /etc/docker/daemon.json names, does not exist",
        "install it, or correct /etc/docker/daemon.json",
    ),
    (
        lambda node: node.path(SOCKET).unlink(),
        "no-socket",
        "containerd 1.7.24 has NRI on, and /var/run/nri/nri.sock is no socket",
        RESTART,
    ),
    (
        lambda node: node.write("/opt/nri/plugins/logger", "", 0o755),
        "plugin-name",
        "/opt/nri/plugins/logger: a name without two digits and a dash in front keeps containerd from starting",
        "move /opt/nri/plugins/logger away",
    ),
    (
        lambda node: node.link("/opt/nri/plugins/20-other", "../lib/other"),
        "dangling",
        "/opt/nri/plugins/20-other is a link to a file that does not exist",
        "install it again, or rm /opt/nri/plugins/20-other",
    ),
    (
        lambda node: node.path("/opt/nri/lib/v1bridge").chmod(0o644),
        "not-executable",
        f"{LAUNCHED} is not an executable file",
        f"chmod 0755 {LAUNCHED}",
    ),
    (
        lambda node: node.write("/etc/nri/conf.d/10-v1bridge.conf", '{"logLevel": "loud"}'),
        "options",
        "/etc/nri/conf.d/10-v1bridge.conf: logLevel: found the string 'loud', expected one of debug, ",
        "correct /etc/nri/conf.d/10-v1bridge.conf",
    ),
    (
        lambda node: node.write(PLUGINS, '{"version": "0.1", "plugins": [{"type": 7}]}'),
        "invalid",
        f"nri check finds a fault at {PLUGINS}:1:41: plugins[0].type",
        CHECK,
    ),
    (
        lambda node: node.path("/opt/nri/bin/clearcfs").unlink(),
        "invalid",
        f"nri check finds a fault at {PLUGINS}:1:41: plugins[0].type",
        CHECK,
    ),
    (
        lambda node: node.path("/opt/nri/bin/clearcfs").chmod(0o777),
        "invalid",
        f"nri check finds a fault at {PLUGINS}:1:41: plugins[0].type",
        CHECK,
    ),
    (
        lambda node: node.path(PLUGINS).chmod(0o666),
        "invalid",
        f"nri check finds a fault at {PLUGINS}:1:1: (document)",
        CHECK,
    ),
    (
        lambda node: node.path(LAUNCHED).parent.chmod(0o777),
        "not-roots",
        "/opt/nri/plugins is writable by others (mode 0777",
        "chown root:root /opt/nri/plugins; chmod go-w /opt/nri/plugins",
    ),
    (
        lambda node: node.write("/etc/nri/runtime.json", '{"deadline": "soon"}'),
        "runtime-options",
        "/etc/nri/runtime.json: deadline: found the string 'soon', expected ",
        "correct /etc/nri/runtime.json",
    ),
    (
        in_a_pod,
        "not-answering",
        "a bridge should be running, and does not answer: /run/nri/v1bridge.sock does not exist",
        f"{KUBECTL} delete $({KUBECTL} get pods {POD} -o name)",
    ),
    (
        shared_run,
        "not-roots",
        "/run is writable by others (mode 0777",
        "chown root:root /run; chmod go-w /run",
    ),
    (
        refused_config_map,
        "refused-configuration",
        "a configuration was refused, and an older one is in use: /configuration",
        "nri status shows its faults; correct them, and apply it again; or rm /etc/nri/resource.d.refused",
    ),
    (
        throttled,
        "no-cpu",
        "a CPU limit has stopped the bridge in 10 % of its periods: /kubepods/poda/b",
        "remove the CPU limit of its pod or unit",
    ),
    (
        lambda node: node.write("/proc/self/mountinfo", "30 23 0:26 / /sys rw - sysfs sysfs rw\n"),
        "no-cgroups",
        "no cgroup hierarchy with controllers is mounted: plugins find no cgroup",
        "run this command on the host; mount cgroups at /sys/fs/cgroup",
    ),
]


def test_options_that_a_runtime_cannot_pass_on_are_found(node: ScratchNode) -> None:
    node.well().write("/etc/nri/conf.d/10-v1bridge.conf", b'{"x-why": "caf\xe9"}')
    (fault,) = node.faults()
    assert (fault.code, fault.fix) == ("options", "correct /etc/nri/conf.d/10-v1bridge.conf")
    assert "is not UTF-8: " in fault.text


def test_bug_of_a_subject_costs_no_other_finding(
    node: ScratchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "look", lambda *_: 1 / 0)
    found = node.well().examine()
    (unseen,) = [finding for finding in found if finding.level == "unseen"]
    assert (unseen.text, unseen.fix) == (
        "nri doctor failed here: ZeroDivisionError",
        "please report this as a bug",
    )
    assert "cgroup v2" in {finding.text for finding in found}


def test_nothing_is_wrong_with_a_node_that_is_well(node: ScratchNode) -> None:
    found = node.well().examine()
    assert [finding for finding in found if finding.level in ("fault", "unseen")] == []
    texts = [each.text for each in found]
    assert {f"containerd 1.7.24: the bridge, launched as {LAUNCHED}", "cgroup v2"} <= {*texts}


@pytest.mark.parametrize(("change", "code", "text", "fix"), STATES)
def test_a_state_is_found_once_with_the_command_that_mends_it(
    node: ScratchNode, change: Callable[[ScratchNode], object], code: str, text: str, fix: str
) -> None:
    node.well()
    change(node)
    (fault,) = node.faults()
    assert (fault.code, fault.text[: len(text)], fault.fix) == (code, text, fix)
    assert "hunter2" not in repr(node.examine())


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/nri/resource.d/10.json", "its name does not end in .conf"),
        ("/etc/nri/10.conf", "it is not in /etc/nri/resource.d"),
        ("/etc/nri/resources.d/10.conf", "it is not in /etc/nri/resource.d"),
    ],
)
def test_a_configuration_in_the_wrong_place_is_named(
    node: ScratchNode, path: str, why: str
) -> None:
    node.well().path(PLUGINS).rename(node.path(path))
    (note,) = node.found("unread")
    assert note.text == f"{path} is not read: {why}"
    assert node.found("no-plugins")


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ('{"logFile": "/var/log/x.log"}', "tail -n 20 /var/log/x.log"),
        ("{}", "journalctl -t nri-v1bridge -n 20"),
    ],
)
def test_command_for_the_log_is_shown(node: ScratchNode, options: str, command: str) -> None:
    node.well().write("/etc/nri/conf.d/10-v1bridge.conf", options)
    assert [each.text for each in node.found("log")] == [f"the last lines of its log: {command}"]


def test_answer_of_another_build_says_which_bridge_it_is(node: ScratchNode) -> None:
    del node.well().status["watchdog"]
    assert node.faults() == []
    assert node.found("answers")
    assert node.found("old-bridge")
    (note,) = node.found("unusable")
    assert note.text == "its answer is not that of this build (KeyError: 'watchdog')"
    no_bridge(node)
    node.status = {"protocol": 1}
    assert "none" not in {finding.code for finding in node.examine()}


def test_a_daemon_that_sees_other_files_is_not_judged_by_these(node: ScratchNode) -> None:
    node.well().process(900, "/usr/bin/containerd", "--config", "/absent.toml", namespace="mnt:[9]")
    assert node.faults() == []
    (finding,) = node.found("elsewhere")
    assert finding.level == "unseen"


def test_a_node_with_many_processes_and_mounts_is_seen_whole(node: ScratchNode) -> None:
    mounts = node.well().path("/proc/self/mountinfo")
    node.write(
        "/proc/self/mountinfo",
        "31 23 0:27 / /mnt rw - tmpfs tmpfs rw\n" * 40_000 + mounts.read_text(),
    )
    for pid in range(1001, 2101):  # names that come before 700
        node.path(f"/proc/{pid}").mkdir()
    assert node.faults() == []
    assert node.found("socket")


def test_limit_that_seldom_stops_the_bridge_is_no_fault(node: ScratchNode) -> None:
    throttled(node.well(), periods=100, stopped=9)
    assert node.faults() == []
    throttled(node, periods=0, stopped=0)
    assert node.faults() == []


def test_bridge_in_a_pod_is_restarted_and_read_by_kubectl(node: ScratchNode) -> None:
    in_a_pod(node.well())
    node.status = documents.healthy(ownPod="nri/nri-v1bridge-x7f2k")
    node.status["log"]["to"] = "stderr"
    assert node.faults() == []
    (old,), (log,) = node.found("old-bridge"), node.found("log")
    assert old.fix == "kubectl -n nri delete pod/nri-v1bridge-x7f2k"
    assert log.text.endswith(": kubectl -n nri logs -c bridge --tail 20 pod/nri-v1bridge-x7f2k")


def test_an_old_bridge_beside_new_binaries_is_named(node: ScratchNode) -> None:
    (note,) = node.well().found("old-bridge")
    assert note.text.startswith("it is v1bridge 0.9.0 (commit 3f2c1ab), and this is nri ")
    assert note.fix == RESTART


@pytest.mark.parametrize(
    ("command", "is_bridge"),
    [
        (["/usr/bin/python3", "/usr/local/bin/nri", "bridge"], True),
        (["nri", "bridge", "--config", "/etc/nri/v1bridge.json"], True),
        (["/srv/v1bridge"], True),
        (["nri", "bridge", "--help"], False),
        (["nri", "status", "--watch"], False),
        (["/opt/nri/plugins/10-v1bridge"], False),
    ],
)
def test_a_bridge_from_outside_is_known_by_its_command_line(
    node: ScratchNode, command: list[str], is_bridge: bool
) -> None:
    node.process(812, *command)
    assert bool(node.found("outside")) == is_bridge
    node.process(812, *command, name="nri-watchdog")
    assert not node.found("outside")


@pytest.mark.parametrize("path", [CONFIG, "/crio-config", "/podman", HOOKS, "/proc/700/cmdline"])
@pytest.mark.parametrize(
    "content", [b"\xff\x00", b"[[[[" * 20_000, b'{"a": 1}', b"plugins = 7\nversion = 'x'\n", b""]
)
def test_garbage_in_files_of_others_costs_no_other_finding(
    node: ScratchNode, path: str, content: bytes
) -> None:
    node.well().write("/usr/bin/podman", f"#!/bin/sh\ncat {node.root}/podman", 0o755)
    if path == "/crio-config":
        node.crio()
    node.write(path, content)
    found = node.examine()
    assert "failed" not in {finding.code for finding in found}
    assert found[-1].code == "log"


def test_a_fifo_in_place_of_a_file_is_not_waited_for(node: ScratchNode) -> None:
    node.well().path(CONFIG).unlink()
    os.mkfifo(node.path(CONFIG))
    assert stat.S_ISFIFO(os.stat(node.path(CONFIG)).st_mode)
    assert "failed" not in {finding.code for finding in node.examine()}


def test_a_file_that_is_too_large_is_not_judged_by_its_beginning(node: ScratchNode) -> None:
    node.write("/etc/large", "")
    os.truncate(node.path("/etc/large"), MAX_FILE)
    assert len(Node(str(node.root)).read("/etc/large")) == MAX_FILE
    os.truncate(node.path("/etc/large"), MAX_FILE + 1)
    with pytest.raises(OSError, match="found more than 33554432 bytes, expected fewer") as raised:
        Node(str(node.root)).read("/etc/large")
    assert raised.value.errno == errno.EFBIG


def test_a_dump_that_a_signal_ends_is_no_refusal(node: ScratchNode) -> None:
    """Such as that of the OOM killer."""
    node.write("/usr/bin/killed", "#!/bin/sh\nkill -9 $$\n", 0o755)
    with pytest.raises(InterruptedError) as raised:
        Node(str(node.root)).run("killed", "killed")
    assert reason(raised.value).endswith("/usr/bin/killed: ended by signal 9")
    assert reason(BlockingIOError(errno.EAGAIN, "No process")) == "no process"


def test_files_in_use_that_are_missing_are_found(node: ScratchNode) -> None:
    node.well()
    root = str(node.root)
    record = f"{root}/run/nri/v1bridge.record"
    site = Site(
        conf_dir=f"{root}/etc/nri/resource.d",
        conf_file=f"{root}/etc/nri/conf.json",
        record_dir=record,
    )
    InUse(site).look()
    (path,) = node.path("/etc/nri/resource.d").iterdir()
    path.unlink()
    (finding,) = node.found("missing")
    place = str(path).removeprefix(root)
    assert finding.text == f"{place} is missing, and still in use"
    assert finding in node.faults()


def test_bridge_in_another_mount_namespace_is_asked_there(node: ScratchNode) -> None:
    outside(node.well())
    pid = 812
    node.process(pid, "/opt/nri/lib/nri", "bridge", namespace="mnt:[2]")
    there = os.path.join("/proc", str(pid), "root", "run/nri/v1bridge.sock")
    document = documents.healthy()
    node.status = None
    node.path(there).parent.mkdir(parents=True, exist_ok=True)
    with serving(node.path(there), document):
        assert node.faults() == []
        (answers,) = node.found("answers")
    assert answers.text.startswith(f"process {document['bridge']['pid']} is v1bridge")
    assert [each.code for each in node.faults()] == ["not-answering"]


def loop(node: ScratchNode) -> None:
    node.link("/etc/nri/conf.json", "conf.json")
    node.status = None


def dangling_bridge(node: ScratchNode) -> None:
    node.link(LAUNCHED, "../lib/gone")
    node.status = None


def other_directory(node: ScratchNode) -> None:
    no_bridge(node)
    node.write(CONFIG, f'{MAINTAINED}  plugin_path = "/var/lib/nri/plugins"\n')


def two_handlers(node: ScratchNode) -> None:
    no_bridge(node)
    node.write(CONFIG, MAINTAINED + OURS + OURS.replace("runtimes.runc", "runtimes.nvidia"))
    node.write("/opt/nri/sbin/nri-runc", "", 0o755)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # A path that cannot be looked at costs only what it is about.
        (loop, ["not-answering"]),
        (other_directory, ["no-way"]),
        (lambda node: node.path("/etc/nri/conf.d/10-v1bridge.conf/x"), ["options"]),
        (lambda node: node.link("/etc/nri/conf.d/10-v1bridge.conf", "gone"), ["options"]),
        (lambda node: node.process(900, "/usr/bin/python3", "/usr/bin/mynri", "bridge"), []),
        (lambda node: node.process(900, "/usr/bin/python3", "logcli", "the nri bridge"), []),
        (two_handlers, []),
        (lambda node: node.link("/opt/nri/plugins/v1bridge", "../lib/gone"), ["plugin-name"]),
        (lambda node: node.write("/opt/nri/plugins/20-notes", "", 0o644), []),
        (lambda node: node.write("/etc/nri/conf.d/10-v1bridge.conf", "{}", 0o666), ["options"]),
        (dangling_bridge, ["dangling"]),
        (lambda node: node.write("/etc/nri/conf.json", "{"), []),
        (
            lambda node: (
                node.path("/etc/nri/resource.d").rename(node.path("/etc/nri/x"))
                and node.write("/etc/nri/resource.d", "")
            ),
            ["invalid"],
        ),
        (lambda node: throttled(node, periods=0, stopped=5), []),
        (
            lambda node: node.write(CONFIG, f'{MAINTAINED}  plugin_config_path = "/o\\u0000"\n'),
            [],
        ),
    ],
)
def test_no_fault_is_false_and_none_is_hidden(
    node: ScratchNode, change: Callable[[ScratchNode], object], expected: list[str]
) -> None:
    change(node.well())
    assert [fault.code for fault in node.faults()] == expected
    assert node.found("failed") == []


def test_fixes_can_be_pasted(node: ScratchNode) -> None:
    other_directory(node.well())
    (fault,) = node.faults()
    assert "ln -s /opt/nri/lib/v1bridge /var/lib/nri/plugins/10-v1bridge; " in fault.fix
    node.write("/var/lib/nri/plugins/20-my plugin", "#!/bin/sh\n", 0o777)
    (others,) = node.found("not-roots")
    path = "'/var/lib/nri/plugins/20-my plugin'"
    assert others.fix == f"chown root:root {path}; chmod go-w {path}"
    node.outside()
    node.write("/proc/812/cgroup", "0::/kubepods.slice/kubepods-podabc.slice/x.scope\n")
    node.status = None
    (log,) = node.found("log")
    assert log.text.endswith(f" $({KUBECTL} get pods {POD} -o name)")


def test_noexec_mount_of_the_plugins_of_a_runtime_is_found(
    node: ScratchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Node, "is_noexec", lambda _, path: path == "/opt/nri/plugins")
    (fault,) = node.well().faults()
    assert fault.code == "noexec"
    assert fault.fix.endswith("; findmnt -T /opt/nri/plugins")


def test_what_a_user_cannot_see_is_no_fault(
    node: ScratchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise AskError(f"{path}: root alone may ask") from PermissionError(errno.EACCES, "x")

    monkeypatch.setattr("nri.doctor.facts.status", refuse)
    assert node.well().faults() == []
    assert "root alone may ask" in node.found("unseen")[0].text
