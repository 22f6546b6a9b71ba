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
from nri.types.jsonobject import Field, JSONObject, boolean, integer, string, string_map, strings
from nri.types.oci_values import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

VERSION = "1.0.0"
MAX_FILE = 1024 * 1024
"""Bytes of a file at most."""


def _flag(value: object, where: str) -> bool | None:
    return None if value is None else boolean(value, where)


def _entry(value: object, where: str) -> HookEntry:
    return HookEntry.from_value(value, where)


def _when(value: object, where: str) -> When:
    return When.from_value(value, where)


class HookEntry(JSONObject):
    """The program to run, as in the OCI runtime specification."""

    __slots__ = ("args", "env", "path", "timeout")

    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]
    timeout: int
    """Seconds; 0 for none."""

    FIELDS = (
        Field("path", "path", string),
        Field("args", "args", strings),
        Field("env", "env", strings),
        Field("timeout", "timeout", integer),
    )

    def to_value(self) -> dict[str, Any]:
        """Return the hook as ``adjust`` has it."""
        return {key: list(item) if isinstance(item, tuple) else item for key, item in super().to_value().items()}


class When(JSONObject):
    """The conditions of a hook; all that are given must hold."""

    __slots__ = ("always", "annotations", "commands", "has_bind_mounts")

    always: bool | None
    annotations: dict[str, str]
    """Regular expressions of keys, each with one of its value."""
    commands: tuple[str, ...]
    """Regular expressions, one of which matches the first word of the command."""
    has_bind_mounts: bool | None

    FIELDS = (
        Field("always", "always", _flag),
        Field("annotations", "annotations", string_map),
        Field("commands", "commands", strings),
        Field("hasBindMounts", "has_bind_mounts", _flag),
    )

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given."""
        return self.always is None and self.has_bind_mounts is None and not self.annotations and not self.commands


class HookFile(JSONObject):
    """A hook file: a program, the stages that it runs at, and for which containers."""

    __slots__ = ("hook", "stages", "version", "when")

    version: str
    hook: HookEntry
    when: When
    stages: tuple[str, ...]

    FIELDS = (
        Field("version", "version", string),
        Field("hook", "hook", _entry),
        Field("when", "when", _when),
        Field("stages", "stages", strings),
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
        found = HookFile.from_value(value, "")
        for place, wrong in _faults(found):
            raise DecodeError(f"{place}: {wrong}")
    except DecodeError as error:
        raise NRIError(f"{shown}: {str(error).removeprefix('.')}") from error
    except OSError as error:
        raise NRIError(f"{shown}: cannot be read: {error.strerror}; expected a file with a hook") from error
    return found


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


def _faults(found: HookFile) -> list[tuple[str, str]]:
    """Return the faults that are not of one value's type, with their places."""
    hook, faults = found.hook, []
    if found.version != VERSION:
        faults.append(("version", f"found {describe(found.version)}, expected '{VERSION}'"))
    if why := _why_no_program(hook.path):
        faults.append(("hook.path", why))
    if hook.timeout < 0:
        faults.append(("hook.timeout", f"found the number {hook.timeout}, expected seconds, at least 1"))
    if found.when.is_empty:
        faults.append(("when", "no condition, expected one of always, annotations, commands, hasBindMounts"))
    if not found.stages:
        faults.append(("stages", f"missing, expected some of {', '.join(HOOKS)}"))
    for index, stage in enumerate(found.stages):
        if stage not in HOOKS:
            faults.append((f"stages[{index}]", f"found {describe(stage)}, expected one of {', '.join(HOOKS)}"))
    return faults


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
