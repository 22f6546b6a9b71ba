"""The files of oci-hooks(5), version 1.0.0 of their schema: which count, and what is in them.

Keys match in any case and unknown keys are ignored, since podman and CRI-O read the same files with Go. Whoever can
write to such a file runs programs as root on the node, so only root's files count.
"""

from __future__ import annotations

import os
import stat

from nri import trust
from nri.errors import NRIError, escape
from nri.types import DecodeError, gojson
from nri.types.gojson import describe, shorten
from nri.types.jsonobject import fold
from nri.types.oci_values import HOOKS
from nri.types.table import FLAG, Key, Map, Rule, Table, array, number, text, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    HookFile = dict[str, Any]
    """The value of a file: ``hook``, ``when`` and ``stages`` as in oci-hooks(5)."""

MAX_FILE = 1024 * 1024
"""Bytes of a file at most."""


def _why_no_program(path: str) -> str:
    """Return the reason why *path* must not be run as a hook; "" if it may be."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        return f"found {describe(path)}, expected an absolute path without '..'"
    try:
        status = os.stat(path)
        wrong = "" if stat.S_ISREG(status.st_mode) else f"{path} is not a regular file; expected a program"
        return wrong or trust.judge_path(path, status)
    except OSError as error:
        return f"found {describe(path)}, expected a program: {error.strerror}"


_PROGRAM = Rule(
    str,
    lambda value: isinstance(value, str) and not _why_no_program(value),
    "the path of a program",
    {},
    explain=_why_no_program,
)
_HOOK = Table(
    Key("path", _PROGRAM, required=True),
    Key("args", array(text())),
    Key("env", array(text())),
    Key("timeout", number(0, 2**63 - 1, whole=True, expected="a whole number of seconds")),
)
_WHEN = Table(
    Key("always", FLAG),
    Key("annotations", Map(text(), text())),
    Key("commands", array(text())),
    Key("hasBindMounts", FLAG),
)
_FILE = Table(
    Key("version", words("1.0.0"), required=True),
    Key("hook", _HOOK, required=True),
    Key("when", _WHEN, required=True),
    Key("stages", array(words(*HOOKS), 1), required=True),
)


def read_dirs(dirs: Sequence[str]) -> list[tuple[str, HookFile]]:
    """Return the hooks of some directories with the paths of their files, in the order in which they are injected.

    A file hides one of the same name in an earlier directory. A directory that does not exist has no files.

    :raises NRIError: a directory or file cannot be read, is not root's, or does not keep the rules.
    """
    paths: dict[str, str] = {}
    for directory in dirs:
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NRIError(f"{directory}: cannot be read: {error.strerror}; expected a directory of hooks") from error
        paths |= {name: f"{directory}/{name}" for name in names if name.endswith(".json")}
    ordered = sorted(paths, key=lambda name: (name.lower(), name))
    return [(paths[name], read_file(paths[name])) for name in ordered]


def read_file(path: str) -> HookFile:
    """Return a hook.

    :raises NRIError: the file cannot be read, is not root's, or does not keep the rules.
    """
    shown = escape(shorten(path, 200))
    try:
        value = gojson.loads(_content(path, shown))
        if not isinstance(value, dict):
            raise DecodeError(f"found {describe(value)}, expected an object")
        hook_file: HookFile = _known(_FILE, value)
        if not _FILE.accepts(hook_file):
            from nri.types.table_explained import refusal

            raise refusal(_FILE, hook_file, "")
        if all(item in ([], {}) for item in hook_file["when"].values()):
            raise DecodeError(f"when: no condition, expected one of {', '.join(_WHEN.keys)}")
    except DecodeError as error:
        raise NRIError(f"{shown}: {str(error).removeprefix('.')}") from error
    except OSError as error:
        raise NRIError(f"{shown}: cannot be read: {error.strerror}; expected a file with a hook") from error
    return hook_file


def _content(path: str, shown: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NRIError(f"{shown}: is not a regular file; expected a file with a hook")
        if wrong := trust.judge_path(path, status):
            raise NRIError(escape(wrong))
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise DecodeError(f"found more than {MAX_FILE} bytes, expected a hook")
    return content


def _known(rule: Rule, value: Any) -> Any:
    """Return an object with the keys of a table alone, in its spelling; null is a missing key."""
    if not isinstance(rule, Table) or not isinstance(value, dict):
        return value
    spelling = {fold(name): name for name in rule.keys}
    given = [(spelling.get(fold(key)), item) for key, item in value.items() if item is not None]
    return {name: _known(rule.keys[name].rule, item) for name, item in given if name is not None}
