"""Client and server on the two ends of a socketpair."""

import threading
import time
from typing import Any

import pytest

from nri.v2.api import PodSandbox
from nri.v2.ttrpc import MAX_DATA, Call, Code, StatusError
from tests.support.connected import SERVICE, call, echo, methods, serving


def test_a_call_is_answered() -> None:
    seen: list[tuple[Any, ...]] = []

    def take(request: PodSandbox, call: Call) -> PodSandbox:
        seen.append((call.service, call.method, call.stream % 2, call.remaining(), call.deadline))
        return request

    with serving(methods(Echo=take)) as client:
        assert call(client, "Echo", "pod-1").name == "pod-1"
        assert call(client, "Echo", "pod-2", timeout=300).name == "pod-2"
    (*first, none, nothing), (*second, left, deadline) = seen
    assert first == [SERVICE, "Echo", 1]
    assert none is None
    assert nothing is None
    assert second == [SERVICE, "Echo", 1]
    assert 0 < left <= 300
    assert abs(deadline - time.monotonic()) <= 300


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
