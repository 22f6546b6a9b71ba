"""Plugins that a runtime launches: their environment, configuration, output and end."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from nri.adaptation import AdaptationError, Exchange, Runtime
from tests.integration.adaptation.starting import SERVE, STUB, install
from tests.support.processes import is_running
from tests.support.v2_plugin import pod
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_a_launched_plugin_gets_exactly_what_a_real_runtime_gives(tmp_path: Path) -> None:
    report = (
        "import json, os, sys\n"
        "fds = {fd: os.readlink(f'/proc/self/fd/{fd}') for fd in '0123'}\n"
        "more = [fd for fd in range(4, 1024) if os.path.lexists(f'/proc/self/fd/{fd}')]\n"
        "environ = open('/proc/self/environ').read().split('\\0')[:-1]\n"
        "ignored = [line.split()[1] for line in open('/proc/self/status') if line.startswith('SigIgn')]\n"
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
    assert sorted(environ) == ["NRI_PLUGIN_IDX=07", "NRI_PLUGIN_NAME=look.er", "NRI_PLUGIN_SOCKET=3"]
    assert (directory, argv, blocked) == (os.getcwd(), [str(path)], ["0" * 16])


def test_the_executables_of_a_directory_are_launched_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    install(folder, "20-b", STUB + SERVE)
    install(folder, "10-a", STUB + SERVE)
    install(folder, "30-text", "no program", 0o644)
    (folder / "40-folder").mkdir()
    with Runtime(plugin_dir=str(folder)) as runtime:
        assert runtime.plugins == ["10-a", "20-b"]


def test_no_directory_is_no_plugins(tmp_path: Path) -> None:
    with Runtime(plugin_dir=str(tmp_path / "none")) as runtime:
        assert runtime.plugins == []


def test_an_executable_with_another_name_is_an_error(tmp_path: Path) -> None:
    install(tmp_path / "plugins", "logger", STUB)
    with pytest.raises(AdaptationError, match="found 'logger', expected a plugin's name such as 10-logger"):
        Runtime(plugin_dir=str(tmp_path / "plugins")).start()


@pytest.mark.parametrize(
    ("files", "config"),
    [
        ({"10-a.conf": "mine\n", "a.conf": "of all"}, "mine\n"),
        ({"a.conf": "of all", "b.conf": "another's"}, "of all"),
        ({"20-a.conf": "another's"}, ""),
    ],
)
def test_a_plugin_gets_the_text_of_its_configuration_file(tmp_path: Path, files: dict[str, str], config: str) -> None:
    install(tmp_path / "plugins", "10-a", STUB + SERVE)
    for name, text in files.items():
        install(tmp_path / "conf.d", name, text)
    said: list[str] = []
    with Runtime(
        plugin_dir=str(tmp_path / "plugins"),
        config_dir=str(tmp_path / "conf.d"),
        on_output=lambda plugin, line: said.append(f"{plugin}: {line}"),
    ):
        assert said == [f"10-a: config {config!r}"]


def test_a_configuration_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    install(tmp_path / "plugins", "10-a", STUB + SERVE)
    (tmp_path / "a.conf").write_bytes(b"a\xff")
    with pytest.raises(AdaptationError, match=r"a\.conf is not UTF-8 at byte 1"):
        Runtime(plugin_dir=str(tmp_path / "plugins"), config_dir=str(tmp_path)).start()


def test_what_a_plugin_prints_is_there_before_its_answer(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("#!/bin/true\n", "did not register: the peer closed the connection"),
        ("#!/bin/sh\nexec /bin/sleep 60\n", "did not register within 0.3 s"),
        ("#!/nowhere/python\n", "can't be started: No such file or directory"),
        ("no program\n", "can't be started: Exec format error"),
    ],
)
def test_a_plugin_that_does_not_start_is_passed_over(tmp_path: Path, text: str, complaint: str) -> None:
    folder = tmp_path / "plugins"
    install(folder, "10-bad", text)
    install(folder, "20-good", STUB + SERVE)
    exchanges: list[Exchange] = []
    runtime = Runtime(plugin_dir=str(folder), on_exchange=exchanges.append, registration_timeout=0.3)
    if "sleep" not in text:
        runtime = Runtime(plugin_dir=str(folder), on_exchange=exchanges.append)
    with runtime:
        first = exchanges[0]
        assert (first.event, first.plugin) == ("RegisterPlugin", "10-bad")
        assert complaint in str(first.error)
        if "sleep" not in text:
            assert runtime.plugins == ["20-good"]


def test_a_plugin_that_refuses_its_configuration_is_out(tmp_path: Path) -> None:
    path = install(tmp_path, "10-a", STUB.replace('print("config"', 'raise ValueError("no, thanks")\n#') + SERVE)
    exchanges: list[Exchange] = []
    with Runtime(plugins=[("10", "a", str(path))], on_exchange=exchanges.append) as runtime:
        assert runtime.plugins == []
    assert "could not be configured: UNKNOWN: no, thanks" in str(exchanges[-1].error)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_launched_process_ends_with_the_runtime_and_when_it_is_cut_off(tmp_path: Path, deaf: bool) -> None:
    imports = "import os, signal, sys, time"
    prelude = imports + "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)" if deaf else imports
    stays = STUB.replace("import os, sys", prelude) + SERVE + "time.sleep(60)\n"
    folder = tmp_path / "plugins"
    # The stub answers for a handler that hangs, but not in a process that is stopped.
    hangs = stays.replace(
        "os.getpid(), flush=True)", "os.getpid(), flush=True); os.kill(os.getpid(), 19); time.sleep(60)"
    )
    install(folder, "10-hangs", hangs)
    install(folder, "20-stays", stays)
    pids: dict[str, int] = {}
    with Runtime(
        plugin_dir=str(folder),
        request_timeout=1.0,
        on_output=lambda plugin, line: pids.update({plugin: int(line.split()[2])} if "pod" in line else {}),
    ) as runtime:
        runtime.run_pod_sandbox(pod())
        assert runtime.plugins == ["20-stays"]
        assert set(pids) == {"10-hangs", "20-stays"}
        assert wait_until(lambda: not is_running(pids["10-hangs"]))
        assert is_running(pids["20-stays"])
    assert wait_until(lambda: not os.path.exists(f"/proc/{pids['20-stays']}"))
