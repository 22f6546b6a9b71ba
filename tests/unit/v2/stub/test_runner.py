"""A plugin that a runtime launched, and one that connects from outside."""

import errno
import logging
import os
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from nri.errors import NRIError
from nri.v2 import api, stub
from nri.v2.api.names import INDEX_VARIABLE, NAME_VARIABLE, SOCKET_VARIABLE
from nri.v2.mux import ClosedError
from nri.v2.stub import runner as runner_module
from nri.v2.ttrpc import Call
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, until, until_there_are


class Plugin(stub.V2Plugin):
    def __init__(self) -> None:
        self.pods: list[str] = []
        self.synchronizations: list[int] = []

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> None:
        self.synchronizations.append(len(pods))

    def run_pod_sandbox(self, request: Any, call: Call) -> None:
        self.pods.append(request.pod.id)


class Runner(stub.Runner):
    """A runner that shows its plugin to a test."""

    def __init__(self, plugin: Plugin, **options: Any) -> None:
        super().__init__(plugin, **options)
        self.plugin = plugin


class Listener:
    """A runtime's socket for plugins from outside."""

    def __init__(self, path: str, backlog: int = 8) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SOON)
        self.sock.bind(path)
        self.sock.listen(backlog)
        self.path = path
        self.runtimes: list[Runtime] = []

    def accept(self, **options: Any) -> Runtime:
        sock, _ = self.sock.accept()
        self.runtimes.append(Runtime(sock, **options))
        return self.runtimes[-1]

    def close(self) -> None:
        for runtime in self.runtimes:
            runtime.close()
        self.sock.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


def test_plugin_that_is_run_by_its_name_knows_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/nri/plugins/10-web", "--verbose"])
    runner = stub.Runner(Plugin(), environment={})
    assert runner.identity == stub.Identity(name="web", index="10")


Start = Callable[..., tuple[Any, threading.Thread, list[ClosedError | None]]]
Listen = Callable[..., Listener]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    return "nri.sock"


@pytest.fixture
def listen(path: str) -> Iterator[Listen]:
    made: list[Listener] = []

    def make(**options: Any) -> Listener:
        made.append(Listener(path, **options))
        return made[-1]

    yield make
    for listener in made:
        listener.close()


@pytest.fixture
def start(path: str) -> Iterator[Start]:
    """Starts runners in threads; sees to it that they have ended."""
    made = []

    def make(**options: Any) -> Any:
        runner = Runner(
            Plugin(), **{"name": "tester", "index": "42", "path": path, "environment": {}} | options
        )
        reasons = []
        thread = threading.Thread(target=lambda: reasons.append(runner.run()), name="test-runner")
        made.append((runner, thread))
        thread.start()
        return runner, thread, reasons

    yield make
    for runner, thread in made:
        runner.stop()
        thread.join(SOON)
        assert not thread.is_alive()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_given_socket_goes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    plugin = Plugin()
    monkeypatch.setenv(SOCKET_VARIABLE, "999999")
    serving = threading.Thread(
        target=lambda: stub.run(plugin, name="given", index="10", sock=ours, path="/nowhere")
    )
    serving.start()
    runtime = Runtime(theirs)
    runtime.start()
    assert plugin.synchronizations == [0]
    assert runtime.registration.plugin_name == "given"
    runtime.close()
    serving.join(SOON)
    assert not serving.is_alive()
    assert ours.fileno() == -1


def test_unusable_given_socket_is_refused_and_stays_open(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
    closed, _other = socket.socketpair()
    closed.close()
    with socket.socket(socket.AF_UNIX) as alone, ours, theirs, _other:
        for sock, said in [
            (alone, "the given socket is not connected: Transport endpoint is not connected"),
            (closed, "the given socket is not connected: Bad file descriptor"),
            (ours, "found <socket.socket .*>, expected a connected stream socket"),
            (ours.fileno(), r"found \d+, expected a connected stream socket"),
            ("/run/nri.sock", "found '/run/nri.sock', expected a connected stream socket"),
        ]:
            with pytest.raises(NRIError, match=f"^{said}$"):
                stub.Runner(
                    Plugin(), name="a", index="10", environment={}, sock=cast(socket.socket, sock)
                )
        assert alone.fileno() != -1
        assert ours.fileno() != -1


def test_plugin_that_can_never_serve_is_refused() -> None:
    named: dict[str, Any] = {"name": "a", "index": "10", "environment": {}}
    for value in ("", "-1", "٣", "1234567"):
        with pytest.raises(
            NRIError, match=f"^{SOCKET_VARIABLE} is {value!r}, expected the number of a descriptor$"
        ):
            stub.Runner(Plugin(), **named | {"environment": {SOCKET_VARIABLE: value}})
    with pytest.raises(NRIError, match=r"^V2Plugin handles no event"):
        stub.Runner(stub.V2Plugin(), **named)
    with pytest.raises(stub.IdentityError):
        stub.Runner(Plugin(), executable="plugin", environment={})


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("run_pod_sanbox", "run_pod_sandbox"),
        ("createContainer", "create_container"),
        ("UpdateContainer", "update_container"),
        ("syncronize", "synchronize"),
        ("configured", "configure"),
    ],
)
def test_a_method_that_looks_like_a_handler_is_refused(wrong: str, right: str) -> None:
    typed = type("Typed", (Plugin,), {wrong: lambda self, request, call: None})
    with pytest.raises(
        NRIError, match=rf"^Typed\.{wrong}: found a method for no event, expected {right}, or"
    ):
        stub.Runner(typed(), name="a", index="10", environment={})


class Mistyped(Plugin):
    """A type checker sees that the handler takes another event's request, and returns another event's response."""

    def create_container(self, request: api.StopContainerRequest, call: Call) -> None:  # type: ignore[override]
        pass

    def update_container(self, request: Any, call: Call) -> api.StopContainerResponse:  # type: ignore[override]
        return api.StopContainerResponse()


def test_a_handler_is_subscribed_only_if_it_is_defined() -> None:
    assert len(stub.plugin.handlers(Plugin())) == 1
    assert len(stub.plugin.handlers(Mistyped())) == 3


def test_other_methods_are_the_plugins_own() -> None:
    own = {
        name: lambda self: None
        for name in ("container", "log_container", "_create_containers", "reconfigure_all")
    }
    stub.Runner(type("Own", (Plugin,), own)(), name="a", index="10", environment={})


def test_help_says_what_the_plugin_handles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Told(Plugin):
        """Notes pods.

        And forgets them.
        """

    for word in ("--help", "-h"):
        monkeypatch.setattr("sys.argv", ["/opt/nri/plugins/10-told", word])
        stub.run(Told())
        assert capsys.readouterr().out.startswith(
            "10-told: a plugin of the Node Resource Interface v2\n\nNotes pods.\n\nAnd forgets them.\n\n"
            "It handles RunPodSandbox.\n\nA runtime starts it as "
        )


def test_one_that_finds_no_runtime_says_so_once(
    start: Start, listen: Listen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "LONGEST_PAUSE", 0.01)
    attempts: list[str] = []
    connect = runner_module.connect

    def counted(path: str) -> socket.socket:
        attempts.append(path)
        return connect(path)

    monkeypatch.setattr(runner_module, "connect", counted)
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


def test_connection_for_which_there_is_no_descriptor_is_made_again(
    start: Start, listen: Listen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "LONGEST_PAUSE", 0.01)
    failures = [OSError(errno.EMFILE, "Too many open files")]

    def session(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return stub.Session(*arguments)

    monkeypatch.setattr(runner_module, "Session", session)
    listener = listen()
    start()
    refused = listener.accept()
    runtime = listener.accept()
    runtime.start()
    assert "no runtime at nri.sock: Too many open files" in warnings(caplog)[0]
    refused.close()
    runtime.close()


def test_one_that_is_refused_tries_again_and_says_so_once(
    start: Start, listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listen()
    runner, *_ = start()
    for _ in range(3):
        runtime = listener.accept(refuse=lambda: NRIError("not you"))
        until(runtime.is_closed)
    listener.accept().start()
    until(lambda: len(runner.plugin.synchronizations) == 1)
    assert warnings(caplog) == [
        (
            "not accepted at nri.sock: the runtime did not register 42-tester: UNKNOWN: not you; "
            "retrying until a runtime accepts the connection"
        )
    ]


def test_pauses_grow_while_the_runtime_goes_away_early(
    start: Start, listen: Listen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "nri.v2.stub")
    monkeypatch.setattr(runner_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(runner_module, "LONGEST_PAUSE", 0.08)
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    listener = listen()
    start()
    for _ in range(6):
        runtime = listener.accept()
        runtime.configure()
        runtime.close()
    runtime = listener.accept()
    assert runtime.registered.wait(SOON)
    said = [text.rpartition(" in ")[2] for text in caplog.messages if "; next attempt in " in text]
    assert said == ["0.01 s", "0.02 s", "0.04 s", "0.08 s", "0.08 s", "0.08 s"]


@pytest.mark.parametrize(
    "phase", ["looking", "connected", "registered", "configured", "serving", "refused", "full"]
)
def test_stopping_ends_it_in_every_phase(
    start: Start, listen: Listen, phase: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = None if phase == "looking" else listen(backlog=0)
    waiting = socket.socket(socket.AF_UNIX)
    if phase == "full":  # others wait to be accepted, and there is no room for one more
        assert listener is not None
        waiting.connect(listener.path)
    runner, thread, reasons = start()
    if phase in ("looking", "full"):
        until(lambda: warnings(caplog))
    elif listener is not None and phase == "refused":
        runtime = listener.accept(refuse=lambda: NRIError("not you"))
        until(runtime.is_closed)
    elif listener is not None and phase != "connected":
        runtime = listener.accept()
        assert runtime.registered.wait(SOON)
        if phase == "configured":
            runtime.configure()
        elif phase == "serving":
            runtime.start()
    else:
        until(lambda: runner.session)
    runner.stop()
    thread.join(SOON)
    assert not thread.is_alive()
    if phase in ("registered", "configured", "serving"):
        assert [str(reason) for reason in reasons] == ["the plugin was stopped"]
    waiting.close()


def test_one_that_is_stopped_before_it_runs_does_not_connect(listen: Listen, path: str) -> None:
    listener = listen()
    runner = stub.Runner(Plugin(), name="a", index="10", path=path, environment={})
    runner.stop()
    assert runner.run() is None
    listener.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.sock.accept()


def test_one_that_is_stopped_while_it_connects_does_not_serve(
    start: Start, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stub.Session

    def connected(*arguments: Any) -> stub.Session:
        runner.stop()  # there is no session yet that it could close
        return session(*arguments)

    monkeypatch.setattr(runner_module, "Session", connected)
    runner, thread, reasons = start()
    listen()
    thread.join(SOON)
    assert not thread.is_alive()
    assert [str(reason) for reason in reasons] == ["the plugin was stopped"]


def test_updates_go_to_the_runtime_that_there_is(start: Start, listen: Listen) -> None:
    listener = listen()
    runner, *_ = start()
    runtime = listener.accept()
    runtime.start()
    gone = api.ContainerUpdate(container_id="gone")
    assert runner.update_containers([gone], timeout=SOON) == [gone]
    listener.close()
    until(lambda: runner.session is None)
    with pytest.raises(NRIError, match=r"^not connected to a runtime$"):
        runner.update_containers([gone])


def test_no_descriptor_and_no_thread_is_left(start: Start, listen: Listen) -> None:
    listener = listen()
    before = len(os.listdir("/proc/self/fd"))
    runner, thread, _ = start()
    for number in range(3):
        runtime = listener.accept()
        runtime.start()
        until_there_are(number + 1, runner.plugin.synchronizations)
        runtime.close()
    runner.stop()
    thread.join(SOON)
    until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert not [
        thread.name for thread in threading.enumerate() if thread.name.startswith("register-")
    ]


# A plugin's name and index, and where they come from

LAUNCHED = {NAME_VARIABLE: "launched", INDEX_VARIABLE: "20"}


@pytest.mark.parametrize(
    ("environment", "executable", "given", "expected"),
    [
        (LAUNCHED, "/opt/nri/plugins/30-file", {"name": "given", "index": "40"}, "20-launched"),
        ({}, "/opt/nri/plugins/30-file", {"name": "given", "index": "40"}, "40-given"),
        ({NAME_VARIABLE: "", INDEX_VARIABLE: ""}, "30-file", {}, "30-file"),
        ({NAME_VARIABLE: "launched"}, "30-file", {}, "30-launched"),
        ({}, "30-file", {"index": "40"}, "40-file"),
        ({}, "plugin", {"name": "a.B_c+d-9", "index": "00"}, "00-a.B_c+d-9"),
        ({}, "30-with-more-dashes", {}, "30-with-more-dashes"),
    ],
)
def test_identity_comes_from_environment_options_or_name(
    environment: dict[str, str], executable: str, given: dict[str, str], expected: str
) -> None:
    assert str(stub.Identity.find(environment, executable, **given)) == expected


@pytest.mark.parametrize(
    ("executable", "given", "missing"),
    [
        ("3-file", {}, "name and index"),
        ("30-", {}, "name and index"),
        ("30-dir/file", {}, "name and index"),
        ("plugin", {"name": "given"}, "index"),
        ("plugin", {"index": "40"}, "name"),
    ],
)
def test_missing_name_or_index_is_an_error(
    executable: str, given: dict[str, str], missing: str
) -> None:
    with pytest.raises(
        stub.IdentityError,
        match=f"^the plugin's {missing} is not known: .*; expected one like 10-name$",
    ):
        stub.Identity.find({}, executable, **given)


def test_name_or_index_that_no_runtime_accepts_is_refused() -> None:
    for name in ("a b", "a/b", "ä", "a\n", "\udcff"):
        with pytest.raises(
            stub.IdentityError,
            match=r"^found the plugin name .*, expected letters, digits and _ \. \+ -$",
        ):
            stub.Identity.find({}, "", name=name, index="10")
    for index in ("1", "100", "ab", "-1", "10\n", "١٢"):
        with pytest.raises(
            stub.IdentityError, match=r"^found the plugin index .*, expected two digits, as in 10$"
        ):
            stub.Identity.find({}, "", name="name", index=index)
