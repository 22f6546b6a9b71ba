"""Client and server on the two ends of a socketpair."""

import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from nri.api import PodSandbox
from nri.multiplex import Mux
from nri.ttrpc import MAX_DATA, Call, Code, RPCClient, RPCServer, StatusError
from tests.support.connected import SERVICE, at_work, call, echo, methods, running, serving
from tests.support.waiting import TIMEOUT, until


@pytest.mark.parametrize("mux", [True, False], ids=["on a trunk", "on a connection"])
def test_a_call_is_answered(mux: bool) -> None:
    seen: list[tuple[Any, ...]] = []

    def take(request: PodSandbox, call: Call) -> PodSandbox:
        seen.append((call.service, call.method, call.stream % 2, call.metadata, call.remaining(), call.deadline))
        return request

    with serving(methods(Echo=take), mux=mux) as client:
        assert call(client, "Echo", "pod-1").name == "pod-1"
        assert call(client, "Echo", "pod-2", timeout=300, metadata={"trace": "4f", "": "ü"}).name == "pod-2"
    (*first, none, nothing), (*second, left, deadline) = seen
    assert first == [SERVICE, "Echo", 1, {}]
    assert none is None
    assert nothing is None
    assert second == [SERVICE, "Echo", 1, {"trace": "4f", "": "ü"}]
    assert 0 < left <= 300
    assert abs(deadline - time.monotonic()) <= 300


def test_a_slow_call_does_not_delay_a_fast_one() -> None:
    slow, release = threading.Event(), threading.Event()

    def wait(request: PodSandbox, call: Call) -> PodSandbox:
        slow.set()
        assert release.wait(TIMEOUT)
        return request

    with serving(methods(Echo=echo, Wait=wait)) as client:
        answers = []
        caller = threading.Thread(target=lambda: answers.append(call(client, "Wait", "slow").name))
        caller.start()
        assert slow.wait(TIMEOUT)
        assert call(client, "Echo", "fast").name == "fast"
        assert answers == []
        release.set()
        caller.join()
    assert answers == ["slow"]


def test_calls_of_many_threads_get_their_own_answers() -> None:
    with serving(methods(Echo=echo)) as client:
        answers = {}

        def ask(number: int) -> None:
            answers[number] = [call(client, "Echo", f"{number}-{turn}").name for turn in range(20)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: [f"{number}-{turn}" for turn in range(20)] for number in range(12)}


MANY_CALLERS = """
import sys, threading
from tests.support.connected import call, methods, serving
sys.setswitchinterval(1e-6)
answers = {}
together = threading.Barrier(12)  # so that many threads serve at once, and finish at once
def echo(request, call):
    together.wait(300)
    return request
with serving(methods(Echo=echo)) as client:
    def ask(number):
        answers[number] = [call(client, "Echo", f"{number}-{turn}", timeout=300).name for turn in range(60)]
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert answers == {number: [f"{number}-{turn}" for turn in range(60)] for number in range(12)}
"""


def test_many_callers_in_many_processes_get_their_answers_on_a_busy_machine() -> None:
    command = [sys.executable, "-c", MANY_CALLERS]
    busy = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [(process.communicate()[1], process.returncode) for process in busy]
    assert said == [("", 0)] * len(busy)


def pod_of(size: int) -> PodSandbox:
    """A PodSandbox of ``size`` bytes when serialized."""
    pod = PodSandbox(name="x" * (size - 5))  # a tag, and a length of four bytes
    assert pod.ByteSize() == size
    return pod


def test_answer_may_be_as_long_as_a_message_and_no_longer() -> None:
    longest = MAX_DATA - 5
    with serving(methods(Answer=lambda request, call: pod_of(int(request.name)))) as client:
        assert call(client, "Answer", str(longest)).ByteSize() == longest
        with pytest.raises(StatusError, match=r"an answer of 4194305 bytes, at most 4194304 can be sent") as caught:
            call(client, "Answer", str(longest + 1))
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        assert call(client, "Answer", "3000000").ByteSize() == 3_000_000


def test_request_may_be_as_long_as_a_message_and_no_longer() -> None:
    longest = MAX_DATA - (2 + len(SERVICE) + 2 + len("Size") + 5)
    with serving(methods(Size=lambda request, call: PodSandbox(name=str(request.ByteSize())))) as client:
        assert client.call(SERVICE, "Size", pod_of(longest), PodSandbox).name == str(longest)
        with pytest.raises(StatusError, match=r"a request of 4194305 bytes, at most 4194304 can be sent") as caught:
            client.call(SERVICE, "Size", pod_of(longest + 1), PodSandbox)
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        assert client.call(SERVICE, "Size", pod_of(3_000_000), PodSandbox).name == "3000000"


def test_two_servers_share_a_trunk() -> None:
    ours, theirs = (Mux(sock) for sock in socket.socketpair())
    clients = {}
    for number, name in ((1, "first"), (2, "second")):
        RPCServer(theirs.open(number), methods(Who=lambda request, call, name=name: PodSandbox(name=name)))
        clients[number] = RPCClient(ours.open(number))
    with running(ours, theirs):
        assert [call(clients[number], "Who").name for number in (2, 1, 2)] == ["second", "first", "second"]


def test_each_end_may_call_the_other_while_it_is_called() -> None:
    ours, theirs = (Mux(sock) for sock in socket.socketpair())
    back, forth = RPCClient(theirs.open(2)), RPCClient(ours.open(1))
    RPCServer(ours.open(2), methods(Inner=lambda request, _: PodSandbox(name=f"inner {request.name}")))
    RPCServer(theirs.open(1), methods(Outer=lambda request, _: call(back, "Inner", request.name)))
    with running(ours, theirs):
        assert call(forth, "Outer", "x").name == "inner x"


def test_no_thread_and_no_descriptor_is_left() -> None:
    until(lambda: not at_work(), "the end of earlier tests' threads")
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with serving(methods(Echo=echo)) as client:
            for _ in range(10):
                call(client, "Echo")
    until(lambda: not at_work(), "the threads' end")
    assert len(os.listdir("/proc/self/fd")) == descriptors
