"""What the hook makes of a bundle and the runtime's state."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from nri.hook import Arguments, run
from tests.integration.hook.running import Ran, failure
from tests.support.host import OCI_CONFIG, Host, plugin
from tests.support.processes import core_dumps


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


def seen(
    host: Host, state: bytes | None = None, verb: str = "create", **arguments: Any
) -> dict[str, Any]:
    """What the plugin was sent, when all went well."""
    answer = host.root / "request"
    host.script("noop", f"#!/bin/sh\ncat > {answer}\necho '{{}}'\n")
    ran = Ran(host, state, verb, **arguments)
    assert (ran.status, ran.stderr) == (0, "")
    sent: dict[str, Any] = json.loads(answer.read_text())
    return sent


# The request


def test_state_and_bundle_become_one_request(host: Host) -> None:
    assert seen(host, host.state(owner="root", created="2024")) == {
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


def test_annotations_of_the_state_override_the_bundles(host: Host) -> None:
    state = host.state(annotations={"qos.class": "be", "new": "x"})
    assert seen(host, state)["spec"]["annotations"] == {"qos.class": "be", "new": "x"}


def test_sandbox_is_the_one_that_containerd_or_cri_o_names(host: Host) -> None:
    assert (
        seen(host, host.state(annotations={"io.kubernetes.cri.sandbox-id": "pod-1"}))["sandboxID"]
        == "pod-1"
    )
    host.bundle({**OCI_CONFIG, "annotations": {"io.kubernetes.cri-o.SandboxID": "pod-2"}})
    assert seen(host)["sandboxID"] == "pod-2"


def test_plugins_run_in_the_root_directory_without_core_dumps(host: Host) -> None:
    answer = host.root / "answer"
    host.script("noop", f"#!/bin/sh\n(pwd; umask; ulimit -c) > {answer}\necho '{{}}'\n")
    os.umask(0o077)
    with core_dumps():
        assert Ran(host).status == 0
    assert answer.read_text().split() == ["/", "0022", "0"]


def test_relative_directories_are_the_callers(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host.root)
    assert seen(host, bin_dirs=("bin",), conf_dir="resource.d", log_file="log")["id"] == "redis"


def test_bundle_is_not_read_without_plugins_for_the_state(host: Host) -> None:
    state = host.state(bundle="/nowhere")
    assert Ran(host, state, "pause").status == 0
    host.configure()
    assert [Ran(host, state, verb).status for verb in ("create", "delete", "update")] == [0, 0, 0]
    ran = Ran(host, state, conf_dir="", conf_file="/nowhere/conf.json")
    assert (ran.status, ran.stderr) == (0, "")
    ran = Ran(host, state, conf_dir="/nowhere", conf_file="/nowhere/conf.json")
    assert (
        ran.status,
        "/nowhere:1:1: (document): does not exist; expected a directory" in ran.stderr,
    ) == (1, True)


# Conditions

OF_CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-id": "pod",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}


def test_runs_unless_known_facts_fail(host: Host) -> None:
    run = [{"namespaces": ["shop"]}, {"runtimeHandler": ["kata"]}]
    skipped = [{"namespaces": ["other"]}]
    plugins = [
        plugin("noop", ["note", f"{host.root}/{number}", "ran"], when=when)
        for number, when in enumerate([*run, *skipped])
    ]
    host.configure(*plugins)
    host.bundle(OCI_CONFIG | {"annotations": OF_CONTAINERD})
    ran = Ran(host, host.state())
    assert (ran.status, ran.stderr) == (0, "")
    assert [(host.root / str(number)).exists() for number in range(3)] == [True, True, False]


# Faults


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"", "the document is empty"),
        (b"[]", "the document: found an array, expected an object"),
        (b"{}", "id: found nothing, expected the container's"),
        (b'{"id": "x"}', "bundle: found '', expected an absolute path"),
        (b'{"id": "x", "bundle": "b"}', "bundle: found 'b', expected an absolute path"),
        (
            b'{"id": "x", "bundle": "/b", "pid": "1"}',
            "pid: found the string '1', expected an integer",
        ),
        (
            b'{"id": "x", "bundle": "/b", "annotations": {"a": 1}}',
            "annotations.a: found the number 1",
        ),
        (b'{"id": "' + b"x" * 1_100_000 + b'"}', "found more than 1048576 bytes"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_invalid_state_is_reported(host: Host, state: bytes, message: str) -> None:
    found = failure(host, state)
    assert found.startswith("nri hook create: the container's state on stdin: ")
    assert message in found
    assert found.endswith("; expected what an OCI runtime writes")


def test_stdin_that_cannot_be_read_is_named(host: Host) -> None:
    with open("/proc/self/mem", "rb") as stdin:
        found = failure(host, stdin=stdin.fileno())
    expected = "cannot be read: Input/output error; expected what an OCI runtime writes"
    assert found == f"nri hook create: the container's state on stdin: {expected}"


def test_relative_path_in_a_missing_directory_is_one_error(host: Host) -> None:
    gone = host.folder("gone")
    os.chdir(gone)
    gone.rmdir()
    assert failure(host, log_file="relative.log") == (
        "nri hook create: relative.log: is relative, and the current directory is gone: "
        "No such file or directory; expected an absolute path"
    )


def test_failing_plugin_stops_create_and_not_delete(host: Host) -> None:
    host.configure(
        plugin("noop", ["stderr", "one\n"], ["error", "no CPU"]), plugin("noop", ["error", "two"])
    )
    ran = Ran(host)
    assert (ran.status, ran.stderr) == (
        1,
        "nri: noop: one\nnri hook create redis: plugin noop: no CPU\n",
    )
    last = Ran(host, verb="delete").stderr.splitlines()[-1]
    assert last == "nri hook delete redis: plugin noop: no CPU; plugin noop: two"


def test_timeout_and_failure_policy_of_the_command_line(host: Host) -> None:
    host.configure(plugin("noop", ["hang"]))
    assert (
        failure(host, timeout=0.2)
        == "nri hook create redis: plugin noop: killed: no result after 0.2 s"
    )
    ran = Ran(host, timeout=0.2, failure_policy="ignore")
    ignored = "nri: noop: create of redis failed, ignored (failurePolicy: ignore): killed: no result after 0.2 s\n"
    assert (ran.status, ran.stderr) == (0, ignored)


# The log


def test_lines_of_stderr_are_appended_to_the_log(host: Host) -> None:
    log = host.root / "log"
    assert Ran(host, log_file=str(log)).status == 0
    assert not log.exists()
    host.configure(plugin("noop", ["stderr", "grüß\n".encode().decode("latin-1")], ["error", "no"]))
    for _ in range(2):
        ran = Ran(host, log_file=str(log))
    lines = log.read_text("utf-8").splitlines()
    assert len(lines) == 4
    assert [
        re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ", "", line) for line in lines[2:]
    ] == (ran.stderr.splitlines())
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize("stderr", ["missing", "closed"])
def test_log_has_all_lines_without_stdin_and_stderr(host: Host, stderr: str) -> None:
    stream = None if stderr == "missing" else io.StringIO()
    if stream is not None:
        stream.close()
    places: dict[str, Any] = {"conf_dir": str(host.conf), "bin_dirs": [str(host.bin)]}
    places["record_dir"] = f"{host.root}/record"
    arguments = Arguments("create", log_file=f"{host.root}/log", **places)
    stdin = os.open(os.devnull, os.O_RDONLY)
    assert run(arguments, stdin, stream) == 1
    assert (
        "the container's state on stdin: the document is empty" in (host.root / "log").read_text()
    )
    arguments.log_file = str(host.root)
    assert run(arguments, stdin, stream) == 1
    os.close(stdin)


# Owners


def test_plugin_and_configuration_writable_by_others_are_refused(host: Host) -> None:
    (host.bin / "noop").chmod(0o777)
    assert (
        f"plugin noop: not run: {host.bin}/noop is writable by others (mode 0777, owner "
        in failure(host)
    )
    host.configure(plugin("noop", failure_policy="ignore"))
    ran = Ran(host)
    assert ran.status == 0
    assert (
        "nri: noop: create of redis failed, ignored (failurePolicy: ignore): not run: "
        in ran.stderr
    )
    (host.conf / "10-test.conf").chmod(0o666)
    ran = Ran(host)
    place = f"{host.conf}/10-test.conf:1:1: (document)"
    said = f"still using the last valid one: {place}: is writable by others (mode 0666"
    assert (ran.status, said in ran.stderr) == (0, True)
    assert f"{host.conf}/10-test.conf:1:1: (document): is writable by" in failure(
        host, record_dir=f"{host.root}/new"
    )


def test_unchecked_owners_are_a_warning_each_time(host: Host) -> None:
    for path in (host.bin, host.bin / "noop", host.conf, host.conf / "10-test.conf"):
        path.chmod(0o777)
    ran = Ran(host, check_owner=False)
    assert ran.status == 0
    assert ran.stderr.startswith(
        "nri: warning: owners and modes of plugins and configuration are not checked; "
    )
    assert ran.stderr.endswith(" (--no-check-owner)\n")


# What its plugins have had


def test_plugins_get_their_last_result_and_nothing_is_kept_after_the_delete(host: Host) -> None:
    requests = host.root / "requests"
    states = ["update", "pause"]
    host.configure(
        plugin("noop", ["keep", str(requests)], ["put", "metadata", {"mark": "1"}], states=states)
    )
    for verb in ("create", "update", "pause", "delete", "create"):
        assert Ran(host, verb=verb).status == 0
    sent = [json.loads(line) for line in requests.read_text().splitlines()]
    marks = [(request["state"], request.get("prevResult", {}).get("metadata")) for request in sent]
    assert marks == [
        ("create", None),
        *((verb, {"mark": "1"}) for verb in ("update", "pause", "delete")),
        ("create", None),
    ]
    assert Ran(host, verb="delete").status == 0
    assert [*(host.root / "record").glob(".hook.*")] == []


@pytest.mark.parametrize("id_", ["../x", "a/b", "x" * 300, "a b"])
def test_an_id_that_is_no_name_has_a_record_all_the_same(host: Host, id_: str) -> None:
    host.configure(plugin("noop"))
    assert Ran(host, host.state(id=id_)).status == 0
    (path,) = (host.root / "record").glob(".hook.*")
    assert path.parent == host.root / "record"
    assert Ran(host, host.state(id=id_), verb="delete").status == 0
    assert not path.exists()


def test_a_damaged_record_costs_no_container_its_plugins(host: Host) -> None:
    content = '{"entries": [5], "x": 1}'
    host.configure(plugin("noop"))
    assert Ran(host).status == 0
    (path,) = (host.root / "record").glob(".hook.*")
    path.write_text(content)
    for verb in ("create", "delete"):
        path.write_text(content)
        ran = Ran(host, verb=verb)
        assert (ran.status, "ignored" in ran.stderr) == (0, True)
