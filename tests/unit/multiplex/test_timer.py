"""A descriptor that becomes readable at a time."""

import os
import select
import time

from nri.multiplex.timer import Timer
from tests.support.waiting import TIMEOUT


def goes_off(timer: Timer, within: float = TIMEOUT) -> bool:
    poll = select.poll()
    poll.register(timer, select.POLLIN)
    return bool(poll.poll(within * 1000))


def test_it_goes_off_at_the_earliest_time_and_not_before() -> None:
    timer = Timer()
    at = time.monotonic() + 0.05
    for when in (at + 1000, at, at + 500):
        timer.set(when)
    assert goes_off(timer)
    assert time.monotonic() >= at
    timer.close()


def test_it_is_silent_until_it_is_set_and_when_it_is_cleared() -> None:
    timer = Timer()
    assert not goes_off(timer, 0.01)
    timer.set(time.monotonic() - 5)
    assert goes_off(timer)
    timer.clear()
    assert not goes_off(timer, 0.01)
    timer.clear()
    timer.set(0.0)
    assert goes_off(timer)
    timer.close()


def test_a_time_in_ages_is_never() -> None:
    timer = Timer()
    timer.set(3e300)
    assert not goes_off(timer, 0.01)
    timer.close()


def test_its_descriptor_is_not_inherited_and_is_closed() -> None:
    timer = Timer()
    number = timer.fileno()
    assert not os.get_inheritable(number)
    timer.close()
    timer.close()
    assert timer.fileno() == -1
    assert not os.path.exists(f"/proc/self/fd/{number}")
