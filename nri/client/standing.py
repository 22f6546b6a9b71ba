"""Asks a plugin's executable, ``TYPE version``, whether it can be a resident, and which states it acts on."""

from __future__ import annotations

import time
from typing import NamedTuple

from nri.process.conversation import launch
from nri.types import gojson
from nri.types.gojson import shorten
from nri.types.serve import VERSION
from nri.types.v1 import RELEASE, STATES

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to answer ``version``, and then to become ready as a resident."""

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that are searched for ``MARKS``."""

MARKS = (b"nri.skel", b"nri import skel")
"""Text in the file of a plugin that was built with ``nri.skel``. No other plugin is asked for its version."""

COMPILED = b"\x7fELF"
"""The beginning of the file of a compiled plugin."""

MAX_VERSION = 100  # characters of a plugin's version that are kept


class Standing(NamedTuple):
    """How a plugin is asked."""

    state: str
    """``ready``: it is a resident; ``starting``; ``off``: it is started for each request, because it, its entry or
    the options say so; ``failed``: because it could not become a resident."""
    reason: str = ""
    build: str = ""
    """The version that it reports; "" if it was not asked."""
    states: frozenset[str] | None = None
    """Those that a compiled plugin says it acts on, ``RELEASE`` among them; None if that is not known."""
    create_suffices: bool = False
    """True if its ``create`` makes up for a missed ``setup``, as it says."""


def about(path: str, plugin: str, *, may_be_script: bool = False) -> Standing:
    """Return whether a plugin can be a resident: its state is then ``ready``, else ``off`` or ``failed``.

    A plugin that was not built with ``nri.skel`` is not run.

    :param may_be_script: whether a script counts like a compiled plugin.
    :raises OSError: when it cannot be read or started.
    """
    with open(path, "rb") as file:
        content = file.read(MAX_FILE)
    if not any(mark in content for mark in MARKS):
        return Standing("off", "it was not built with nri.skel")
    output = launch(path, [plugin, "version"], b"", time.monotonic() + ANSWER_WITHIN, log=lambda _line: None)
    try:
        answer = gojson.loads(output.stdout)
    except ValueError:
        said = f": {shorten(output.stderr, 200)}" if output.stderr else ""
        return Standing("failed", f"it does not answer 'version'{said}")
    answer = answer if isinstance(answer, dict) else {}
    version = answer.get("version")
    build = shorten(version, MAX_VERSION) if isinstance(version, str) else ""
    is_compiled, number = may_be_script or content.startswith(COMPILED), answer.get("resident")
    states = answer.get("states")
    acts_on = None
    if is_compiled and isinstance(states, list) and all(state in STATES for state in states):
        acts_on = frozenset([*states, *([RELEASE] if answer.get("releases") is True else [])])
    suffices = is_compiled and answer.get("createSuffices") is True
    if number is None:
        return Standing("off", "it does not opt in (resident = True)", build, acts_on, suffices)
    if number != VERSION:
        reason = f"its nri.skel has another version of serve: found {gojson.describe(number)}, expected {VERSION}"
        return Standing("off", reason, build, acts_on, suffices)
    if not is_compiled:
        return Standing("off", "it is a script, whose code may change without its file", build)
    return Standing("ready", build=build, states=acts_on, create_suffices=suffices)
