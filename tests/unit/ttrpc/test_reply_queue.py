"""Answers that are sent for somebody who must not wait."""

import threading

from nri.ttrpc.reply_queue import ReplyQueue
from tests.support.waiting import TIMEOUT, until


def test_they_are_sent_in_order_by_a_thread_that_ends():
    replies, sent = ReplyQueue(), []
    for number in range(100):
        replies.send(lambda number=number: sent.append((number, threading.current_thread().name)))
    until(lambda: len(sent) == 100)
    assert sent == [(number, "ttrpc-reply") for number in range(100)]
    until(lambda: not replies._is_sending)
    replies.send(lambda: sent.append("again"))
    until(lambda: sent[-1] == "again")


def test_after_the_end_nothing_is_sent():
    replies, sent, began, release = ReplyQueue(), [], threading.Event(), threading.Event()

    def first():
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


def test_without_a_thread_they_are_sent_with_the_next_one(monkeypatch):
    replies, sent = ReplyQueue(), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start")))
        replies.send(lambda: sent.append(1))
    replies.send(lambda: sent.append(2))
    until(lambda: sent == [1, 2])
