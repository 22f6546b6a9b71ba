"""Asks a plugin's executable, ``TYPE version``, which states it acts on, and whether it can be a resident.

The answer counts for every plugin, not only for those of a build. A foreign program may take any verb for
``invoke``, so a file without the key ``states`` is not asked; the others get a request of a state that means nothing
to a plugin, and an answer without the keys of ``version`` is ignored. Only an executable of a build becomes a
resident: a script's code may change without its file.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from nri.client import build_mark
from nri.client.verbs import ANSWER_WITHIN, ask
from nri.process.conversation import Output
from nri.types import gojson
from nri.types.gojson import shorten
from nri.types.serve import VERSION
from nri.types.table import array, words
from nri.types.v1 import CHECK, RELEASE, STATES, Request

MAX_VERSION = 100  # characters of a plugin's version that are kept

HARMLESS = Request(state=CHECK, id=CHECK)
"""A request of a state that means nothing to a plugin: docs/spec.md has it answer."""

_STATES_KEY = re.compile(rb"""states\\?["']""")

_STATES = array(words(*STATES), 1)

ALL = frozenset([*STATES, RELEASE])
"""The states of a plugin that does not say which ones it acts on."""

_PIECE = 1 << 20
"""Bytes of an executable that are searched at a time."""

FOREIGN = "it was not built with nri build"


class Standing(NamedTuple):
    """How a plugin is asked."""

    state: str
    """``ready``: it is a resident; ``starting``; ``waiting``: a process waits for its request; ``off``: it is started
    for each request, because it, its entry or the options say so; ``failed``: because it could not become a resident,
    or does not wait."""
    reason: str = ""
    build: str = ""
    """The version that it reports; "" if it was not asked."""
    states: frozenset[str] = ALL
    """Those that it says it acts on, ``RELEASE`` among them; all if that is not known."""
    create_suffices: bool = False
    """True if its ``create`` makes up for a missed ``setup``, as it says."""


UNKNOWN = Standing("failed")
"""Of an executable that cannot be asked."""


def is_built(path: str) -> bool:
    """Return whether an executable is one of a build of nri.

    :raises OSError: it cannot be read.
    """
    _, _, module = build_mark.read(path)
    return module != ""


def about(path: str, plugin: str, *, may_be_script: bool = False) -> Standing:
    """Return what an executable says of itself, and whether it can be a resident: its state is then ``ready``.

    :param may_be_script: whether a script counts like an executable of a build.
    :raises OSError: when it cannot be read or started.
    """
    if may_be_script or is_built(path):
        return _about_own(path, plugin)
    if not _names_states(path):
        return Standing("off", FOREIGN)
    answer, _ = _ask_version(path, plugin)
    if not is_answer(answer) or answer["type"] != plugin:
        return Standing("off", FOREIGN)
    return _said(answer)._replace(state="off", reason=FOREIGN)


def _ask_version(path: str, plugin: str) -> tuple[Any, Output]:
    return ask(path, [plugin, "version"], HARMLESS.to_json(), within=ANSWER_WITHIN)


def _about_own(path: str, plugin: str) -> Standing:
    """As ``about``, of an executable of a build."""
    answer, output = _ask_version(path, plugin)
    if not is_answer(answer):
        if output.stderr:
            said = f": {shorten(output.stderr, 200)}"
        else:
            said = ""
        return Standing("failed", f"it does not answer 'version'{said}")
    standing = _said(answer)
    number = answer.get("resident")
    if number is None:
        return standing._replace(state="off", reason="it does not opt in (resident = True)")
    if number != VERSION:
        reason = (
            f"its nri.skel has another version of serve: found {gojson.describe(number)}, "
            f"expected {VERSION}"
        )
        return standing._replace(state="off", reason=reason)
    return standing


def _said(answer: dict[str, Any]) -> Standing:
    """Return what an answer to ``version`` says."""
    version = answer.get("version")
    if not isinstance(version, str):
        version = ""
    return Standing(
        "ready",
        build=shorten(version, MAX_VERSION),
        states=_states(answer),
        create_suffices=answer.get("createSuffices") is True,
    )


def is_answer(value: Any) -> bool:
    """Return whether JSON is an answer to ``version``; what a program writes to any verb lacks its keys."""
    return isinstance(value, dict) and {"type", "nri"} <= value.keys()


def _names_states(path: str) -> bool:
    """Return whether the file has the key that it would have to print, in JSON, in C or in Python."""
    before = b""
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            if _STATES_KEY.search(before + piece):
                return True
            before = piece[-len(rb"states\"") :]
    return False


def _states(answer: dict[str, Any]) -> frozenset[str]:
    """Return the states that an answer names, with ``RELEASE``; all if it names none, or others."""
    states: Any = answer.get("states")
    if not _STATES.accepts(states):
        return ALL
    if answer.get("releases") is True:
        return frozenset([*states, RELEASE])
    return frozenset(states)
