"""How a plugin lives: launched, or from outside."""

import logging
import os
import socket
import threading

import pytest

from nri import api, stub
from nri.errors import NRIError
from nri.stub.identity import INDEX_VARIABLE, NAME_VARIABLE, SOCKET_VARIABLE
from tests.support.runtime import Runtime
from tests.support.waiting import TIMEOUT, until


class Plugin(stub.V2Plugin):
    def __init__(self):
        self.pods, self.synchronized = [], 0

    def synchronize(self, pods, containers):
        self.synchronized += 1

    def run_pod_sandbox(self, request, call):
        self.pods.append(request.pod.id)


class Listener:
    """A runtime's socket for plugins from outside."""

    def __init__(self, path, backlog=8):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.bind(path)
        self.sock.listen(backlog)
        self.path, self.runtimes = path, []

    def accept(self, **options):
        sock, _ = self.sock.accept()
        self.runtimes.append(Runtime(sock, **options))
        return self.runtimes[-1]

    def close(self):
        for runtime in self.runtimes:
            runtime.close()
        self.sock.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    return "nri.sock"


@pytest.fixture
def listen(path):
    made = []

    def make(**options):
        made.append(Listener(path, **options))
        return made[-1]

    yield make
    for listener in made:
        listener.close()


@pytest.fixture
def start(path):
    """Starts runners in threads; sees to it that they have ended."""
    made = []

    def make(**options):
        runner = stub.Runner(Plugin(), **{"name": "tester", "index": "42", "path": path, "environment": {}} | options)
        reasons = []
        thread = threading.Thread(target=lambda: reasons.append(runner.run()), name="test-runner")
        made.append((runner, thread))
        thread.start()
        return runner, thread, reasons

    yield make
    for runner, thread in made:
        runner.stop()
        thread.join(TIMEOUT)
        assert not thread.is_alive()


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_one_that_was_launched_serves_its_socket_and_ends_with_it(start):
    ours, theirs = socket.socketpair()
    environment = {NAME_VARIABLE: "launched", INDEX_VARIABLE: "07", SOCKET_VARIABLE: str(ours.detach())}
    runner, thread, reasons = start(environment=environment, path="/nowhere")
    runtime = Runtime(theirs)
    runtime.start()
    assert (runtime.registration.plugin_name, runtime.registration.plugin_idx) == ("launched", "07")
    runtime.event(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod={"id": "pod-1"}))
    assert runner._plugin.pods == ["pod-1"]
    runtime.close()
    thread.join(TIMEOUT)
    assert [str(reason) for reason in reasons] == ["the peer closed the connection"]


def test_one_that_is_given_a_socket_serves_it(start):
    ours, theirs = socket.socketpair()
    _, thread, reasons = start(sock=ours)
    runtime = Runtime(theirs)
    runtime.start()
    runtime.close()
    thread.join(TIMEOUT)
    assert len(reasons) == 1


@pytest.mark.parametrize("value", ["", "three", "-1", "3.0", " 3", "٣", "1234567", "0x3"])
def test_a_socket_number_that_is_none_is_refused(value):
    with pytest.raises(NRIError, match=f"^{SOCKET_VARIABLE} is {value!r}, expected the number of a descriptor$"):
        stub.Runner(Plugin(), name="a", index="10", environment={SOCKET_VARIABLE: value})


def test_a_descriptor_that_is_no_socket_is_refused(tmp_path):
    with open(tmp_path / "file", "w") as file:
        for number in (file.fileno(), 999999):
            with pytest.raises(NRIError, match=f"^descriptor {number} is no connected socket: "):
                stub.Runner(Plugin(), name="a", index="10", environment={SOCKET_VARIABLE: str(number)})


def test_what_can_never_serve_is_refused_at_once():
    with pytest.raises(NRIError, match=r"^V2Plugin handles no event"):
        stub.Runner(stub.V2Plugin(), name="a", index="10", environment={})
    with pytest.raises(stub.IdentityError):
        stub.Runner(Plugin(), executable="plugin", environment={})


def test_one_from_outside_connects_again_when_the_runtime_is_back(start, listen, caplog):
    first = listen()
    runner, _, reasons = start()
    runtime = first.accept()
    runtime.start()
    until(lambda: runner._plugin.synchronized == 1)
    first.close()
    until(lambda: len(warnings(caplog)) == 1)  # it has looked for it in vain
    second = listen()
    runtime = second.accept()
    runtime.start()
    assert runtime.registration.plugin_name == "tester"
    runtime.event(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod={"id": "pod-2"}))
    assert runner._plugin.pods == ["pod-2"]
    assert runner._plugin.synchronized == 2
    assert reasons == []


def test_one_that_finds_no_runtime_says_so_once(start, listen, caplog, monkeypatch):
    monkeypatch.setattr(stub.runner, "LONGEST_PAUSE", 0.01)
    attempts = []
    connect = stub.runner._connect
    monkeypatch.setattr(stub.runner, "_connect", lambda path: attempts.append(path) or connect(path))
    start()
    until(lambda: len(attempts) > 5)
    why = "retrying until a runtime accepts the connection"
    assert warnings(caplog) == [f"no runtime at nri.sock: No such file or directory; {why}"]
    listener = listen()
    runtime = listener.accept()
    runtime.start()
    listener.sock.close()
    runtime.close()
    until(lambda: len(warnings(caplog)) == 2)  # another complaint, once more
    seen = len(attempts)
    until(lambda: len(attempts) > seen + 5)
    assert warnings(caplog)[1:] == [f"no runtime at nri.sock: Connection refused; {why}"]


def test_one_that_is_refused_tries_again_and_says_so_once(start, listen, caplog):
    listener = listen()
    runner, *_ = start()
    for _ in range(3):
        runtime = listener.accept(refuse=lambda: NRIError("not you"))
        until(lambda runtime=runtime: runtime._mux.reason)
    listener.accept().start()
    until(lambda: runner._plugin.synchronized == 1)
    assert warnings(caplog) == [
        (
            "not accepted at nri.sock: the runtime did not register 42-tester: UNKNOWN: not you; "
            "retrying until a runtime accepts the connection"
        )
    ]


def test_one_whose_runtime_goes_away_before_it_has_synchronized_pauses_longer_and_longer(
    start, listen, caplog, monkeypatch
):
    caplog.set_level(logging.DEBUG, "nri.stub")
    monkeypatch.setattr(stub.runner, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(stub.runner, "LONGEST_PAUSE", 0.08)
    monkeypatch.setattr(stub.runner.random, "uniform", lambda low, high: high)
    listener = listen()
    start()
    for _ in range(6):
        runtime = listener.accept()
        runtime.configure()
        runtime.close()
    runtime = listener.accept()
    assert runtime.registered.wait(TIMEOUT)
    said = [text.rpartition(" in ")[2] for text in caplog.messages if "; next attempt in " in text]
    assert said == ["0.01 s", "0.02 s", "0.04 s", "0.08 s", "0.08 s", "0.08 s"]


@pytest.mark.parametrize("phase", ["looking", "connected", "registered", "configured", "serving", "refused", "full"])
def test_stopping_ends_it_in_every_phase(start, listen, phase, caplog):
    listener = None if phase == "looking" else listen(backlog=0)
    waiting = socket.socket(socket.AF_UNIX)
    if phase == "full":  # others wait to be accepted, and there is no room for one more
        waiting.connect(listener.path)
    runner, thread, reasons = start()
    if phase in ("looking", "full"):
        until(lambda: warnings(caplog))
    elif phase == "refused":
        runtime = listener.accept(refuse=lambda: NRIError("not you"))
        until(lambda: runtime._mux.reason)
    elif phase != "connected":
        runtime = listener.accept()
        assert runtime.registered.wait(TIMEOUT)
        if phase == "configured":
            runtime.configure()
        elif phase == "serving":
            runtime.start()
    else:
        until(lambda: runner._session)
    runner.stop()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    if phase in ("registered", "configured", "serving"):
        assert [str(reason) for reason in reasons] == ["the plugin was stopped"]
    waiting.close()


def test_one_that_is_stopped_before_it_runs_does_not_connect(listen, path):
    listener = listen()
    runner = stub.Runner(Plugin(), name="a", index="10", path=path, environment={})
    runner.stop()
    assert runner.run() is None
    listener.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.sock.accept()


def test_one_that_is_stopped_while_it_connects_does_not_serve(start, listen, monkeypatch):
    session = stub.runner.Session

    def connected(*arguments):
        runner.stop()  # there is no session yet that it could close
        return session(*arguments)

    monkeypatch.setattr(stub.runner, "Session", connected)
    runner, thread, reasons = start()
    listen()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    assert [str(reason) for reason in reasons] == ["the plugin was stopped"]


def test_updates_go_to_the_runtime_that_there_is(start, listen):
    listener = listen()
    runner, *_ = start()
    runtime = listener.accept()
    runtime.start()
    gone = api.ContainerUpdate(container_id="gone")
    assert runner.update_containers([gone], timeout=TIMEOUT) == [gone]
    listener.close()
    until(lambda: runner._session is None)
    with pytest.raises(NRIError, match=r"^not connected to a runtime$"):
        runner.update_containers([gone])


def test_no_descriptor_and_no_thread_is_left(start, listen):
    listener = listen()
    before = len(os.listdir("/proc/self/fd"))
    runner, thread, _ = start()
    for number in range(3):
        runtime = listener.accept()
        runtime.start()
        until(lambda number=number: runner._plugin.synchronized == number + 1)
        runtime.close()
    runner.stop()
    thread.join(TIMEOUT)
    until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("register-")]
