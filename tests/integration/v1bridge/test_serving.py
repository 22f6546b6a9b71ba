"""The bridge as a process: its command line, how it serves a runtime, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nri.v1bridge import serving
from nri.v2 import api
from nri.v2.stub import runner
from nri.v2.ttrpc import StatusError
from nri.version import describe
from tests.integration.cli.running import process
from tests.integration.v1bridge.bridge_process import COMMAND, BridgeProcess, slow, start_container
from tests.support.host import Host, plugin
from tests.support.pods import POD, pod
from tests.support.processes import core_dumps
from tests.support.waiting import SOON, wait_until


def has_line(bridge: BridgeProcess, *parts: str) -> bool:
    """Wait for a line of the log with all these parts."""
    return wait_until(
        lambda: [line for line in bridge.log.splitlines() if all(part in line for part in parts)]
    )


# Launched by a runtime


def test_launched_bridge_serves_without_wrong_settings_and_ends_with_the_runtime(
    host: Host, bridge: BridgeProcess
) -> None:
    runtime = bridge.launch()
    host.configure(bridge.node.keeper())
    runtime.start(config=bridge.settings(failurePolicy="maybe", logLevl="x"))
    start_container(runtime)
    assert wait_until(lambda: "no plugin runs" in bridge.log)
    runtime.close()
    assert bridge.wait() == 0
    assert bridge.node.steps == []
    runtime = bridge.launch()
    runtime.start(config=bridge.settings())
    runtime.close()
    assert bridge.wait() == 0
    runtime = bridge.launch()
    runtime.start(config=bridge.settings(failurePolicy="maybe", logLevl="x"))
    assert (runtime.registration.plugin_idx, runtime.registration.plugin_name) == ("10", "v1bridge")
    start_container(runtime)
    runtime.close()
    assert bridge.wait() == 0
    assert bridge.node.steps == [("create", "1f92")]
    assert bridge.log.splitlines()[0].endswith(f" info v1bridge {describe()}")
    said = "error bridge options: failurePolicy: found the string 'maybe', expected one of fail, ignore"
    for then in ("no plugin runs before there are valid ones", "still using the last valid ones"):
        assert has_line(bridge, f"{said}; {then}")
        assert has_line(bridge, f"logLevl: unknown key, did you mean logLevel?; {then}")
    assert has_line(bridge, "info serving fake 1.2")
    assert has_line(bridge, "info synchronized: 0 pods, 0 containers")
    answered = "info answered state=create container=default/web/app id=1f92 ms="
    assert has_line(bridge, answered, ' plugins="keeper ok ')
    assert has_line(bridge, "info disconnected: ")


def test_launched_and_not_configured_it_logs_to_that_file(
    host: Host, bridge: BridgeProcess
) -> None:
    runtime = bridge.launch("first", "01")
    assert runtime.registered.wait(SOON)
    assert (runtime.registration.plugin_idx, runtime.registration.plugin_name) == ("01", "first")
    assert not (host.root / "var-log").exists()
    runtime.close()
    assert bridge.wait() == 0
    assert f" info v1bridge {describe()}\n" in (host.root / "var-log/v1bridge.log").read_text()


def test_plugins_inherit_nothing_and_there_are_no_core_dumps(
    host: Host, bridge: BridgeProcess
) -> None:
    """A core dump of the bridge would have the pods' annotations in it."""
    host.install("a")
    host.configure(plugin("a", ["echo"]), bridge.node.keeper())
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    try:
        with core_dumps():
            runtime = bridge.launch(umask=0o077)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    runtime.start(config=bridge.settings())
    start_container(runtime)
    echo = bridge.node.kept[0]["results"][0]["echo"]
    assert sorted(echo["fds"]) == [0, 1, 2]
    assert not [each for each in echo["environment"] if each.startswith("NRI_")]
    assert (echo["cwd"], echo["umask"], echo["core"]) == ("/", 0o022, "0")
    assert echo["blocked"] == 0
    limits = Path(f"/proc/{bridge.pid}/limits").read_text()
    assert [
        line.split()[4] for line in limits.splitlines() if line.startswith("Max core file size")
    ] == ["0"]


def test_no_settings_prevent_the_registration(bridge: BridgeProcess) -> None:
    runtime = bridge.launch(stderr=subprocess.PIPE)
    for config in ("{", '{"logFile": "/nowhere/x"}', '{"logFile": "/dev/full"}'):
        assert runtime.configure(config)
        assert runtime.configure(config)
        runtime.synchronize([pod()])
    runtime.close()
    assert bridge.wait() == 0
    assert "Traceback" not in bridge.output()[1]


def test_files_that_others_can_write_to_are_not_used_unless_owners_are_unchecked(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure(bridge.node.keeper())
    for path in (host.bin, host.bin / "keeper", host.conf, host.conf / "10-test.conf"):
        path.chmod(0o777)
    runtime = bridge.launch()
    runtime.start(config=bridge.settings(checkOwner=False))
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]
    warning = (
        "warning owners and modes of plugins and configuration are not checked; whoever can write"
    )
    assert wait_until(lambda: bridge.log.count(warning) == 1)
    runtime.configure(bridge.settings(checkOwner=False))
    assert wait_until(lambda: bridge.log.count(warning) == 2)
    runtime.configure(bridge.settings())
    with pytest.raises(
        StatusError, match=r"plugin keeper: not run: .*/keeper is writable by others \(mode 0777, "
    ):
        start_container(runtime)
    assert has_line(bridge, "invalid configuration; still using the last valid one (keeper): ")
    runtime.configure(bridge.settings(failurePolicy="ignore"))
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]
    assert bridge.log.count(warning) == 2


def test_invalid_socket_is_one_line(bridge: BridgeProcess) -> None:
    environment = {
        "NRI_PLUGIN_NAME": "v1bridge",
        "NRI_PLUGIN_IDX": "10",
        "NRI_PLUGIN_SOCKET": "999",
    }
    why = "descriptor 999 is not a connected socket: Bad file descriptor"
    assert why in bridge.refusal(environment=environment)


# Priority


@pytest.mark.skipif(os.geteuid() != 0, reason="raising a priority needs CAP_SYS_NICE")
@pytest.mark.parametrize("nice", [-7, 5])
@pytest.mark.parametrize("launched", [True, False])
def test_bridge_and_its_plugins_run_at_the_priority_of_the_options(
    host: Host, bridge: BridgeProcess, launched: bool, nice: int
) -> None:
    """It is raised, and never lowered: these tests may run niced."""
    expected = min(nice, os.getpriority(os.PRIO_PROCESS, 0))
    host.script("nicer", f"#!/bin/sh\nnice > {host.root}/nice\necho '{{}}'\n")
    host.configure(plugin("nicer"))
    bridge.changes["nice"] = nice
    if launched:
        runtime = bridge.launch()
        runtime.start(config=bridge.settings(nice=nice))
    else:
        runtime = bridge.serve()
    start_container(runtime)
    threads = os.listdir(f"/proc/{bridge.pid}/task")
    assert len(threads) > 2
    assert {os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in threads} == {expected}
    assert (host.root / "nice").read_text() == f"{expected}\n"


def test_priority_that_may_not_be_raised_is_one_debug_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "setpriority", refuse)
    with caplog.at_level("DEBUG", "nri.v1bridge"):
        serving.raise_priority(-20)
    assert caplog.messages == ["priority: nice -20 is not possible: Operation not permitted"]


# From outside


def test_connects_to_a_runtime_that_comes_goes_and_comes_back(
    host: Host, bridge: BridgeProcess
) -> None:
    assert runner.LONGEST_PAUSE < 1.0, "a runtime that is back has its bridge within a second"
    bridge.changes["lateCreate"] = False
    bridge.outside("--idx", "99")
    assert has_line(
        bridge, f"warning no runtime at {bridge.path}: No such file or directory; retrying"
    )
    bridge.listen()
    first = bridge.accept()
    first.start()
    assert (first.registration.plugin_idx, first.registration.plugin_name) == ("99", "v1bridge")
    host.configure(bridge.node.keeper())
    start_container(first)
    host.configure_text("{")
    first.close()

    second = bridge.accept()
    second.configure()
    second.synchronize([pod()])
    second.event(
        api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=api.PodSandbox(id="6efd"))
    )
    assert bridge.node.steps == [("create", "1f92"), ("delete", "6efd")]
    assert bridge.node.kept[-1]["pid"] == POD["pid"]
    assert wait_until(
        lambda: bridge.log.count(f"info connected as 99-v1bridge {describe()}\n") == 2
    )
    assert wait_until(lambda: bridge.log.count(f"info v1bridge {describe()}\n") == 1)
    bridge.signal(signal.SIGINT)
    assert bridge.wait() == 0
    assert has_line(bridge, "info ending: SIGINT")
    assert bridge.log.count("no runtime at ") == 1


def test_settings_of_the_runtime_count_and_the_log_is_stderr(
    host: Host, bridge: BridgeProcess
) -> None:
    bridge.listen()
    bridge.start(*COMMAND, "--socket", bridge.path, stderr=subprocess.PIPE)
    runtime = bridge.accept()
    host.configure(bridge.node.keeper())
    runtime.configure(bridge.settings(logFile=None, logLevel="warning"))
    runtime.synchronize()
    start_container(runtime)
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0
    lines = bridge.output()[1].splitlines()
    assert lines[0].endswith(f" info v1bridge {describe()}")
    assert lines[1].endswith(f" info connected as 10-v1bridge {describe()}")
    assert bridge.node.steps == [("create", "1f92")]
    assert [line for line in lines[2:] if " info " in line] == []


@pytest.mark.parametrize("last", ["keeper", "missing"])
def test_event_that_runs_at_sigterm_is_answered(
    host: Host, bridge: BridgeProcess, last: str
) -> None:
    host.configure(slow(host), bridge.node.keeper() if last == "keeper" else plugin(last))
    runtime = bridge.serve()
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(start_container, runtime)
        assert wait_until((host.root / "begun").exists)
        for _ in range(3):
            bridge.signal(signal.SIGTERM)
            assert has_line(bridge, "info ending: SIGTERM")
        assert bridge.child is not None
        assert bridge.child.poll() is None
        (host.root / "go").touch()
    error = getattr(answer.exception(), "message", "")
    assert error.partition(" no such")[0] == (
        "" if last == "keeper" else "nri v0.1: plugin missing: not found:"
    )
    assert bridge.wait() == 0
    assert bridge.node.steps == ([("create", "1f92")] if last == "keeper" else [])


# The command line


@pytest.mark.parametrize("what", ["settings.json", "."])
def test_settings_that_others_can_write_to_are_refused(
    host: Host, bridge: BridgeProcess, what: str
) -> None:
    file = host.root / "settings.json"
    file.write_text(bridge.settings(checkOwner=False))
    (host.root / what).chmod(0o777)
    said = bridge.refusal("--socket", bridge.path, "--config", str(file))
    host.root.chmod(0o700)
    assert said.startswith(f"{(host.root / what).resolve()} is writable by others (mode")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "settings.json: does not exist, expected the bridge options"),
        (b"\xff{}", "settings.json: is not UTF-8: "),
        (
            b'{"logLevl": 1, "a\\nb": 2}',
            r"logLevl: unknown key, did you mean logLevel?; settings.json: ['a\nb']: unknown",
        ),
    ],
    ids=range(3),
)
def test_invalid_settings_are_one_line(
    host: Host, bridge: BridgeProcess, content: bytes | None, why: str
) -> None:
    if content is not None:
        (host.root / "settings.json").write_bytes(content)
    assert why in bridge.refusal("--config", "settings.json")


def test_help_and_errors_of_the_command_line(bridge: BridgeProcess) -> None:
    bridge.start(*COMMAND, "--wat", stderr=subprocess.PIPE)
    assert bridge.wait() == 2
    said = bridge.output()[1]
    assert said.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in said
    bridge.start(*COMMAND, "-h", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert bridge.wait() == 0
    own, other = bridge.output()[0], process("bridge", "--help").stdout
    assert own.startswith("Usage: v1bridge [OPTIONS]\n")
    assert own.partition("\n")[2] == other.partition("\n")[2]
