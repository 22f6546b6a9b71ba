"""The command line of ``nri hook``: click parses each command line that ``nri.hook.parse`` parses, with the
same result; it raises no exception, and returns a valid state and a valid time. The input is the words, separated by
NULs.
"""

from __future__ import annotations

import click

from nri.cli.hook import hook as command
from nri.config.site import Site
from nri.hook import parse
from nri.types.v1 import STATES


def check(data: bytes) -> None:
    """Parse the words both ways."""
    words = [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0")]
    arguments = parse(words)
    if arguments is None:
        return  # then click parses it
    assert arguments.state in STATES
    assert 0 < arguments.site.timeout <= 3600
    assert 0 < arguments.deadline <= 3600
    try:
        parsed = command.make_context(
            "hook", list(words), help_option_names=["-h", "--help"]
        ).params
    except click.ClickException as error:
        raise AssertionError(f"click refuses it: {error.format_message()}") from error
    parsed["check_owner"] = not parsed.pop("no_check_owner")
    own = {name: value for name, value in parsed.items() if hasattr(arguments, name)}
    assert {name: getattr(arguments, name) for name in own} == own
    site = {name: getattr(arguments.site, name) for name in Site.__slots__}
    assert own | site == parsed


SEEDS = (
    b"create",
    b"create\0--conf-dir\0/a\0--conf-file=/b\0--bin-dir\0/c\0--bin-dir=/d\0--timeout\0002.5\0--log-file=/e",
    b"--timeout=1e-3\0delete",
    b"--deadline=8\0create\0--deadline\0nan",
    b"--timeout\0nan\0create",
    b"--timeout\0inf\0create",
    b"--timeout=\0create",
    b"--timeout= 1_0 \0create",
    b"--conf-dir\0--timeout\0create",
    b"--\0create",
    b"create\0update",
    b"--help",
    b"--no-check-owner\0create",
    b"create\0--no-check-owner\0--no-check-owner",
    b"--no-check-owner=1\0create",
    b"--log-file=\xff\0create",
    b"create\0--failure-policy\0ignore",
    b"--failure-policy=never\0create",
)
WORDS = (
    b"--conf-dir",
    b"--conf-file",
    b"--bin-dir",
    b"--log-file",
    b"--timeout",
    b"--deadline",
    b"--failure-policy",
    b"ignore",
    b"--no-check-owner",
    b"\0",
    b"=",
    b"create",
    b"delete",
)
