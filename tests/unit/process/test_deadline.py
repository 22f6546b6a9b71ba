"""The deadline as a clock; what it does to a process is in tests/integration/hook/test_deadline.py."""

import time

from nri.process.deadline import Deadline


def test_time_is_left_until_the_deadline_and_none_after_it() -> None:
    assert 0 < Deadline(3600).left() <= 3600
    assert Deadline(60, time.monotonic() - 3600).left() == 0
    assert Deadline(8).passed("it was reading") == "not done within 8 s: it was reading"
