"""Short time slices, and who has them: each test in a process of its own, since a process has one way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from nri.process import time_slice

DEFAULT = time_slice.slice_of(0)
"""This test run's own slice; 0 where the kernel does not tell."""

has_slices = pytest.mark.skipif(DEFAULT <= time_slice.SHORT, reason="needs Linux 6.12, and the default time slice")

BEGIN = """
import json, os, threading
from nri.process import time_slice
from nri.process.libc_spawn import LibcSpawn
from nri.process.time_slice import SHORT, ask, shorten, slice_of

def thread():
    found = []
    each = threading.Thread(target=lambda: found.append(slice_of(0)))
    each.start()
    each.join()
    return found[0]

def child():
    reads, writes = os.pipe()
    file = os.open(os.devnull, os.O_RDWR)
    pid = LibcSpawn()("/bin/cat", ["cat"], {}, [reads, file, file], False)
    found = slice_of(pid), os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)
    os.close(writes)
    os.waitpid(pid, 0)
    return found

def own():
    return slice_of(0), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
"""


def outcome(code: str) -> Any:
    """Return the value of `found` that the code leaves in a new process."""
    program = f"{BEGIN}\n{code}\nprint(json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@has_slices
def test_threads_that_are_started_later_have_short_slices_and_programs_the_default() -> None:
    found = outcome("found = [shorten(), slice_of(0), thread(), child()[0]]")
    assert found == [True, time_slice.SHORT, time_slice.SHORT, DEFAULT]


@has_slices
@pytest.mark.parametrize("policy", ["SCHED_OTHER", "SCHED_BATCH"])
def test_the_policy_and_the_nice_value_stay_for_threads_and_programs(policy: str) -> None:
    change = f"os.nice(5); os.sched_setscheduler(0, os.{policy}, os.sched_param(0))"
    number, nice = getattr(os, policy), os.getpriority(os.PRIO_PROCESS, 0) + 5
    found = outcome(f"{change}; found = [shorten(), own(), child()]")
    assert found == [True, [time_slice.SHORT, number, nice], [DEFAULT, number, nice]]


@has_slices
def test_slices_that_an_operator_has_chosen_stay_for_threads_and_programs() -> None:
    found = outcome("ask(0, SHORT // 2); found = [shorten(), slice_of(0), child()[0]]")
    assert found == [False, time_slice.SHORT // 2, time_slice.SHORT // 2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose a real-time policy")
def test_a_real_time_policy_stays() -> None:
    found = outcome(
        "try: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))\n"
        "except OSError as error: found = error.strerror\n"
        "else: found = [shorten(), *own()]"
    )
    if isinstance(found, str):
        pytest.skip(f"the kernel gives root no real-time policy here: {found}")
    assert found[:3] == [False, 0, os.SCHED_RR]


def test_where_the_kernel_does_not_have_the_call_nothing_changes() -> None:
    found = outcome(
        "time_slice._get = time_slice._set = -1; found = [shorten(), ask(0, SHORT), slice_of(0), child()[0]]"
    )
    assert found == [False, False, 0, 0]


def test_the_end_of_a_child_before_its_slice_is_reset_is_no_error() -> None:
    assert outcome("time_slice._is_short = True; time_slice.reset(2**22 + 1); found = 1") == 1
