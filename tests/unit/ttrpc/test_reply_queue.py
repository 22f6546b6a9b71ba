"""Replies that a background thread sends."""

import threading
from functools import partial

import pytest

from nri.ttrpc.reply_queue import ReplyQueue
from tests.support.waiting import TIMEOUT, until


def test_they_are_sent_in_order_by_a_thread_that_ends() -> None:
    replies = ReplyQueue()
    sent: list[tuple[int, str]] = []

    def note(number: int) -> None:
        sent.append((number, threading.current_thread().name))

    for number in range(100):
        replies.send(partial(note, number))
    until(lambda: len(sent) == 100)
    assert sent == [(number, "ttrpc-reply") for number in range(100)]
    until(lambda: not replies._is_sending)
    replies.send(lambda: note(100))
    until(lambda: sent[-1][0] == 100)


def test_after_the_end_nothing_is_sent() -> None:
    replies, sent, began, release = ReplyQueue(), [], threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        assert release.wait(TIMEOUT)
        sent.append("first")

    replies.send(first)
    replies.send(lambda: sent.append("second"))
    assert began.wait(TIMEOUT)
    replies.end()
    replies.send(lambda: sent.append("third"))
    release.set()
    until(lambda: not replies._is_sending)
    assert sent == ["first"]


def test_without_a_thread_they_are_sent_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    replies, sent = ReplyQueue(), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start")))
        replies.send(lambda: sent.append(1))
    replies.send(lambda: sent.append(2))
    until(lambda: sent == [1, 2])
