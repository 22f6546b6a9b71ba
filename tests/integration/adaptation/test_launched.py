"""Plugins that a runtime launches: their environment, configuration, output and end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from nri.adaptation import Exchange, Runtime, launched
from tests.integration.adaptation.starting import SERVE, STUB, install
from tests.support.processes import is_running
from tests.support.v2_plugin import pod
from tests.support.waiting import wait_until


def test_launched_plugin_gets_what_a_real_runtime_gives(tmp_path: Path) -> None:
    report = (
        "import json, os, sys\n"
        "fds = {fd: os.readlink(f'/proc/self/fd/{fd}') for fd in '0123'}\n"
        "more = [fd for fd in range(4, 1024) if os.path.lexists(f'/proc/self/fd/{fd}')]\n"
        "environ = open('/proc/self/environ').read().split('\\0')[:-1]\n"
        "blocked = [line.split()[1] for line in open('/proc/self/status') if line.startswith('SigBlk')]\n"
        f"json.dump([fds, more, environ, os.getcwd(), sys.argv, blocked], open({str(tmp_path / 'report')!r}, 'w'))\n"
    )
    path = install(tmp_path / "plugins", "07-look.er", f"#!{sys.executable} -IS\n{report}")
    inheritable = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    try:
        with Runtime(plugin_dir=str(tmp_path / "plugins")) as runtime:
            assert runtime.plugins == []  # it has ended without registering
    finally:
        os.close(inheritable)
    fds, more, environ, directory, argv, blocked = json.loads((tmp_path / "report").read_text())
    assert [fds[fd] for fd in "012"] == ["/dev/null"] * 3
    assert fds["3"].startswith("socket:")
    assert [fd for fd in more if fd > 4] == [], "more than the file that the report reads"
    assert sorted(environ) == [
        "NRI_PLUGIN_IDX=07",
        "NRI_PLUGIN_NAME=look.er",
        "NRI_PLUGIN_SOCKET=3",
    ]
    assert (directory, argv, blocked) == (os.getcwd(), [str(path)], ["0" * 16])


def test_executables_are_launched_with_their_configuration(tmp_path: Path) -> None:
    for name in ("20-b", "10-a"):
        install(tmp_path / "plugins", name, STUB + SERVE)
    install(tmp_path / "plugins", "30-text", "no program", 0o644)
    for name, text in (("10-a.conf", "mine\n"), ("a.conf", "of all"), ("10-b.conf", "another's")):
        install(tmp_path / "conf.d", name, text)
    said: list[str] = []
    with Runtime(
        plugin_dir=str(tmp_path / "plugins"),
        config_dir=str(tmp_path / "conf.d"),
        on_output=lambda plugin, line: said.append(f"{plugin}: {line}"),
    ) as runtime:
        assert runtime.plugins == ["10-a", "20-b"]
        assert sorted(said) == ["10-a: config 'mine\\n'", "20-b: config ''"]


def test_lines_of_a_plugin_come_before_its_answer(tmp_path: Path) -> None:
    path = install(tmp_path, "10-a", STUB + SERVE)
    story: list[str] = []
    with Runtime(
        plugins=[("10", "a", str(path))],
        on_exchange=lambda exchange: story.append(exchange.event),
        on_output=lambda plugin, line: story.append(line.rpartition(" ")[0]),
    ) as runtime:
        story.clear()
        for name in ("one", "two"):
            runtime.run_pod_sandbox(pod(name))
        assert story == ["pod one", "RunPodSandbox", "pod two", "RunPodSandbox"]


def test_plugins_that_do_not_start_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    install(folder, "10-ends", "#!/bin/true\n")
    install(folder, "11-no-interpreter", "#!/nowhere/python\n")
    install(folder, "12-no-program", "no program\n")
    install(
        folder,
        "13-refuses",
        STUB.replace('print("config"', 'raise ValueError("no, thanks")\n#') + SERVE,
    )
    install(folder, "20-good", STUB + SERVE)
    exchanges: list[Exchange] = []
    with Runtime(
        plugin_dir=str(folder), on_exchange=exchanges.append, registration_timeout=60
    ) as runtime:
        failed = {exchange.plugin: str(exchange.error) for exchange in exchanges if exchange.error}
        assert "did not register: the peer closed the connection" in failed.pop("10-ends")
        assert "can't be started: No such file or directory" in failed.pop("11-no-interpreter")
        assert "can't be started: Exec format error" in failed.pop("12-no-program")
        assert "could not be configured: UNKNOWN: no, thanks" in failed.pop("13-refuses")
        assert failed == {}
        assert runtime.plugins == ["20-good"]


def test_plugin_that_does_not_register_in_time_is_left_out(tmp_path: Path) -> None:
    path = install(tmp_path, "10-sleeps", "#!/bin/sh\nexec /bin/sleep 60\n")
    exchanges: list[Exchange] = []
    plugins = [("10", "sleeps", str(path))]
    with Runtime(
        plugins=plugins, on_exchange=exchanges.append, registration_timeout=0.3
    ) as runtime:
        (exchange,) = exchanges
        assert (exchange.event, exchange.plugin) == ("RegisterPlugin", "10-sleeps")
        assert "did not register within 0.3 s" in str(exchange.error)
        assert runtime.plugins == []


def test_launched_processes_end_with_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched, "GRACE", 0.1)
    stays = (
        STUB.replace("import os, sys", "import os, signal, sys, time") + SERVE + "time.sleep(60)\n"
    )
    folder = tmp_path / "plugins"
    # The stub answers for a handler that hangs, but not in a process that is stopped.
    stops = "os.getpid(), flush=True); os.kill(os.getpid(), 19); time.sleep(60)"
    install(folder, "10-hangs", stays.replace("os.getpid(), flush=True)", stops))
    install(folder, "20-stays", stays)
    install(
        folder,
        "30-deaf",
        stays.replace("\n\nclass", "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\nclass"),
    )
    pids: dict[str, int] = {}
    with Runtime(
        plugin_dir=str(folder),
        request_timeout=1.0,
        on_output=lambda plugin, line: pids.update(
            {plugin: int(line.split()[2])} if "pod" in line else {}
        ),
    ) as runtime:
        runtime.run_pod_sandbox(pod())
        assert runtime.plugins == ["20-stays", "30-deaf"]
        assert wait_until(lambda: set(pids) == {"10-hangs", "20-stays", "30-deaf"})
        assert wait_until(lambda: not is_running(pids["10-hangs"]))
        assert is_running(pids["20-stays"])
        assert is_running(pids["30-deaf"])
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()))
