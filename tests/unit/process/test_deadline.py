"""The deadline as a clock; what it does to a process is in tests/integration/hook/test_deadline.py."""

from __future__ import annotations

import pytest

from nri.process.deadline import Deadline


def test_the_line_has_what_was_done_when_the_time_was_over() -> None:
    deadline = Deadline(8)
    assert 7 < deadline.left() <= 8
    assert Deadline(8, 0.0).left() in (0.0, pytest.approx(8, abs=8))
    assert deadline.passed("it was reading") == "not done within 8 s: it was reading"
