"""The files of oci-hooks(5), version 1.0.0 of their schema, and the conditions under which a hook is injected.

Keys match in any case and unknown keys are ignored, since podman and CRI-O read the same files with Go. Whoever can
write to such a file runs programs as root on the node, so only root's files count.

Conditions are decided as by podman (``When.Match`` in its pkg/hooks/1.0.0), whose patterns are those of RE2: they
take a time that is linear in the text, so no pod can delay them, or avoid a hook by a text that takes too long.
"""

from __future__ import annotations

import os
import stat
import time

from nri import trust
from nri.errors import NRIError, escape
from nri.files import UnfitFileError, read_regular, replace
from nri.types import DecodeError, gojson
from nri.types.demanding import demand
from nri.types.gojson import describe, shorten
from nri.types.jsonobject import fold
from nri.types.oci_values import HOOK_TIMEOUT, HOOKS
from nri.types.table import (
    FLAG,
    PATH,
    Key,
    Map,
    Rule,
    Table,
    array,
    number,
    open_table,
    text,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from nri.types.v1 import Spec

    Pattern = Callable[[str], bool]
    """Returns whether a text has what the pattern describes."""

    HookFile = dict[str, Any]
    """The value of a file: ``hook``, ``when`` and ``stages`` as in oci-hooks(5)."""

MAX_FILE = 1024 * 1024
"""Bytes of a file at most."""

MISSING_FOR = 2.0
"""Seconds after which a file that was there counts as removed, from when it was missed first."""


def _why_no_program(path: str) -> str:
    """Return the reason why *path* must not be run as a hook; "" if it may be."""
    if not PATH.accepts(path):
        return f"found {describe(path)}, expected {PATH.expected}"
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return f"{path} is not a regular file; expected a program"
        return trust.judge_path(path, status)
    except OSError as error:
        return f"found {describe(path)}, expected a program: {error.strerror}"


_PROGRAM = Rule(
    str,
    lambda value: not _why_no_program(value),
    "the path of a program",
    {},
    explain=_why_no_program,
)
_HOOK = Table(
    Key("path", _PROGRAM, required=True),
    Key("args", array(text())),
    Key("env", array(text())),
    Key("timeout", number(0, 2**31 - 1, whole=True, expected=HOOK_TIMEOUT.expected)),
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

_PROCESS = open_table(Key("args", array(text(), 1), required=True))
"""``process`` of a container whose command is known."""


def read_dirs(
    dirs: Sequence[str], optional: Sequence[str] = (), run: str = ""
) -> list[tuple[str, HookFile]]:
    """Return the hooks of some directories with the paths of their files, in the order in which they are injected.

    A file hides one of the same name in an earlier directory.

    :param optional: those that need not exist.
    :param run: where the files are recorded that were there; "" for no record.
    :raises NRIError: a directory or file cannot be read, is not root's, does not keep the rules, or is missing, and
        was there a moment ago.
    """
    paths: dict[str, str] = {}
    listed: list[str] = []
    for directory in dirs:
        try:
            names = os.listdir(directory)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and directory in optional:
                continue
            raise NRIError(
                f"{directory}: cannot be read: {error.strerror}; expected a directory of hooks"
            ) from error
        for name in names:
            if name.endswith(".json"):
                paths[name] = f"{directory}/{name}"
                listed.append(paths[name])
    if run:
        _refuse_missing(listed, f"{run}/nri/hook-injector", dirs)
    ordered = sorted(paths, key=lambda name: (name.lower(), name))
    return [(paths[name], read_file(paths[name])) for name in ordered]


def _refuse_missing(listed: list[str], directory: str, dirs: Sequence[str]) -> None:
    """Refuse while a file is missing that was there: it is being replaced, a mount is away, or it was removed.

    It counts as removed when it was missing for ``MISSING_FOR``, and its directory still has another one. The last
    one of a directory is never removed by absence: "no hooks" is said, by another list of directories.

    :param directory: that of the record of the files that were there, each with when it was missed first.
    """
    from binascii import crc32

    record = f"{directory}/{crc32(os.fsencode(' '.join(dirs))):08x}.json"
    known = _recorded(record)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    left = {os.path.dirname(path) for path in listed}
    files: dict[str, float] = dict.fromkeys(listed, 0)
    for path, noted in known.items():
        if path in files or os.path.dirname(path) not in dirs:
            continue
        since = now
        # A time of a clock that has not come so far is of before the boot.
        if 0 < noted <= now:
            since = noted
        if os.path.dirname(path) not in left or now - since < MISSING_FOR:
            files[path] = since
    if files != known:
        _write_record(record, directory, files)
    for path, missing in files.items():
        if not missing:
            continue
        wrong = "was there, and no other is left in its directory: expected it, or other dirs in the conf"
        if os.path.dirname(path) in left:
            wrong = (
                "was there, and is missing for a moment: it is being replaced, or was removed; "
                "try again"
            )
        raise NRIError(f"{escape(shorten(path, 200))}: {wrong}")


_NOTED = number(0, 2**53)


def _recorded(record: str) -> dict[str, float]:
    """Return the files that were there, without what is damaged: each with when it was missed first, 0 for never."""
    try:
        # Lone surrogates stand for the bytes of a path that are not UTF-8.
        value: Any = gojson.loads(read_regular(record, MAX_FILE)[0], keeps_lone=True)
    except (OSError, DecodeError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {path: noted if _NOTED.accepts(noted) else 0 for path, noted in value.items()}


def _write_record(record: str, directory: str, files: dict[str, float]) -> None:
    try:
        trust.make_private(directory)
        replace(record, gojson.dumps(files))
    except (OSError, NRIError):
        pass  # it is not remembered


def read_file(path: str) -> HookFile:
    """Return a hook.

    :raises NRIError: the file cannot be read, is not root's, or does not keep the rules.
    """
    shown = escape(shorten(path, 200))
    try:
        document, status = read_regular(path, MAX_FILE)
        wrong = trust.judge_path(path, status)
        if wrong:
            raise NRIError(escape(wrong))
        hook_file: HookFile = _known(_FILE, gojson.loads(document))
        demand(_FILE, hook_file, "")
        if all(item in ([], {}) for item in hook_file["when"].values()):
            raise DecodeError(f"when: no condition, expected one of {', '.join(_WHEN.keys)}")
    except DecodeError as error:
        raise NRIError(f"{shown}: {str(error).lstrip('.: ')}") from error
    except UnfitFileError as error:
        raise NRIError(f"{shown}: {error.strerror}") from error
    except OSError as error:
        raise NRIError(
            f"{shown}: cannot be read: {error.strerror}; expected a file with a hook"
        ) from error
    return hook_file


def _known(rule: Rule, value: Any) -> Any:
    """Return an object with the keys of a table alone, in its spelling; null is a missing key."""
    if not isinstance(rule, Table) or not isinstance(value, dict):
        return value
    spelling = {fold(name): name for name in rule.keys}
    known = {}
    for key, item in value.items():
        name = spelling.get(fold(key))
        if name is not None and item is not None:
            known[name] = _known(rule.keys[name].rule, item)
    return known


class Subject:
    """The parts of a container that conditions are about."""

    def __init__(self, spec: Spec) -> None:
        self.annotations: Mapping[str, str] = spec.annotations
        self.command: str | None = None
        self.has_bind_mounts = False
        if _PROCESS.accepts(spec.process):
            self.command = spec.process["args"][0]
        if isinstance(spec.mounts, list):
            self.has_bind_mounts = any(map(_is_bind, spec.mounts))


def _is_bind(mount: Any) -> bool:
    if not isinstance(mount, dict):
        return False
    if mount.get("type") == "bind":
        return True
    options = mount.get("options")
    return isinstance(options, list) and ("bind" in options or "rbind" in options)


class PatternError(DecodeError):
    """A pattern is no regular expression of RE2; the message has RE2's own reason.

    :ivar path: the keys that lead to it in the file.
    :ivar is_key: whether it is the key there, and not the value.
    """

    def __init__(
        self, pattern: str, path: tuple[str | int, ...], is_key: bool, reason: str
    ) -> None:
        from nri.types.table_explained import path_text

        self.path = path
        self.is_key = is_key
        where = path
        if is_key:
            where = path[:-1]
        fault = f"found {shorten(repr(pattern))}, expected a regular expression"
        super().__init__(f"{path_text(where)}: {fault}: {escape(shorten(reason, 200))}")


def is_met(when: dict[str, Any], container: Subject) -> bool | None:
    """Return whether a condition is met; None if the container's command is needed, and not known.

    :param when: of a file of oci-hooks(5).
    :raises PatternError: a pattern is not a regular expression.
    """
    pairs = []
    for key, value in when.get("annotations", {}).items():
        path = "when", "annotations", key
        pairs.append((_pattern(key, path, is_key=True), _pattern(value, path)))
    commands = []
    for index, command in enumerate(when.get("commands", ())):
        commands.append(_pattern(command, ("when", "commands", index)))
    bind_mounts = when.get("hasBindMounts")
    if False in (when.get("always"), bind_mounts):
        return False
    if bind_mounts and not container.has_bind_mounts:
        return False
    for key, value in pairs:
        if not _has_one(container, key, value):
            return False
    if not commands:
        return True
    own = container.command
    if own is None:
        return None
    return any(command(own) for command in commands)


def _has_one(container: Subject, key: Pattern, value: Pattern) -> bool:
    """Return whether a container has an annotation of which both patterns hold."""
    return any(key(name) and value(text) for name, text in container.annotations.items())


def _pattern(pattern: str, path: tuple[str | int, ...], *, is_key: bool = False) -> Pattern:
    import re2  # 4 ms, so only for hooks with patterns

    options = re2.Options()
    options.log_errors = False  # on stderr
    try:
        compiled = re2.compile(pattern.encode(errors="replace"), options)
    except re2.error as error:
        (reason,) = error.args
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise PatternError(pattern, path, is_key, str(reason)) from error
    return lambda text: compiled.search(text.encode(errors="replace")) is not None
