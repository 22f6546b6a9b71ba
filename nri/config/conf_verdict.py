"""Reads the verdict of a plugin on its conf, ``TYPE check`` (docs/spec.md), which is not trusted."""

from __future__ import annotations

from nri.config.faults import Fault
from nri.types.gojson import shorten
from nri.types.table import FLAG, Key, array, either, number, open_table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.config.entries import PluginEntry

MAX_FAULTS = 20
MAX_TEXT = 1000
"""Faults and notes that are taken, and characters of each."""

_STEP = either(text(), number(0, 2**31, whole=True), expected="a key or an index")
_FAULT = open_table(
    Key("message", text(1), required=True),
    Key("path", array(_STEP)),
    Key("atKey", FLAG),
    Key("file", text()),
)
_ANSWER = open_table(
    Key("checks", FLAG, required=True),
    Key("faults", array(_FAULT), required=True),
    Key("notes", array(text()), required=True),
)


class ConfVerdict:
    """The verdict of a plugin on its conf.

    :ivar found: the faults as the plugin states them.
    :ivar notes: what an operator should know, one line each.
    """

    def __init__(self, found: list[dict[str, Any]], notes: list[str]) -> None:
        self.found = found[:MAX_FAULTS]
        self.notes = [shorten(note, MAX_TEXT) for note in notes[:MAX_FAULTS]]

    def faults(self, plugin: PluginEntry) -> tuple[Fault, ...]:
        """Return the faults with their places."""
        from nri.config.plugin_conf import fault_at, faults_in_conf

        in_conf = []
        others = []
        for fault in self.found:
            message = shorten(fault["message"], MAX_TEXT)
            if "file" in fault:
                others.append(fault_at(plugin, "type", f"{_place(fault)}: {message}"))
            elif "path" in fault:
                in_conf.append((fault["path"], message, fault.get("atKey", False)))
            else:
                others.append(fault_at(plugin, "type", message))
        return (*faults_in_conf(plugin, in_conf), *others)


def _place(fault: dict[str, Any]) -> str:
    """Return the file of a fault, with line and column if it can be read."""
    from nri.config.diagnostics import SourcePositions
    from nri.files import read_regular

    file = fault["file"]
    path = tuple(fault.get("path", ()))
    try:
        positions = SourcePositions(read_regular(file, 1024 * 1024)[0].decode(errors="replace"))
        place = positions.fault(file, path, "", fault.get("atKey", False))
    except (OSError, ValueError, LookupError):
        return str(file)
    return f"{file}:{place.line}:{place.column}"


def conf_verdict(answer: Any) -> ConfVerdict | None:
    """Return the verdict in an answer to ``TYPE check``; None if the plugin does not judge its conf."""
    if not _ANSWER.accepts(answer) or not answer["checks"]:
        return None
    return ConfVerdict(answer["faults"], answer["notes"])
