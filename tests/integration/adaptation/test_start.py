"""How plugins come: launched, or from outside; registered, configured, synchronized; and how they go."""

from __future__ import annotations

import copy
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from nri import api, stub
from nri.adaptation import AdaptationError, Exchange, Runtime
from nri.adaptation.lifecycle import PodTemplate
from nri.adaptation.sync import MAX_PART, parts
from nri.ttrpc import MAX_DATA, StatusError
from tests.support.processes import is_running
from tests.support.v2_plugin import Plugin, container, pod
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
STUB = f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {SOURCE!r})
from nri import stub

class Plugin(stub.V2Plugin):
    def configure(self, config, runtime):
        print("config", repr(config), flush=True)

    def run_pod_sandbox(self, request, call):
        print("pod", request.pod.name, os.getpid(), flush=True)

"""
SERVE = "stub.run(Plugin())\n"


def install(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


# Launched


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


# From outside


def test_the_socket_is_its_owners_alone_and_goes_with_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "run" / "nri.sock"
    with Runtime(socket_path=str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
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
def test_another_users_process_is_refused_although_it_reaches_the_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "nri.sock"
    stranger = (
        "import os, socket\nos.chdir(os.sys.argv[1])\nos.setgroups([])\nos.setgid(4711)\nos.setuid(4711)\n"
        "sock = socket.socket(socket.AF_UNIX)\nsock.settimeout(30)\nsock.connect('nri.sock')\n"
        "try:\n    print(sock.recv(1))\nexcept ConnectionResetError:\n    print(b'')\n"
    )
    with Runtime(socket_path=str(path)) as runtime:
        tmp_path.chmod(0o711)  # as if modes were not in the way
        path.chmod(0o666)
        done = subprocess.run(
            [sys.executable, "-c", stranger, tmp_path], capture_output=True, text=True, timeout=SOON, check=False
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


def outside(path: Path, **options: object) -> Plugin:
    sock = socket.socket(socket.AF_UNIX)
    assert wait_until(lambda: sock.connect_ex(str(path)) == 0), "nobody listens"
    return Plugin(sock=sock, **options).start()  # type: ignore[arg-type]


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
    [
        ("1", "a", "found the plugin index '1'"),
        ("1a", "a", "found the plugin index"),
        ("10", "a b", "found the plugin name 'a b'"),
        ("10", "", "name"),
    ],
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
    with pytest.raises(AdaptationError, match="it is there, and is no socket"):
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
    registering = [threading.Thread(target=_register, args=[plugin]) for plugin in plugins]
    for thread in registering:
        thread.start()
    runtime.close()
    for plugin, thread in zip(plugins, registering, strict=True):
        assert plugin.gone(SOON)
        thread.join()


def _register(plugin: Plugin) -> None:
    try:
        plugin.register()
    except Exception:
        pass


# Synchronized


def test_twenty_thousand_containers_come_in_parts(tmp_path: Path) -> None:
    with Runtime(request_timeout=SOON) as runtime:
        shape = PodTemplate()
        first = shape.pod()
        runtime.store.pods[first.id] = first
        for number in range(20000):
            item = shape.container(first, number)
            runtime.store.containers[item.id] = item
        started = time.monotonic()
        plugin = Plugin().connect(runtime)
        assert time.monotonic() - started < SOON
        assert runtime.plugins == ["10-test"]
        requests = plugin.requests("Synchronize")
        assert [len(request.pods) for request in requests] == [1] + [0] * (len(requests) - 1)
        assert [request.more for request in requests] == [True] * (len(requests) - 1) + [False]
        assert len(requests) > 2
        assert all(request.ByteSize() <= MAX_PART for request in requests)
        ids = [item.id for request in requests for item in request.containers]
        assert ids == list(runtime.store.containers)


@pytest.mark.raw  # an old runtime sends this, and nothing sends it to a Go reader of ours
def test_up_to_nri_0_6_everything_comes_in_one_message_however_long_and_a_stub_takes_it() -> None:
    taken = []

    class Taking(stub.V2Plugin):
        def run_pod_sandbox(self, request: object, call: object) -> None:
            pass

        def synchronize(self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]) -> None:
            taken.extend([len(pods), len(containers)])

    exchanges: list[Exchange] = []
    with Runtime(nri_version=(0, 6), request_timeout=SOON, on_exchange=exchanges.append) as runtime:
        shape = PodTemplate()
        made = shape.pod()
        item = shape.container(made, 0)
        item.args.append("x" * 1000)
        for number in range(3000):
            made.id = item.pod_sandbox_id = f"pod-{number}"
            item.id = f"container-{number}"
            runtime.store.pods[made.id] = copy.deepcopy(made)
            runtime.store.containers[item.id] = copy.deepcopy(item)
        ours, theirs = socket.socketpair()
        runner = stub.Runner(Taking(), name="taking", index="10", sock=theirs)
        serving = threading.Thread(target=runner.run)
        serving.start()
        assert runtime.attach(ours) == "10-taking"
        (sent,) = [each.request for each in exchanges if each.event == "Synchronize"]
        assert sent.ByteSize() > MAX_DATA
        assert taken == [3000, 3000]
        assert runtime.run_pod_sandbox(shape.pod()).error is None
    serving.join(SOON)
    assert not serving.is_alive()


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_parts_are_as_full_as_they_can_be(count: int) -> None:
    items = [container(str(number), args=["x" * 100]) for number in range(count)]
    found = list(parts([pod()], items, limit=300))
    assert sum(len(part.containers) for part in found) == count
    assert [part.more for part in found] == [True] * (len(found) - 1) + [False]
    assert len(found) <= count // 2 + 1


def test_a_plugin_that_knows_nothing_of_parts_is_out() -> None:
    with Runtime(request_timeout=SOON) as runtime:
        for number in range(6):
            runtime.store.containers[str(number)] = container(str(number), args=["x" * 1024 * 1024])
        with pytest.raises(AdaptationError, match="does not handle a Synchronize in several parts"):
            Plugin(Synchronize=api.SynchronizeResponse()).connect(runtime)


def test_one_that_does_not_get_synchronized_in_time_is_out() -> None:
    release = threading.Event()

    def hang(request: api.SynchronizeRequest) -> api.SynchronizeResponse:
        release.wait(SOON)
        return api.SynchronizeResponse()

    with Runtime(request_timeout=0.2) as runtime:
        with pytest.raises(AdaptationError, match="could not be synchronized"):
            Plugin(Synchronize=hang).connect(runtime)
        release.set()
        assert runtime.plugins == []
