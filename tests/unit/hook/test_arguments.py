"""The command line of the hook: what :func:`nri.hook.parse` accepts, click accepts with the same values."""

from __future__ import annotations

from typing import Any

import click
import pytest

from nri import hook
from nri.cli.hook import hook as command

FIELDS = (
    *("state", "conf_dir", "conf_file", "bin_dirs", "check_owner"),
    *("failure_policy", "timeout", "deadline", "log_file"),
)


def as_click_reads(words: list[str]) -> dict[str, Any] | None:
    """The values that click hands over; None for a usage error."""
    try:
        values = command.make_context("hook", list(words)).params
    except click.UsageError:
        return None
    unchecked = values.pop("no_check_owner")
    return {**values, "check_owner": not unchecked}


RIGHT = [
    ["create"],
    ["delete"],
    ["update", "--timeout", "3"],
    ["--timeout=0.5", "setup"],
    ["--conf-dir", "/a", "pause", "--conf-file", "b"],
    ["resume", "--bin-dir", "/a", "--bin-dir=/b", "--bin-dir", "/a"],
    ["create", "--log-file=/x=y"],
    ["create", "--conf-dir", "/a", "--conf-dir", "/b"],
    ["create", "--conf-dir", "--bin-dir"],
    ["create", "--conf-dir", "create"],
    ["create", "--conf-dir", " "],
    ["create", "--timeout", "1_0"],
    ["create", "--timeout", " 5 "],
    ["create", "--timeout", "3600"],
    ["create", "--timeout", "1e3"],
    ["create", "--timeout", "1", "--timeout", "2"],
    ["create", "--log-file", "\udcff"],
    ["create", "--deadline", "2.5", "--timeout", "1"],
    ["create", "--deadline=3600", "--deadline=1"],
    ["create", "--no-check-owner"],
    ["create", "--failure-policy", "ignore"],
    ["--no-check-owner", "create", "--no-check-owner", "--conf-dir", "--no-check-owner"],
]
WRONG = [
    [],
    ["start"],
    ["CREATE"],
    ["create", "delete"],
    ["create", ""],
    ["--timeout", "1"],
    ["create", "--timeout"],
    ["create", "--timeout", "soon"],
    ["create", "--timeout", "0"],
    ["create", "--timeout", "-1"],
    ["create", "--timeout", "3601"],
    ["create", "--timeout", "inf"],
    ["create", "--timeout", "nan"],
    ["create", "--timeout", "x", "--timeout", "nan"],
    ["create", "--deadline", "0"],
    ["create", "--deadline", "nan"],
    ["create", "--deadline", "3601"],
    ["create", "--deadline", "soon"],
    ["create", "--bin-dir"],
    ["create", "--failure-policy=never"],
    ["create", "--bin", "/a"],
    ["create", "--nothing"],
    ["create", "-t", "1"],
    ["create", "-"],
    ["create", "--no-check-owner=yes"],
    ["create", "--no-check"],
    ["create", "--check-owner"],
    ["--", "--timeout"],
]
FOR_CLICK = [["--", "create"], ["create", "--"], ["create", "--conf-dir="], ["create", "--log-file", ""]]
"""Right, but odd: left to click."""


@pytest.mark.parametrize("words", RIGHT, ids=" ".join)
def test_what_is_right_is_read_as_click_reads_it(words: list[str]) -> None:
    arguments = hook.parse(words)
    assert arguments is not None
    assert {name: getattr(arguments, name) for name in FIELDS} == as_click_reads(words)


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_is_wrong_is_wrong_for_both(words: list[str]) -> None:
    assert hook.parse(words) is None
    assert as_click_reads(words) is None


@pytest.mark.parametrize("words", FOR_CLICK, ids=" ".join)
def test_what_is_odd_is_left_to_click(words: list[str]) -> None:
    assert hook.parse(words) is None
    assert as_click_reads(words) is not None
