"""Plugins from outside: the socket, the permission to connect, and registration."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nri.adaptation import AdaptationError, Runtime
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.adaptation.starting import install, outside
from tests.support.v2_plugin import Plugin, pod
from tests.support.waiting import SOON, wait_until


def test_socket_is_private_and_removed_with_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "run" / "nri.sock"
    with Runtime(socket_path=str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o1777, 0o702])
def test_a_directory_that_others_can_write_to_is_not_listened_in(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run" / "nri.sock"
    path.parent.mkdir()
    path.parent.chmod(mode)
    expected = (
        rf"can't listen in .*/run: it is writable by others \(mode {mode:04o}, owner .*\); expected it to be root"
    )
    with pytest.raises(AdaptationError, match=expected), Runtime(socket_path=str(path)):
        pass
    assert not path.exists()


def test_a_directory_that_others_can_look_into_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run" / "nri.sock"
    path.parent.mkdir(mode=0o755)
    with Runtime(socket_path=str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"{path.parent} has mode 0755: others can see who listens there" in caplog.messages


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_process_of_another_user_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "nri.sock"
    stranger = (
        "import os, socket, sys\nos.chdir(sys.argv[1])\nos.setgroups([])\nos.setgid(4711)\nos.setuid(4711)\n"
        "sock = socket.socket(socket.AF_UNIX)\nsock.settimeout(30)\nsock.connect('nri.sock')\n"
        "try:\n    print(sock.recv(1))\nexcept ConnectionResetError:\n    print(b'')\n"
    )
    with Runtime(socket_path=str(path)) as runtime:
        tmp_path.chmod(0o711)  # as if modes were not in the way
        path.chmod(0o666)
        # -S: nothing else is loaded that would write to a folder as the other user, as a measurement of coverage does
        done = subprocess.run(
            [sys.executable, "-S", "-c", stranger, tmp_path],
            capture_output=True,
            text=True,
            timeout=SOON,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("b''\n", "")
        refused = [line for line in caplog.messages if line.startswith("refused: process ")]
        assert len(refused) == 1
        assert refused[0].endswith(f" of user 4711 has connected to {path}")
        assert runtime.plugins == []
        late = outside(path, index="10", name="late")  # others are still served
        late.register()
        assert runtime.wait_for(1, SOON)
        late.hang_up()
        assert wait_until(lambda: runtime.plugins == [])


def test_a_plugin_from_outside_comes_whenever_it_likes(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with Runtime(socket_path=str(path), config_dir=str(tmp_path)) as runtime:
        install(tmp_path, "10-late.conf", "not for plugins from outside")
        runtime.run_pod_sandbox(pod())
        late = outside(path, index="10", name="late", StopPodSandbox=api.StopPodSandboxResponse())
        late.register()
        assert runtime.wait_for(1, SOON)
        runtime.stop_pod_sandbox(pod())
        assert late.events == ["StopPodSandbox"]
        assert late.requests("Configure")[0].config == ""
        assert [pod.name for pod in late.requests("Synchronize")[0].pods] == ["pod"]
        late.hang_up()
        assert wait_until(lambda: runtime.plugins == [])


@pytest.mark.parametrize(
    ("index", "name", "complaint"),
    [("1a", "a", "found the plugin index '1a'"), ("10", "", "found the plugin name ''")],
)
def test_a_plugin_with_a_wrong_name_is_refused(tmp_path: Path, index: str, name: str, complaint: str) -> None:
    path = tmp_path / "nri.sock"
    with Runtime(socket_path=str(path)) as runtime:
        plugin = outside(path, index=index, name=name)
        with pytest.raises(StatusError, match=complaint):
            plugin.register()
        assert plugin.gone(SOON)
        assert runtime.plugins == []


def test_one_that_connects_and_says_nothing_is_sent_away(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with Runtime(socket_path=str(path), registration_timeout=0.1):
        assert outside(path).gone(SOON)


def test_an_old_socket_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    with Runtime(socket_path=str(path)):
        pass
    path.write_text("precious")
    with pytest.raises(AdaptationError, match="it exists and is not a socket"):
        Runtime(socket_path=str(path)).start()
    assert path.read_text() == "precious"


def test_a_path_that_is_too_long_for_a_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AdaptationError, match="can't listen at"):
        Runtime(socket_path=str(tmp_path / ("x" * 100) / "nri.sock")).start()


def test_a_runtime_can_be_closed_while_plugins_come(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    runtime = Runtime(socket_path=str(path))
    runtime.start()
    plugins = [outside(path, index=f"{number:02}") for number in range(8)]
    registering = [threading.Thread(target=register, args=[plugin]) for plugin in plugins]
    for thread in registering:
        thread.start()
    runtime.close()
    for plugin, thread in zip(plugins, registering, strict=True):
        assert plugin.gone(SOON)
        thread.join()


def register(plugin: Plugin) -> None:
    try:
        plugin.register()
    except Exception:
        pass
