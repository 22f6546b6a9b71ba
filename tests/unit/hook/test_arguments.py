"""The command line of the hook: what ``nri.hook.parse`` accepts, click accepts with the same values."""

from __future__ import annotations

from typing import Any

import click

from nri import hook
from nri.cli.hook import hook as command
from nri.config.site import Site

OWN = ("state", "record", "deadline", "log_file")


def as_click_reads(words: list[str]) -> dict[str, Any] | None:
    """The values that click hands over; None for a usage error."""
    try:
        values = command.make_context(
            "hook", list(words), help_option_names=["-h", "--help"]
        ).params
    except click.UsageError:
        return None
    unchecked = values.pop("no_check_owner")
    return {**values, "check_owner": not unchecked}


RIGHT = [
    ["create"],
    ["update", "--timeout", "3"],
    ["--timeout=0.5", "setup"],
    ["resume", "--bin-dir", "/a", "--bin-dir=/b", "--bin-dir", "/a"],
    ["create", "--log-file=/x=y"],
    ["create", "--conf-dir", "--bin-dir"],
    ["create", "--conf-dir", " "],
    ["create", "--timeout", "1_0"],
    ["create", "--timeout", " 5 "],
    ["create", "--timeout", "3600"],
    ["create", "--timeout", "1", "--timeout", "2"],
    ["create", "--log-file", "\udcff"],
    ["create", "--no-check-owner"],
    ["create", "--failure-policy", "ignore"],
    ["--no-check-owner", "create", "--no-check-owner", "--conf-dir", "--no-check-owner"],
]
WRONG = [
    [],
    ["start"],
    ["create", "delete"],
    ["create", ""],
    ["--timeout", "1"],
    ["create", "--timeout"],
    ["create", "--timeout", "soon"],
    ["create", "--timeout", "0"],
    ["create", "--timeout", "3601"],
    ["create", "--timeout", "nan"],
    ["create", "--deadline", "0"],
    ["create", "--deadline", "3601"],
    ["create", "--bin-dir"],
    ["create", "--failure-policy=never"],
    ["create", "--bin", "/a"],
    ["create", "--no-check-owner=yes"],
    ["create", "--no-check"],
    ["--", "--timeout"],
]
FOR_CLICK = [
    ["--", "create"],
    ["create", "--"],
    ["create", "--conf-dir="],
    ["create", "--log-file", ""],
]
"""Right, but odd: left to click."""


def test_valid_command_lines_have_the_values_that_click_reads() -> None:
    for words in RIGHT:
        arguments = hook.parse(words)
        assert arguments is not None, words
        values = {name: getattr(arguments, name) for name in OWN}
        values |= {name: getattr(arguments.site, name) for name in Site.__slots__}
        assert values == as_click_reads(words), words


def test_invalid_command_lines_are_invalid_for_both() -> None:
    for words in WRONG:
        assert (hook.parse(words), as_click_reads(words)) == (None, None), words


def test_odd_command_lines_are_left_to_click() -> None:
    for words in FOR_CLICK:
        assert hook.parse(words) is None, words
        assert as_click_reads(words) is not None, words
