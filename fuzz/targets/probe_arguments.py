"""The command line of ``nri status --check``: click parses each command line that :func:`nri.status.probe.parse`
parses, with the same result. The input is the words, separated by NULs.
"""

from __future__ import annotations

import click

from nri.cli.status import status as command
from nri.status.judging import THRESHOLDS
from nri.status.probe import parse


def check(data: bytes) -> None:
    """Parse the words both ways."""
    words = [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0")]
    probe = parse(words)
    if probe is None:
        return  # then click parses it
    try:
        parsed = command.make_context("status", list(words)).params
    except click.ClickException as error:
        raise AssertionError(f"click refuses it: {error.format_message()}") from error
    bounds = {name: getattr(probe.thresholds, name) for name in THRESHOLDS}
    found = {"check": True, "socket": probe.socket, "options_file": probe.options_file, **bounds}
    assert found == {name: parsed[name] for name in found}
    assert not any(parsed[name] for name in ("as_json", "watch", "pod", "no_bridge"))


SEEDS = (
    b"--check",
    b"--check\0--socket\0/a",
    b"--config=/a\0--check",
    b"--check\0--socket=/a\0--config=/b",
    b"--check\0--max-error-rate\0005\0--max-near-deadline=0.5\0--max-late=1e3",
    b"--check\0--max-late=nan",
    b"--check\0--max-late= 1_0 ",
    b"--check\0--max-error-rate=101",
    b"--check\0--socket=",
    b"--check\0--socket\0--check",
    b"--check\0--",
    b"--check=1",
    b"--check\0--watch",
    b"--socket=\xff\0--check",
)
WORDS = (
    b"--check",
    b"--socket",
    b"--config",
    b"--max-error-rate",
    b"--max-near-deadline",
    b"--max-late",
    b"--no-bridge",
    b"--json",
    b"\0",
    b"=",
)
