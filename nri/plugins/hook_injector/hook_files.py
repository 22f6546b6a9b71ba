"""The files of oci-hooks(5), version 1.0.0 of their schema, and the conditions under which a hook is injected.

Keys match in any case and unknown keys are ignored, since podman and CRI-O read the same files with Go. Whoever can
write to such a file runs programs as root on the node, so only root's files count.

Conditions are decided as by podman (``When.Match`` in its pkg/hooks/1.0.0). Patterns are the operator's, what they
are matched with is the pod's. A pattern with repeats inside of repeats can take for ever on a text that was made for
it, and :mod:`re` cannot be stopped. So a forked process matches, and has little time for all of a container's hooks.
A condition that is undecided then, or has too long a text, counts as met: a pod must not avoid a hook in this way.
The pod gains nothing by it: another name would have got it the same hook.
"""

from __future__ import annotations

import os
import re
import select
import stat
import time

from nri import trust
from nri.errors import NRIError, escape
from nri.files import UnfitFileError, read_regular, replace
from nri.types import DecodeError, gojson
from nri.types.gojson import describe, shorten
from nri.types.jsonobject import fold
from nri.types.oci_values import HOOKS
from nri.types.table import FLAG, Key, Map, Rule, Table, array, number, text, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nri.types.v1 import Spec

    Question = Callable[[], bool | None]
    """Returns whether a condition is met; None if the container's command is needed, and not known."""

    HookFile = dict[str, Any]
    """The value of a file: ``hook``, ``when`` and ``stages`` as in oci-hooks(5)."""

MAX_FILE = 1024 * 1024
"""Bytes of a file at most."""

MISSING_FOR = 2.0
"""Seconds after which a file that was there counts as removed, from when it was missed first."""


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


def read_dirs(dirs: Sequence[str], optional: Sequence[str] = (), run: str = "") -> list[tuple[str, HookFile]]:
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
            raise NRIError(f"{directory}: cannot be read: {error.strerror}; expected a directory of hooks") from error
        in_it = {name: f"{directory}/{name}" for name in names if name.endswith(".json")}
        paths |= in_it
        listed += in_it.values()
    if run:
        _refuse_missing(listed, f"{run}/nri/hook-injector", " ".join(dirs))
    ordered = sorted(paths, key=lambda name: (name.lower(), name))
    return [(paths[name], read_file(paths[name])) for name in ordered]


def _refuse_missing(listed: list[str], directory: str, dirs: str) -> None:
    """Refuse while a file is missing that was there a moment ago: it is being replaced, or a mount is away.

    :param directory: that of the record of the files that were there, each with when it was missed first.
    """
    from binascii import crc32

    record = f"{directory}/{crc32(os.fsencode(dirs)):08x}.json"
    try:
        value: Any = gojson.loads(read_regular(record, MAX_FILE)[0])
        known = {os.fsdecode(path.encode("latin-1")): noted for path, noted in value.items()}
        missed = {path: float(noted or 0) for path, noted in known.items()}
    except (OSError, DecodeError, AttributeError, TypeError, ValueError):
        known = missed = {}
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    files: dict[str, float | None] = dict.fromkeys(listed)
    for path, noted in missed.items():
        since = noted if 0 < noted <= now else now
        if path not in files and now - since < MISSING_FOR:
            files[path] = since
    if files != known:
        try:
            trust.make_private(directory)
            shown = {os.fsencode(path).decode("latin-1"): noted for path, noted in files.items()}
            os.close(replace(record, gojson.dumps(shown)))
        except (OSError, NRIError):
            pass  # it is not remembered
    for path, missing in files.items():
        if missing is not None:
            away = "was there, and is missing for a moment: it is being replaced, or was removed; try again"
            raise NRIError(f"{escape(shorten(path, 200))}: {away}")


def read_file(path: str) -> HookFile:
    """Return a hook.

    :raises NRIError: the file cannot be read, is not root's, or does not keep the rules.
    """
    shown = escape(shorten(path, 200))
    try:
        document, status = read_regular(path, MAX_FILE)
        if wrong := trust.judge_path(path, status):
            raise NRIError(escape(wrong))
        value = gojson.loads(document)
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
    except UnfitFileError as error:
        raise NRIError(f"{shown}: {error.strerror}") from error
    except OSError as error:
        raise NRIError(f"{shown}: cannot be read: {error.strerror}; expected a file with a hook") from error
    return hook_file


def _known(rule: Rule, value: Any) -> Any:
    """Return an object with the keys of a table alone, in its spelling; null is a missing key."""
    if not isinstance(rule, Table) or not isinstance(value, dict):
        return value
    spelling = {fold(name): name for name in rule.keys}
    given = [(spelling.get(fold(key)), item) for key, item in value.items() if item is not None]
    return {name: _known(rule.keys[name].rule, item) for name, item in given if name is not None}


SECONDS = 0.2
"""Time for all patterns that one container is compared with."""

LONGEST = 4096
"""Characters of a text that is matched."""

_SIGKILL = 9
_ANSWERS = {True: b"1", False: b"0", None: b"?"}

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
"""The classes of POSIX and Go, which Python lacks, within brackets."""


class Subject:
    """The parts of a container that conditions are about."""

    def __init__(self, spec: Spec | None) -> None:
        self.annotations = spec.annotations if spec is not None else {}
        process: Any = spec.process if spec is not None else None
        args = process.get("args") if isinstance(process, dict) else None
        self.command = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None
        mounts: Any = spec.mounts if spec is not None else None
        self.has_bind_mounts = isinstance(mounts, list) and any(map(_is_bind, mounts))


def _is_bind(mount: Any) -> bool:
    if not isinstance(mount, dict):
        return False
    options = mount.get("options")
    return mount.get("type") == "bind" or (isinstance(options, list) and ("bind" in options or "rbind" in options))


def question(when: dict[str, Any], container: Subject) -> Question | None:
    """Return what is to be decided by patterns; None if a condition without patterns does not hold.

    :param when: of a file of oci-hooks(5).
    :raises DecodeError: a pattern is not a regular expression.
    """
    keys = [
        (_compiled(key, "when.annotations"), _compiled(value, f"when.annotations.{shorten(key)}"))
        for key, value in when.get("annotations", {}).items()
    ]
    commands = [
        _compiled(command, f"when.commands[{index}]") for index, command in enumerate(when.get("commands", ()))
    ]
    bind_mounts = when.get("hasBindMounts")
    if when.get("always") is False or bind_mounts is False or (bind_mounts and not container.has_bind_mounts):
        return None
    if not keys and not commands:
        return _yes

    def is_met() -> bool | None:
        texts = container.annotations.items()
        for key, value in keys:
            if not any(_search(key, name) and _search(value, text) for name, text in texts):
                return False
        if commands and container.command is None:
            return None
        return not commands or any(_search(pattern, container.command or "") for pattern in commands)

    return is_met


def decide(questions: Sequence[Question]) -> list[bool | None]:
    """Return the answer to each question, in the order in which they are decided while there is time.

    :raises NRIError: no process can be forked.
    """
    if all(check is _yes for check in questions):
        return [True] * len(questions)
    answers: list[bool | None] = [{b"0": False, b"?": None}.get(answer, True) for answer in _in_child(questions)]
    return answers + [True] * (len(questions) - len(answers))


def _yes() -> bool:
    return True


def _search(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) > LONGEST or pattern.search(text) is not None


def _in_child(questions: Sequence[Question]) -> list[bytes]:
    """Return the answers that a process gives in time."""
    until = time.monotonic() + SECONDS
    reads, writes = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            try:
                for check in questions:
                    os.write(writes, _ANSWERS[check()])
            finally:
                os._exit(0)
    except OSError as error:
        os.close(reads)
        raise NRIError(f"no process can be forked to match patterns: {error.strerror}") from error
    finally:
        os.close(writes)
    answers, poll = b"", select.poll()
    poll.register(reads, select.POLLIN)
    try:
        while poll.poll(max(0.0, until - time.monotonic()) * 1000):
            if not (more := os.read(reads, len(questions))):
                break
            answers += more
    finally:
        os.close(reads)
        os.kill(pid, _SIGKILL)
        os.waitpid(pid, 0)
    return [answers[place : place + 1] for place in range(len(answers))]


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    text = pattern
    if "[:" in text:
        for name, signs in _CLASSES.items():
            text = text.replace(f"[:{name}:]", signs)
    try:
        return re.compile(text, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise DecodeError(
            f"{where}: found {shorten(repr(pattern))}, expected a regular expression: {error}"
        ) from error
