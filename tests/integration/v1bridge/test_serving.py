"""The bridge as a process: how it serves a runtime that launched it, or that it found, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nri.build import describe
from nri.errors import NRIError
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.v1bridge.bridge_process import COMMAND, SOURCE, BridgeProcess, slow, start_container
from tests.support.host import Host, plugin
from tests.support.pods import pod
from tests.support.processes import core_dumps, is_running
from tests.support.waiting import SOON, wait_until

# Launched by a runtime


def test_launched_it_registers_serves_and_ends_when_the_runtime_is_done_with_it(
    host: Host, bridge: BridgeProcess
) -> None:
    runtime = bridge.launch()
    host.configure(bridge.node.keeper())
    runtime.start(config=bridge.settings())
    assert (runtime.registration.plugin_idx, runtime.registration.plugin_name) == ("10", "v1bridge")
    start_container(runtime)
    runtime.close()
    assert bridge.wait() == 0
    assert bridge.node.steps == [("create", "1f92")]
    assert bridge.log.splitlines()[0].endswith(f" info v1bridge {describe()}")
    assert wait_until(lambda: bridge.log.count(f" info v1bridge {describe()}") == 1)
    assert wait_until(lambda: "info serving fake 1.2\n" in bridge.log)
    assert wait_until(lambda: "info synchronized: 0 pods, 0 containers\n" in bridge.log)
    answered = "info answered state=create container=default/web/app id=1f92 ms="
    assert wait_until(
        lambda: [line for line in bridge.log.splitlines() if answered in line and ' plugins="keeper ok ' in line]
    )
    assert wait_until(lambda: "info disconnected: " in bridge.log)


def test_launched_on_a_node_without_journal_and_syslog_it_logs_to_a_file(host: Host, bridge: BridgeProcess) -> None:
    runtime = bridge.launch()
    runtime.start(config=bridge.settings(logFile=None))
    runtime.close()
    assert bridge.wait() == 0
    file = host.root / "var-log/v1bridge.log"
    lines = file.read_text().splitlines()
    assert " warning the log cannot be written to syslog: " in lines[0]
    assert lines[1].endswith(f" info v1bridge {describe()}")
    assert "disconnected" in lines[-1]


def test_launched_by_a_runtime_that_does_not_configure_it_its_lines_are_in_that_file(
    host: Host, bridge: BridgeProcess
) -> None:
    runtime = bridge.launch("first", "01")
    assert runtime.registered.wait(SOON)
    assert (runtime.registration.plugin_idx, runtime.registration.plugin_name) == ("01", "first")
    assert not (host.root / "var-log").exists()
    runtime.close()
    assert bridge.wait() == 0
    assert f" info v1bridge {describe()}\n" in (host.root / "var-log/v1bridge.log").read_text()


def test_plugins_inherit_neither_the_runtimes_socket_nor_its_names_and_nothing_leaves_a_core_dump(
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
    assert bridge.child is not None
    limits = Path(f"/proc/{bridge.child.pid}/limits").read_text()
    assert [line.split()[4] for line in limits.splitlines() if line.startswith("Max core file size")] == ["0"]


def test_settings_that_are_wrong_are_said_and_it_serves_all_the_same(host: Host, bridge: BridgeProcess) -> None:
    runtime = bridge.launch()
    assert runtime.configure(bridge.settings(failurePolicy="maybe", logLevl="x"))
    runtime.synchronize()
    host.configure(bridge.node.keeper())
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]
    said = "error bridge options: failurePolicy: found the string 'maybe', expected one of fail, ignore"
    assert wait_until(lambda: f"{said}; the default is used instead\n" in bridge.log)
    assert wait_until(
        lambda: "logLevl: unknown key, did you mean logLevel?; the default is used instead" in bridge.log
    )


def test_no_settings_keep_it_from_being_registered(bridge: BridgeProcess) -> None:
    runtime = bridge.launch(stderr=subprocess.PIPE)
    for config in ("{", '{"logFile": "/nowhere/x"}', '{"logFile": "/dev/full"}'):
        assert runtime.configure(config)
        assert runtime.configure(config)
        runtime.synchronize([pod()])
    runtime.close()
    assert bridge.wait() == 0
    assert "Traceback" not in bridge.output()[1]


def test_a_plugin_that_runs_when_the_runtime_dies_does_not_outlive_its_deadline(
    host: Host, bridge: BridgeProcess
) -> None:
    host.script(
        "hang", f"#!/bin/sh\necho $$ > {host.root}/part\nmv {host.root}/part {host.root}/pid\nexec sleep 1000\n"
    )
    runtime = bridge.launch()
    runtime.start(config=bridge.settings())

    def ask() -> None:
        with pytest.raises(NRIError, match=r"ends|closed|killed|no time is left"):
            start_container(runtime)

    def has_begun(seconds: float) -> bool:
        """Start a container; return whether its plugin has begun. On a busy machine it may be killed before that."""
        host.configure(plugin("hang", timeout=seconds))
        threads.append(threading.Thread(target=ask))
        threads[-1].start()
        is_alive = threads[-1].is_alive
        return wait_until(lambda: (host.root / "pid").exists() or not is_alive()) and (host.root / "pid").exists()

    threads: list[threading.Thread] = []
    assert any(has_begun(2.0**number) for number in range(7))
    runtime.close()
    for thread in threads:
        thread.join()
    assert bridge.wait() == 0
    hanging = int((host.root / "pid").read_text())
    assert wait_until(lambda: not is_running(hanging))
    failed = "error failed state=create container=default/web/app id=1f92 ms="
    assert wait_until(
        lambda: [line for line in bridge.log.splitlines() if failed in line and ' plugins="hang killed ' in line]
    )


def test_a_plugin_that_others_can_write_to_is_not_run_and_the_container_does_not_start(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure(bridge.node.keeper())
    (host.bin / "keeper").chmod(0o777)
    runtime = bridge.launch()
    runtime.start(config=bridge.settings())
    with pytest.raises(StatusError, match=r"plugin keeper: not run: .*/keeper is writable by others \(mode 0777, "):
        start_container(runtime)
    runtime.configure(bridge.settings(failurePolicy="ignore"))
    start_container(runtime)
    assert bridge.node.steps == []
    assert "checkOwner" not in bridge.log


def test_that_owners_are_not_checked_is_said_whenever_it_is_configured(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper())
    for path in (host.bin, host.bin / "keeper", host.conf, host.conf / "10-test.conf"):
        path.chmod(0o777)
    runtime = bridge.launch()
    runtime.start(config=bridge.settings(checkOwner=False))
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]
    warning = "warning owners and modes of plugins and configuration are not checked; whoever can write"
    assert wait_until(lambda: bridge.log.count(warning) == 1)
    runtime.configure(bridge.settings(checkOwner=False))
    assert wait_until(lambda: bridge.log.count(warning) == 2)
    runtime.configure(bridge.settings())
    with pytest.raises(StatusError, match="not run: "):
        start_container(runtime)
    assert wait_until(lambda: "invalid configuration; still using the last valid one (keeper): " in bridge.log)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("-1", "NRI_PLUGIN_SOCKET is '-1', expected the number of a descriptor"),
        ("9" * 50, "expected the number of a descriptor"),
        ("999", "descriptor 999 is not a connected socket: Bad file descriptor"),
        ("0", "descriptor 0 is not a connected socket: Socket operation on non-socket"),
    ],
)
def test_a_socket_that_is_none_is_said(bridge: BridgeProcess, number: str, why: str) -> None:
    environment = {"NRI_PLUGIN_NAME": "v1bridge", "NRI_PLUGIN_IDX": "10", "NRI_PLUGIN_SOCKET": number}
    bridge.start(*COMMAND, environment=environment, stderr=subprocess.PIPE)
    assert bridge.wait() == 1
    assert why in bridge.only_line()


# From outside


def test_debug_logs_what_info_does_and_more(host: Host, bridge: BridgeProcess) -> None:
    body = "lambda self, request: request.new_result(self.type)"
    for name in ("quick", "cold"):
        host.script(
            name,
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {SOURCE!r})\nfrom nri import skel\n"
            f"skel.main(type('Quick', (skel.Plugin,), {{'type': {name!r}, 'resident': True, 'invoke': {body}}})())\n",
        )
    other = plugin("other", states=["update"], failure_policy="ignore")
    host.configure(plugin("quick"), plugin("cold", resident=False), other)
    logs = []
    for level in ("debug", "info"):
        bridge.log_file.unlink(missing_ok=True)
        (host.root / "settings.json").write_text(bridge.settings(logLevel=level))
        if level == "debug":
            bridge.start(*COMMAND, "--socket", "nri.sock", "--config", "settings.json")
            assert wait_until(lambda: bridge.log.count("debug connecting to ") > 1)
            bridge.listen()
        else:
            bridge.start(*COMMAND, "--socket", "nri.sock", "--config", "settings.json")
        runtime = bridge.accept()
        runtime.start()
        start_container(runtime)
        if level == "debug":  # until a resident serves it
            assert wait_until(lambda: start_container(runtime) is not None and "its resident answers" in bridge.log)  # noqa: B023
        bridge.signal(signal.SIGTERM)
        assert bridge.wait() == 0
        logs.append(bridge.log)
    debug, info = logs
    for part in (
        f"debug connecting to {bridge.path}\n",
        f"debug no runtime at {bridge.path}: No such file or directory; next attempt in 0.",
        "debug configuration read (",
        "debug configuration unchanged (",
        "debug event state=create container=default/web/app id=1f92 chain=quick,cold,other ms_left=",
        "debug cold: starting a process for this request\n",
        "debug quick: its resident answers this request\n",
    ):
        assert part in debug
        assert part not in info
    assert " debug " not in info
    assert "error ignored state=create container=default/web/app id=1f92 ms=" in info


def test_from_outside_it_connects_and_again_when_the_runtime_is_back(host: Host, bridge: BridgeProcess) -> None:
    bridge.changes["lateCreate"] = False
    bridge.outside()
    assert wait_until(lambda: "no runtime at " in bridge.log)
    assert wait_until(
        lambda: f"warning no runtime at {bridge.path}: No such file or directory; retrying" in bridge.log
    )
    bridge.listen()
    first = bridge.accept()
    first.start()
    assert (first.registration.plugin_idx, first.registration.plugin_name) == ("10", "v1bridge")
    host.configure(bridge.node.keeper())
    start_container(first)
    host.configure_text("{")
    first.close()

    second = bridge.accept()
    second.configure()
    second.synchronize([pod()])
    second.event(api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=api.PodSandbox(id="6efd")))
    assert bridge.node.steps == [("create", "1f92"), ("delete", "6efd")]
    assert bridge.node.kept[-1]["pid"] == 4711
    assert wait_until(lambda: bridge.log.count(f"info connected as 10-v1bridge {describe()}\n") == 2)
    assert wait_until(lambda: bridge.log.count(f"info v1bridge {describe()}\n") == 1)
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0


@pytest.mark.parametrize("what", ["settings.json", "."])
def test_settings_that_others_can_write_to_end_it_whatever_they_say(
    host: Host, bridge: BridgeProcess, what: str
) -> None:
    file = host.root / "settings.json"
    file.write_text(bridge.settings(checkOwner=False))
    (host.root / what).chmod(0o777)
    bridge.start(*COMMAND, "--socket", bridge.path, "--config", str(file), stderr=subprocess.PIPE)
    assert bridge.wait() == 1
    host.root.chmod(0o700)
    said = bridge.only_line()
    assert said.startswith(f"{file}: bridge options: {(host.root / what).resolve()} is writable by others (mode")


def test_it_says_once_that_there_is_no_runtime_and_ends_when_told(bridge: BridgeProcess) -> None:
    bridge.outside()
    assert wait_until(lambda: "no runtime at " in bridge.log)
    bridge.signal(signal.SIGINT)
    assert bridge.wait() == 0
    assert wait_until(lambda: bridge.log.count("no runtime at ") == 1)
    assert wait_until(lambda: "info ending: SIGINT\n" in bridge.log)


def test_the_index_may_be_another(bridge: BridgeProcess) -> None:
    bridge.listen()
    bridge.outside("--idx", "99")
    runtime = bridge.accept()
    assert runtime.registered.wait(SOON)
    assert (runtime.registration.plugin_idx, runtime.registration.plugin_name) == ("99", "v1bridge")


def test_without_settings_of_its_own_the_runtimes_count_and_the_log_is_stderr(
    host: Host, bridge: BridgeProcess
) -> None:
    bridge.listen()
    bridge.start(*COMMAND, "--socket", bridge.path, stderr=subprocess.PIPE)
    runtime = bridge.accept()
    host.configure(bridge.node.keeper())
    runtime.configure(bridge.settings(logFile=None, logFormat="json"))
    runtime.synchronize()
    start_container(runtime)
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0
    lines = bridge.output()[1].splitlines()
    assert lines[0].endswith(f" info v1bridge {describe()}")
    assert lines[1].endswith(f" info connected as 10-v1bridge {describe()}")
    said = [json.loads(line) for line in lines[2:]]
    assert [line["message"] for line in said].count(f"v1bridge {describe()}") == 0
    (answered,) = [line for line in said if line["message"] == "answered"]
    assert [(part["plugin"], part["outcome"]) for part in answered["plugins"]] == [("keeper", "ok")]


def test_what_is_running_when_it_is_told_to_end_is_answered(host: Host, bridge: BridgeProcess) -> None:
    host.configure(slow(host), bridge.node.keeper())
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.start()
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(start_container(runtime)))
    thread.start()
    assert wait_until(lambda: len(host.processes()) >= 1)
    for _ in range(3):
        bridge.signal(signal.SIGTERM)
        assert wait_until(lambda: "info ending: SIGTERM\n" in bridge.log)
    assert bridge.child is not None
    assert bridge.child.poll() is None
    (host.root / "go").touch()
    thread.join()
    assert answers == [api.StartContainerResponse()]
    assert bridge.wait() == 0
    assert bridge.node.steps == [("create", "1f92")]


def test_an_error_is_an_answer_too(host: Host, bridge: BridgeProcess) -> None:
    host.configure(slow(host), plugin("missing"))
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.start()
    refusals: list[str] = []

    def ask() -> None:
        with pytest.raises(StatusError) as refused:
            start_container(runtime)
        refusals.append(refused.value.message)

    thread = threading.Thread(target=ask)
    thread.start()
    assert wait_until((host.root / "begun").exists)
    bridge.signal(signal.SIGTERM)
    assert wait_until(lambda: "info ending: SIGTERM" in bridge.log)
    (host.root / "go").touch()
    thread.join()
    assert [refusal.partition(" no such")[0] for refusal in refusals] == ["nri v0.1: plugin missing: not found:"]
    assert bridge.wait() == 0
