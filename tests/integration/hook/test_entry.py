"""What the hook makes of a bundle and the runtime's state."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import resource
import stat
from typing import TYPE_CHECKING, Any

import pytest

from nri.hook import Arguments, run
from tests.support.host import OCI_CONFIG, Host, plugin
from tests.support.processes import core_dumps
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def host(host: Host) -> Iterator[Host]:
    """A host with one plugin and one bundle. The hook changes directory, umask and limits: they are put back."""
    directory, mask, limits = os.getcwd(), os.umask(0o022), resource.getrlimit(resource.RLIMIT_CORE)
    host.install("noop")
    host.configure(plugin("noop", ["echo"], states=["update"]))
    host.bundle(OCI_CONFIG)
    yield host
    os.chdir(directory)
    os.umask(mask)
    resource.setrlimit(resource.RLIMIT_CORE, limits)


class Ran:
    """One run of the hook."""

    def __init__(self, host: Host, state: bytes | None = None, verb: str = "create", **arguments: Any) -> None:
        given = Arguments(verb)
        given.conf_dir, given.conf_file = str(host.conf), f"{host.root}/conf.json"
        given.bin_dirs = (str(host.bin),)
        given.timeout = SOON
        for name, value in arguments.items():
            setattr(given, name, value)
        stderr = io.StringIO()
        self.status = run(given, io.BytesIO(host.state() if state is None else state), stderr)
        self.stderr = stderr.getvalue()


def seen(host: Host, state: bytes | None = None, verb: str = "create", **arguments: Any) -> dict[str, Any]:
    """What the plugin was sent, when all went well."""
    answer = host.root / "request"
    host.script("noop", f"#!/bin/sh\ncat > {answer}\necho '{{}}'\n")
    ran = Ran(host, state, verb, **arguments)
    assert (ran.status, ran.stderr) == (0, "")
    sent: dict[str, Any] = json.loads(answer.read_text())
    return sent


def failure(host: Host, state: bytes | None = None, verb: str = "create", **arguments: Any) -> str:
    """The one line of a run that must fail."""
    ran = Ran(host, state, verb, **arguments)
    assert ran.status == 1
    assert ran.stderr.endswith("\n")
    assert ran.stderr[:-1].isprintable(), ran.stderr
    assert len(ran.stderr) < 1000
    return ran.stderr[:-1]


# The request


def test_state_and_bundle_become_one_request(host: Host) -> None:
    assert seen(host) == {
        "conf": {"do": [["echo"]]},
        "version": "0.1",
        "state": "create",
        "id": "redis",
        "pid": 4711,
        "spec": {
            "resources": {"cpu": {"shares": 1024}},
            "namespaces": {"pid": "", "network": "/proc/1/ns/net"},
            "cgroupsPath": "/kubepods/podabc/redis",
            "annotations": {"qos.class": "ls"},
        },
    }


def test_the_states_annotations_go_over_the_bundles(host: Host) -> None:
    state = host.state(annotations={"qos.class": "be", "new": "x"})
    assert seen(host, state)["spec"]["annotations"] == {"qos.class": "be", "new": "x"}


@pytest.mark.parametrize("key", ["io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"])
@pytest.mark.parametrize("where", ["state", "bundle"])
def test_the_sandbox_is_the_one_that_containerd_or_cri_o_name(host: Host, key: str, where: str) -> None:
    if where == "bundle":
        host.bundle({**OCI_CONFIG, "annotations": {key: "pod-1"}})
    assert seen(host, host.state(annotations={key: "pod-1"} if where == "state" else None))["sandboxID"] == "pod-1"


@pytest.mark.parametrize("pid", [None, 0])
def test_after_the_container_has_ended_there_is_no_pid(host: Host, pid: int | None) -> None:
    request = seen(host, host.state(pid=pid, status="stopped"), "delete")
    assert request["state"] == "delete"
    assert "pid" not in request


def test_keys_that_nobody_knows_are_no_fault(host: Host) -> None:
    assert seen(host, host.state(owner="root", created="2024"))["id"] == "redis"


def test_plugins_run_in_the_root_directory_with_an_ordinary_umask_and_without_core_dumps(host: Host) -> None:
    answer = host.root / "answer"
    host.script("noop", f"#!/bin/sh\n(pwd; umask; ulimit -c) > {answer}\necho '{{}}'\n")
    os.umask(0o077)
    with core_dumps():
        assert Ran(host).status == 0
    assert answer.read_text().split() == ["/", "0022", "0"]


def test_relative_directories_are_those_of_the_caller(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host.root)
    assert seen(host, bin_dirs=("bin",), conf_dir="resource.d", log_file="log")["id"] == "redis"


# No plugins


def test_without_plugins_for_the_state_the_bundle_is_not_read(host: Host) -> None:
    state = host.state(bundle="/nowhere")
    assert Ran(host, state, "pause").status == 0
    host.configure()
    assert [Ran(host, state, verb).status for verb in ("create", "delete", "update")] == [0, 0, 0]


def test_without_a_configuration_all_is_well(host: Host) -> None:
    ran = Ran(host, host.state(bundle="/nowhere"), conf_dir="/nowhere", conf_file="/nowhere/conf.json")
    assert (ran.status, ran.stderr) == (0, "")


# Faults


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"", "the document is empty"),
        (b"{", "line 1 column 2"),
        (b"[]", "the document: found an array, expected an object"),
        (b"null", "the document: found null, expected an object"),
        (b"{}", "id: found nothing, expected the container's"),
        (b'{"id": "", "bundle": "/b"}', "id: found nothing, expected the container's"),
        (b'{"id": "x"}', "bundle: found nothing, expected the container's"),
        (b'{"id": "x", "bundle": "b"}', "bundle: found 'b', expected an absolute path"),
        (b'{"id": 1, "bundle": "/b"}', "id: found the number 1, expected a string"),
        (b'{"id": "x", "bundle": []}', "bundle: found an array, expected a string"),
        (b'{"id": "x", "bundle": "/b", "pid": "1"}', "pid: found the string '1', expected an integer"),
        (b'{"id": "x", "bundle": "/b", "pid": 1.5}', "pid: found the number 1.5, expected an integer"),
        (b'{"id": "x", "bundle": "/b", "pid": 99999999999999999999}', "expected an integer of 64 bits"),
        (b'{"id": "x", "bundle": "/b", "annotations": []}', "annotations: found an array"),
        (b'{"id": "x", "bundle": "/b", "annotations": {"a": 1}}', "annotations.a: found the number 1"),
        (b'{"id": "' + b"x" * 1_100_000 + b'"}', "found more than 1048576 bytes"),
        (b"[" * 1_000_000, "nested too deep"),
        (b"\xff\xfe\0", "line 1 column 1"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_state_that_is_none_is_reported(host: Host, state: bytes, message: str) -> None:
    said = failure(host, state)
    assert said.startswith("nri hook create: the container's state on stdin: ")
    assert message in said
    assert said.endswith("; expected what an OCI runtime writes")


class Broken(io.RawIOBase):
    """A stdin that can't be read."""

    def __init__(self, error: OSError | None) -> None:
        self._error = error

    def read(self, size: int = -1) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError(errno.EISDIR, "Is a directory"), "Is a directory"),
        (None, "Resource temporarily unavailable"),  # nothing has come yet, and it is not to be waited for
    ],
)
def test_a_stdin_that_cannot_be_read_is_named(host: Host, error: OSError | None, why: str) -> None:
    arguments = Arguments("create")
    arguments.conf_dir, arguments.conf_file = str(host.conf), "/nonexistent"
    stderr = io.StringIO()
    broken: Any = Broken(error)
    assert run(arguments, broken, stderr) == 1
    assert stderr.getvalue() == (
        f"nri hook create: the container's state on stdin: cannot be read: {why}; "
        "expected what an OCI runtime writes\n"
    )


def test_a_directory_that_is_gone_is_an_error_and_no_traceback(host: Host) -> None:
    gone = host.folder("gone")
    os.chdir(gone)
    gone.rmdir()
    assert failure(host, log_file="relative.log") == (
        "nri hook create: relative.log: is relative, and the current directory is gone: "
        "No such file or directory; expected an absolute path"
    )


def test_no_stdin_is_an_empty_one(host: Host) -> None:
    arguments = Arguments("create")
    arguments.conf_dir = str(host.conf)
    stderr = io.StringIO()
    assert run(arguments, None, stderr) == 1
    assert "the container's state on stdin: the document is empty" in stderr.getvalue()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "config.json: the document is empty"),
        ("[]", "config.json: the document: found an array, expected an object"),
        ('{"linux": 1}', "linux: found the number 1, expected an object"),
        ('{"annotations": {"a": {}}}', "annotations.a: found an object, expected a string"),
    ],
)
def test_a_config_json_that_is_none_is_reported(host: Host, config: str, message: str) -> None:
    host.bundle(config)
    said = failure(host)
    assert said.startswith("nri hook create redis: ")
    assert message in said


def test_a_bundle_without_config_json_is_reported(host: Host) -> None:
    said = failure(host, host.state(bundle="/nowhere"))
    assert said == "nri hook create redis: /nowhere/config.json: cannot be read: No such file or directory"


def test_what_a_terminal_would_obey_is_escaped(host: Host) -> None:
    said = failure(host, host.state(id="a\x1b[2J\nb", bundle="/no\x07where\n"))
    assert "a\\x1b[2J\\nb: /no\\x07where\\n/config.json: cannot be read" in said
    assert "embedded null byte" in failure(host, host.state(bundle="/no\0where"))


def test_all_faults_of_the_configuration_are_reported_each_on_a_line(host: Host) -> None:
    host.configure_text('{"version": "0.1", "plugins": [{"type": "a/b"}, {"typ": 1}]}')
    host.configure_text("{", "20-second.conf")
    ran = Ran(host)
    assert ran.status == 1
    assert re.findall(r"(?:10-test|20-second)\.conf:\d+:\d+: ", ran.stderr)
    assert "plugins[0].type" in ran.stderr
    assert "20-second.conf:1:2" in ran.stderr
    assert all(line.isprintable() for line in ran.stderr.splitlines())


def test_a_plugin_that_fails_stops_the_start(host: Host) -> None:
    host.configure(plugin("noop", ["stderr", "one\n"], ["error", "no CPU"]), plugin("missing"))
    ran = Ran(host)
    assert (ran.status, ran.stderr) == (1, "nri: noop: one\nnri hook create redis: plugin noop: no CPU\n")


def test_on_delete_every_plugin_is_run(host: Host) -> None:
    host.configure(plugin("noop", ["error", "one"]), plugin("noop", ["error", "two"]))
    assert failure(host, verb="delete") == "nri hook delete redis: plugin noop: one; plugin noop: two"


def test_a_plugin_has_the_time_that_the_command_line_gives(host: Host) -> None:
    host.configure(plugin("noop", ["hang"]))
    assert failure(host, timeout=0.2) == "nri hook create redis: plugin noop: killed: no result after 0.2 s"


# The log


def test_what_goes_to_stderr_goes_to_the_log_as_well(host: Host) -> None:
    log = host.root / "log"
    host.configure(plugin("noop", ["stderr", "grüß\n".encode().decode("latin-1")], ["error", "no"]))
    for _ in range(2):
        ran = Ran(host, log_file=str(log))
    lines = log.read_text("utf-8").splitlines()
    assert len(lines) == 4
    assert [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ", "", line) for line in lines[2:]] == (
        ran.stderr.splitlines()
    )
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_nothing_to_say_leaves_no_log(host: Host) -> None:
    assert Ran(host, log_file=f"{host.root}/log").status == 0
    assert not (host.root / "log").exists()


def test_a_log_that_cannot_be_written_is_reported_and_changes_nothing(host: Host) -> None:
    host.configure(plugin("noop", ["stderr", "hello\n"]))
    ran = Ran(host, log_file=str(host.root))
    assert ran.status == 0
    assert f"nri hook: the log file {host.root} cannot be written: Is a directory" in ran.stderr


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_without_stderr_the_log_has_it_all(host: Host, stderr: str | None) -> None:
    stream = None
    if stderr:
        stream = io.StringIO()
        stream.close()
    arguments = Arguments("create")
    arguments.conf_dir, arguments.bin_dirs = str(host.conf), (str(host.bin),)
    arguments.log_file = f"{host.root}/log"
    assert run(arguments, io.BytesIO(b""), stream) == 1
    assert "the document is empty" in (host.root / "log").read_text()
    arguments.log_file = str(host.root)
    assert run(arguments, io.BytesIO(b""), stream) == 1


# Whose the files are


def test_what_others_can_write_to_is_not_run(host: Host) -> None:
    (host.bin / "noop").chmod(0o777)
    assert f"plugin noop: not run: {host.bin}/noop is writable by others (mode 0777, owner " in failure(host)
    host.configure(plugin("noop", failure_policy="ignore"))
    ran = Ran(host)
    assert ran.status == 0
    assert "nri: noop: failed, ignored (failurePolicy: ignore): not run: " in ran.stderr


def test_what_others_can_write_to_is_not_read(host: Host) -> None:
    (host.conf / "10-test.conf").chmod(0o666)
    assert f"{host.conf}/10-test.conf:1:1: (document): is writable by others (mode 0666, owner " in failure(host)


def test_that_owners_do_not_matter_is_said_each_time(host: Host) -> None:
    for path in (host.bin, host.bin / "noop", host.conf, host.conf / "10-test.conf"):
        path.chmod(0o777)
    ran = Ran(host, check_owner=False)
    assert ran.status == 0
    assert ran.stderr.startswith("nri: warning: owners and modes of plugins and configuration are not checked; ")
    assert ran.stderr.endswith(" (--no-check-owner)\n")


# Conditions

OF_CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-id": "pod",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}


@pytest.mark.parametrize("state", ["create", "delete"])
@pytest.mark.parametrize(
    ("when", "annotations", "runs"),
    [
        ({"namespaces": ["shop"]}, OF_CONTAINERD, True),
        ({"namespaces": ["other"]}, OF_CONTAINERD, False),
        ({"namespaces": ["other"]}, {}, True),
        ({"sandbox": True}, OF_CONTAINERD, False),
        ({"sandbox": True}, {}, False),
        ({"sandbox": False}, {}, True),
        ({"annotations": {"team": {"equals": "x"}}}, {"team": "x"}, True),
        ({"annotations": {"team": {"equals": "x"}}}, {"team": "y"}, False),
        ({"annotations": {"team": {"equals": "x"}}}, {}, False),
        ({"annotations": {"team": {"equals": "x"}}}, OF_CONTAINERD, True),
        ({"labels": {"app": {"equals": "x"}}}, {}, True),
        ({"runtimeHandler": ["kata"]}, OF_CONTAINERD, True),
    ],
    ids=str,
)
def test_a_plugin_runs_unless_its_condition_does_not_hold(
    host: Host, when: dict[str, Any], annotations: dict[str, str], runs: bool, state: str
) -> None:
    kept = host.root / "kept"
    host.configure(plugin("noop", ["keep", str(kept)], when=when))
    host.bundle(OCI_CONFIG | {"annotations": annotations})
    ran = Ran(host, verb=state)
    assert (ran.status, ran.stderr) == (0, "")
    assert kept.exists() == runs


def test_annotations_of_the_state_count_for_a_condition(host: Host) -> None:
    kept = host.root / "kept"
    host.configure(plugin("noop", ["keep", str(kept)], when={"annotations": {"team": {"equals": "x"}}}))
    assert Ran(host, host.state(annotations={"team": "x"})).status == 0
    assert kept.exists()
