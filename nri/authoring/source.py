"""A plugin's source file: finds it, asks it what it is, and finds the sample entry beside it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from nri import config, files
from nri.client import verbs
from nri.config.entries import PluginEntry, is_type_name
from nri.errors import NRIError, escape, reason_of
from nri.process.conversation import Output
from nri.types import gojson

ANSWER_WITHIN = 30.0
"""Seconds that a plugin has for one answer: its first start reads it from the disk."""

MAX_FILE = 1024 * 1024
"""Bytes of a file that is read."""

_V2 = re.compile(
    rb"^\s*(?:from\s+nri\.v2\b|import\s.*\bnri\.v2\b|from\s+nri\s+import\s*(?:\([^)]*|.*)\bv2\b)",
    re.MULTILINE,
)
_NO_PLUGINS = ("conftest.py", "setup.py")
_ENTRY_POINT = re.compile(rb"main\(|\.run\(")


class SourceError(NRIError):
    """A plugin's source cannot be used, or not be made; the message is one line, and says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(escape(message))


def find(path: str) -> str:
    """Return the absolute path of a plugin's source file: *path*, or the one plugin in the folder *path*.

    :raises SourceError: there is none, or more than one.
    """
    if not os.path.isdir(path):
        content(path)
        return os.path.realpath(path)
    names = []
    plugins = []
    for name in sorted(os.listdir(path)):
        if not name.endswith(".py") or name.startswith("test_") or name in _NO_PLUGINS:
            continue
        names.append(name)
        if _is_plugin(content(os.path.join(path, name))):
            plugins.append(name)
    if len(plugins) == 1:
        return os.path.realpath(os.path.join(path, plugins[0]))
    if plugins:
        raise SourceError(
            f"{path}: found {len(plugins)} plugins ({', '.join(plugins)}), expected one; name the file"
        )
    raise SourceError(
        f"{path}: found {', '.join(names) or 'no module'}, expected one module that calls "
        "skel.main()"
    )


def content(path: str) -> bytes:
    """Return the content of a source file.

    :raises SourceError: it cannot be read, or is too long.
    """
    try:
        data, _ = files.read_regular(path, MAX_FILE)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: can't be read: {reason_of(error)}") from error
    return data


def is_v2_source(data: bytes) -> bool:
    """Return whether a source file is that of a plugin for NRI v2: it imports ``nri.v2``."""
    return _V2.search(data) is not None


def python() -> str:
    """Return the interpreter that runs source files.

    :raises SourceError: this is a compiled executable, which has none.
    """
    if getattr(sys, "frozen", False):
        reason = "this nri is a compiled executable, which can't load PLUGIN.py"
        raise SourceError(f"{reason}: use the nri of its wheel")
    return sys.executable


def about(script: str) -> dict[str, Any]:
    """Return what the plugin says of itself (``version``) when it is run from its source.

    :raises SourceError: it is no plugin of v0.1, or cannot be loaded.
    """
    value = ask([python(), script], "version")
    if not isinstance(value, dict) or "nri" not in value:
        raise SourceError(
            f"{script} version: found {gojson.describe(value)}, expected what nri.skel answers"
        )
    if not is_type_name(value.get("type")):
        shown = gojson.describe(value.get("type"))
        raise SourceError(f"{script}: its type: found {shown}, expected a name such as 'batch'")
    return value


def ask(command: Sequence[str], verb: str) -> Any:
    """Return the JSON that a plugin answers to a verb; the command is as for ``run``.

    :raises SourceError: it answers none.
    """
    answer, output, lines = run(command, verb)
    if answer is not None:
        return answer
    source = command[-1]
    if output.ending:
        found = output.ending
        expected = "expected JSON"
    else:
        found = "no JSON"
        expected = "expected what skel.main() prints: is it called?"
    if lines:
        said = ", ".join(filter(None, [lines[-1], _place_of(source, lines)]))
        found += f" ({said})"
    raise SourceError(f"{source} {verb}: found {found}, {expected}")


def _place_of(source: str, lines: list[str]) -> str:
    """Return the author's line in a traceback, else its last one; "" if there is none."""
    last = ""
    for line in reversed(lines):
        place = line.strip()
        if not place.startswith('File "'):
            continue
        if f'"{source}"' in place:
            return place
        last = last or place
    return last


def run(command: Sequence[str], verb: str, stdin: bytes = b"") -> tuple[Any, Output, list[str]]:
    """Run a plugin once; return the JSON that it printed, its output, and the lines of its stderr.

    :param command: an executable, and the arguments before the verb.
    :raises SourceError: it cannot be started, or does not end.
    """
    lines: list[str] = []
    # An interpreter finds its modules by the path that it was called by; a plugin gets its type, as on a node.
    words = [*command] if command[1:] else [os.path.basename(command[0])]
    words.append(verb)
    try:
        answer, output = verbs.ask(command[0], words, stdin, within=ANSWER_WITHIN, log=lines.append)
    except OSError as error:
        raise SourceError(f"{command[0]} can't be started: {error.strerror}") from error
    killed = verbs.why_killed(output, ANSWER_WITHIN)
    if killed:
        advice = "" if verb == "invoke" else "; work belongs into invoke()"
        raise SourceError(f"{command[-1]} {verb}: {killed}{advice}")
    return answer, output, lines


def entry_beside(source: str, otherwise: PluginEntry) -> PluginEntry:
    """Return a plugin's entry in a ``*.conf`` beside its source.

    A file that does not name the type belongs to another plugin.

    :param otherwise: an entry of the type, which is returned if there is none.
    :raises nri.config.ConfigError: a file that names the type is not valid.
    """
    type_ = otherwise.type
    for path in config.list_files(os.path.dirname(os.path.abspath(source))):
        if not os.path.isfile(path) or f'"{type_}"'.encode() not in content(path):
            continue
        for entry in config.load("", path, check_owner=False).plugins:
            if entry.type == type_:
                return entry
    return otherwise


def _is_plugin(data: bytes) -> bool:
    return b"nri" in data and _ENTRY_POINT.search(data) is not None
