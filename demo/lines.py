"""The lines of the demonstrations: 80 columns, whatever the names in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nri.cli.output import labelled, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

LABEL = 11
"""Columns of the word at the left of a description."""


def described(label: str, *texts: str) -> list[str]:
    """Return texts, each in lines of its own, with a label at their left."""
    return labelled(label, *texts, columns=LABEL)


def plugin(type: str, conf: Mapping[str, Any], source: str) -> list[str]:
    """Return the lines about a plugin that is configured."""
    return described("plugin", f"{type}, from {source}", json.dumps(conf))


def event(name: str, pod: str, milliseconds: float, about: str) -> list[str]:
    """Return the lines about an event and its pod."""
    return wrapped(about, f"{name:20} {pod:6}{milliseconds:6.1f} ms   ", " " * 12)


def run(state: str, type: str, milliseconds: float, result: Mapping[str, Any]) -> list[str]:
    """Return the lines about a run of a plugin, with its result."""
    pairs = "  ".join(f"{key}={value}" for key, value in result.items())
    return wrapped(
        pairs or "nothing to do", f"    {state:7} {type:9} {milliseconds:6.1f} ms   ", " " * 12
    )
