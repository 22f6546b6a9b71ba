"""A plugin's connection, from registration to the end, with a runtime that a test drives."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from nri.errors import NRIError
from nri.v2 import api, stub
from nri.v2.api import events
from nri.v2.mux import ClosedError
from nri.v2.stub import plugin as plugin_module
from nri.v2.stub import session as session_module
from nri.v2.ttrpc import Call, Code, StatusError
from tests.support.runtime import NEW, Runtime
from tests.support.waiting import SOON, until

IDENTITY = stub.Identity(name="tester", index="42")
POD = api.PodSandbox(id="pod-1", name="web")
CONTAINER = api.Container(id="container-1", pod_sandbox_id="pod-1")


def subscribed(*names: str) -> Any:
    """A plugin with these handlers, which keeps what they were called with in ``seen``."""

    class Some(stub.V2Plugin):
        def __init__(self) -> None:
            self.seen: list[tuple[str, Any]] = []
            self.configured: list[tuple[str, stub.RuntimeInfo]] = []
            self.synchronized: list[tuple[Sequence[api.PodSandbox], Sequence[api.Container]]] = []
            self.ended = 0
            self.answer: Any = None
            self.choice: Any = None

        def configure(self, config: str, runtime: stub.RuntimeInfo) -> Any:
            self.configured.append((config, runtime))
            return self.choice

        def synchronize(
            self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
        ) -> list[api.ContainerUpdate]:
            self.synchronized.append((pods, containers))
            return [api.ContainerUpdate(container_id=container.id) for container in containers]

        def shutdown(self) -> None:
            self.ended += 1

    for name in names:

        def handle(self: Some, request: Any, call: Call, name: str = name) -> Any:
            self.seen.append((name, request))
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer

        setattr(Some, name, handle)
    return Some()


EVERYTHING = tuple(plugin_module.HANDLERS.values())


class Session(stub.Session):
    """A session that keeps the reason of its end."""

    reason = ""

    def run(self) -> ClosedError:
        reason = super().run()
        self.reason = str(reason)
        return reason


Connect = Callable[..., tuple[Session, Runtime]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connects a plugin to a runtime of the test's; ends all of them afterwards."""
    made = []

    def make(plugin: stub.V2Plugin, **options: Any) -> tuple[Session, Runtime]:
        ours, theirs = socket.socketpair()
        session = Session(plugin, IDENTITY, ours)
        thread = threading.Thread(target=session.run, name="test-session")
        runtime = Runtime(theirs, **options)
        thread.start()
        made.append((session, thread, runtime))
        return session, runtime

    yield make
    for _session, thread, runtime in made:
        runtime.close()
        thread.join(SOON)
        assert not thread.is_alive()
    assert not [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("register-42-tester")
    ]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, {"nri_version": "", "registration_timeout": 0.0, "request_timeout": 0.0}),
        (NEW, {"nri_version": "v0.12.2", "registration_timeout": 5.0, "request_timeout": 2.5}),
    ],
    ids=["up to 0.8", "0.12"],
)
def test_a_plugin_is_configured_with_what_the_runtime_says(
    connect: Connect, sent: dict[str, Any], expected: dict[str, Any]
) -> None:
    plugin = subscribed("run_pod_sandbox")
    session, runtime = connect(plugin)
    assert runtime.registered.wait(SOON)
    assert session.runtime is None
    assert runtime.registration == api.RegisterPluginRequest(
        plugin_name="tester", plugin_idx="42", NRI_version=session_module.NRI_VERSION
    )
    assert runtime.configure("text: ü\n", **sent) == 1
    known = stub.RuntimeInfo(name="fake", version="1.2", **expected)
    assert plugin.configured == [("text: ü\n", known)]
    assert session.runtime == known


def told(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_hooks_follow_the_answer_and_the_end(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox")
    seen: list[str] = []
    plugin.synchronize = lambda pods, containers: seen.append("synchronize")
    plugin.idle = lambda: seen.append("idle") if seen else None
    plugin.disconnected = lambda: seen.append("disconnected")
    _, runtime = connect(plugin)
    runtime.configure()
    runtime.synchronize()
    until(lambda: seen == ["synchronize", "idle"])
    runtime.close()
    until(lambda: seen == ["synchronize", "idle", "disconnected"])


def test_end_of_the_connection_waits_for_a_running_hook(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox")
    begun, closed, ended = threading.Event(), threading.Event(), threading.Event()
    synchronized = threading.Event()
    seen: list[bool] = []

    def synchronize(pods: Any, containers: Any) -> None:
        synchronized.set()

    def idle() -> None:
        if not synchronized.is_set():
            return  # between the configuration and that; it would keep the runtime waiting
        begun.set()
        assert closed.wait(SOON)
        seen.append(ended.wait(0.1))  # that it does not come can only be seen by waiting

    plugin.synchronize = synchronize
    plugin.idle = idle
    plugin.disconnected = ended.set
    _, runtime = connect(plugin)
    runtime.start()
    assert begun.wait(SOON)
    runtime.close()
    closed.set()
    assert ended.wait(SOON)
    assert seen == [False]


def test_no_hook_follows_the_end_of_the_connection(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox")
    begun, seen = threading.Event(), []

    def synchronize(pods: Any, containers: Any) -> None:
        begun.set()
        until(lambda: session.mux.reason)

    plugin.synchronize = synchronize
    plugin.idle = lambda: seen.append("idle") if begun.is_set() else None
    plugin.disconnected = lambda: seen.append("disconnected")
    session, runtime = connect(plugin)
    runtime.configure()

    def ask() -> None:
        with contextlib.suppress(NRIError):
            runtime.synchronize()

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(SOON)
    runtime.close()
    asking.join(SOON)
    until(lambda: session.reason)
    assert seen == ["disconnected"]


def test_mask_follows_the_handlers_that_the_runtime_knows(connect: Connect) -> None:
    for event, name in plugin_module.HANDLERS.items():
        _, runtime = connect(subscribed(name))
        assert runtime.configure(**NEW) == events.mask([event])
    session, runtime = connect(subscribed("update_pod_sandbox"))
    with pytest.raises(
        StatusError, match=r"^FAILED_PRECONDITION: the runtime knows none of the events that"
    ):
        runtime.configure()
    assert session.runtime is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (
            {api.Event.RUN_POD_SANDBOX, "StartContainer"},
            {api.Event.RUN_POD_SANDBOX, api.Event.START_CONTAINER},
        ),
        (iter([1, 6, 6]), {api.Event.RUN_POD_SANDBOX, api.Event.START_CONTAINER}),
        (None, set(plugin_module.HANDLERS)),
        (frozenset(), set(plugin_module.HANDLERS)),
    ],
)
def test_plugin_is_subscribed_to_chosen_or_all_events(
    connect: Connect, choice: Any, expected: set[int]
) -> None:
    plugin = subscribed(*EVERYTHING)
    plugin.choice = choice
    _, runtime = connect(plugin)
    assert runtime.configure(**NEW) == events.mask(expected)


KNOWN = ", ".join(events.BY_RPC)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (
            ["RunPodSandbox", "StopContainer", "StartContainer"],
            (
                "configure chose StartContainer, StopContainer, "
                "but the plugin handles only RunPodSandbox, CreateContainer"
            ),
        ),
        (["a\nb"], rf"configure chose an event: found 'a\nb', expected one of {KNOWN}"),
        (
            "RunPodSandbox",
            "configure returned 'RunPodSandbox', expected a collection of events such as ['CreateContainer']",
        ),
        (9, "configure returned 9, expected a collection of events such as ['CreateContainer']"),
    ],
)
def test_a_choice_that_cannot_be_kept_refuses_the_configuration(
    connect: Connect, choice: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = subscribed("run_pod_sandbox", "create_container")
    plugin.choice = choice
    session, runtime = connect(plugin)
    with pytest.raises(StatusError) as caught:
        runtime.configure()
    assert caught.value.message == said
    assert session.runtime is None
    assert told(caplog, logging.ERROR) == [f"the plugin can't be configured: {said}"]


def test_chosen_event_that_the_runtime_lacks_is_a_warning(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = subscribed(*EVERYTHING)
    plugin.choice = ["RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox"]
    plugin.optional_events = frozenset({api.Event.POST_UPDATE_POD_SANDBOX})
    _, runtime = connect(plugin)
    assert runtime.configure(NRI_version="v0.9.0") == 1
    assert told(caplog) == ["fake 1.2 can't deliver UpdatePodSandbox"]


def test_synchronization_in_parts_reaches_the_plugin_at_once(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox")
    session, runtime = connect(plugin)
    runtime.configure()
    more = api.SynchronizeResponse(more=True)
    assert runtime.synchronize([POD], more=True) == more
    assert runtime.synchronize([api.PodSandbox(id="pod-2")], [CONTAINER], more=True) == more
    assert plugin.synchronized == []
    assert not session.synchronized
    assert runtime.synchronize([], [api.Container(id="container-2")]) == api.SynchronizeResponse(
        update=[
            api.ContainerUpdate(container_id="container-1"),
            api.ContainerUpdate(container_id="container-2"),
        ]
    )
    assert session.synchronized
    pods, containers = plugin.synchronized.pop()
    assert [pod.id for pod in pods] == ["pod-1", "pod-2"]
    assert [container.id for container in containers] == ["container-1", "container-2"]
    runtime.synchronize()  # a second time begins anew
    assert plugin.synchronized == [([], [])]


def test_event_reaches_its_handler_as_call_and_as_state_change(connect: Connect) -> None:
    plugin = subscribed(*EVERYTHING)
    _, runtime = connect(plugin)
    runtime.start(**NEW)
    for method in events.METHODS:
        request: Any = method.request(pod=POD)
        if "container" in method.request.DESCRIPTOR.fields_by_name:
            request.container.CopyFrom(CONTAINER)
        name = plugin_module.HANDLERS[method.event]
        assert runtime.event(method.event, request) == method.response()
        assert plugin.seen == [(name, request)]
        plugin.seen.clear()
        assert runtime.state_change(method.event, pod=POD, container=CONTAINER) == api.Empty()
        assert plugin.seen == ([(name, request)] if method.state_change else [])
        plugin.seen.clear()
    for number in (0, 15, -1):  # no event
        assert runtime.state_change(number, pod=POD) == api.Empty()
    assert plugin.seen == []


def test_an_answer_of_another_type_is_an_error(connect: Connect) -> None:
    plugin = subscribed("create_container", "start_container")
    _, runtime = connect(plugin)
    runtime.start()
    plugin.answer = api.StopContainerResponse()
    why = "returned a StopContainerResponse, expected"
    with pytest.raises(
        StatusError, match=f"^INTERNAL: CreateContainer {why} CreateContainerResponse or None$"
    ):
        runtime.event(api.Event.CREATE_CONTAINER)
    with pytest.raises(
        StatusError, match=f"^INTERNAL: StartContainer {why} StartContainerResponse or None$"
    ):
        runtime.state_change(api.Event.START_CONTAINER)


def test_event_without_a_handler_is_ignored_or_unimplemented(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox")
    _, runtime = connect(plugin)
    runtime.start()
    assert runtime.state_change(api.Event.STOP_POD_SANDBOX, pod=POD) == api.Empty()
    with pytest.raises(StatusError) as caught:  # a runtime with NRI 0.12 then sends a StateChange
        runtime.event(api.Event.STOP_POD_SANDBOX)
    assert caught.value.code == Code.UNIMPLEMENTED
    assert plugin.seen == []


def test_a_state_change_has_what_it_came_with(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox", "start_container")
    _, runtime = connect(plugin)
    runtime.start()
    runtime.state_change(api.Event.RUN_POD_SANDBOX)
    runtime.state_change(api.Event.RUN_POD_SANDBOX, pod=api.PodSandbox(), container=CONTAINER)
    runtime.state_change(api.Event.START_CONTAINER, container=CONTAINER)
    (_, none), (_, empty), (_, started) = plugin.seen
    assert not none.HasField("pod")
    assert empty.HasField("pod")
    assert not started.HasField("pod")
    assert started.container == CONTAINER


def test_handler_that_raises_refuses_and_the_session_lives_on(connect: Connect) -> None:
    plugin = subscribed("run_pod_sandbox")
    _, runtime = connect(plugin)
    runtime.start()
    plugin.answer = StatusError(Code.NOT_FOUND, "no such pod")
    for send in (runtime.event, runtime.state_change):
        with pytest.raises(StatusError) as caught:
            send(api.Event.RUN_POD_SANDBOX)
        assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, "no such pod")
    plugin.answer = None
    assert runtime.event(api.Event.RUN_POD_SANDBOX) == api.RunPodSandboxResponse()
    assert runtime.call("Shutdown", api.Empty(), api.Empty) == api.Empty()
    assert plugin.ended == 1
    assert runtime.event(api.Event.RUN_POD_SANDBOX) == api.RunPodSandboxResponse()


def test_handler_may_update_containers_and_has_time_kept(connect: Connect) -> None:
    connected: list[stub.Session] = []
    kept: list[float] = []

    class Updating(stub.V2Plugin):
        def run_pod_sandbox(self, request: Any, call: Call) -> None:
            kept.append((call.deadline or 0) - (call.answer_by or 0))
            connected[0].update_containers([api.ContainerUpdate(container_id="gone")], timeout=SOON)

    session, runtime = connect(Updating())
    connected.append(session)
    runtime.start()
    runtime.event(api.Event.RUN_POD_SANDBOX, timeout=SOON)
    assert [update.container_id for update in runtime.updates] == ["gone"]
    assert kept == [pytest.approx(0.05)]


def test_a_runtime_that_registers_but_does_not_configure_is_left(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "REGISTRATION_TIMEOUT", 0.2)
    session, _runtime = connect(subscribed("run_pod_sandbox"))
    until(lambda: session.reason)
    assert session.reason == "the runtime registered 42-tester, but did not configure it"


def test_author_says_how_long_a_runtime_may_take_to_register_the_plugin() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        plugin = subscribed("run_pod_sandbox")
        reason = stub.Runner(
            plugin, name="tester", index="42", sock=ours, registration_timeout=0.1
        ).run()
    assert str(reason).startswith("the runtime did not register 42-tester: ")


def test_without_a_thread_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("register-"):
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    ours, theirs = socket.socketpair()
    with theirs:
        reason = stub.Session(subscribed("start_container"), IDENTITY, ours).run()
    assert str(reason) == "a thread cannot be started: can't start new thread"
