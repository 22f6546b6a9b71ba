"""The options of ``nri-runc``: one JSON object in :data:`FILE`, all keys optional.

The command line is the real runtime's, so there is no other place for them. No variable of the environment names
another file: an engine hands its own environment down, and in some of them a container's user sets variables.
"""

from __future__ import annotations

import os

from nri import trust
from nri.config import ConfigError
from nri.config.entries import DEFAULT_TIMEOUT, FAILURE_POLICIES, MAX_TIMEOUT
from nri.config.loading import read
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, RUNTIME_OPTIONS_FILE
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.table import SCHEMA_KEY, Key, Table, array, number, text, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_DEADLINE = 30.0
"""Seconds for the whole chain of one state. The kubelet waits two minutes for a runtime, podman and docker longer."""


def _is_path(value: str) -> bool:
    return value.startswith("/") and "\0" not in value


def _is_runtime(value: str) -> bool:
    return _is_path(value) or (value not in ("", ".", "..") and not set(value) & {"/", "\0"})


_PATH = text(matches=_is_path, pattern=r"^/[^\0]*(?![\s\S])", expected="an absolute path")
_RUNTIME = text(
    matches=_is_runtime,
    pattern=r"^(/[^\0]*|(?!\.{1,2}(?![\s\S]))[^/\0]+)(?![\s\S])",
    expected="an absolute path, or the name of an executable",
)
_SECONDS = number(0, MAX_TIMEOUT, above=True, expected=f"a number of seconds above 0, at most {MAX_TIMEOUT}")

OPTIONS = Table(
    Key("runtime", _RUNTIME, default="", title="The real runtime; without it runc or crun, by the command's name"),
    Key("confDir", _PATH, default=DEFAULT_CONF_DIR, title="Directory of the host configuration"),
    Key("confFile", _PATH, default=DEFAULT_CONF_FILE, title="File that is read if confDir has no *.conf"),
    Key(
        "binDirs",
        array(_PATH, 1, expected="an array of absolute paths, at least one"),
        default=list(DEFAULT_BIN_DIRS),
        title="Directories of plugins, in the order of the search",
    ),
    Key(
        "failurePolicy",
        words(*FAILURE_POLICIES),
        default="fail",
        title="What a failure of a plugin means that has no failurePolicy of its own",
    ),
    Key("timeout", _SECONDS, default=DEFAULT_TIMEOUT, title="Seconds for a plugin that has no timeout of its own"),
    Key("deadline", _SECONDS, default=DEFAULT_DEADLINE, title="Seconds for all plugins of one state"),
    Key("logFile", _PATH, default="", title="File of the log; without it there is none"),
    SCHEMA_KEY,
    notes=True,
    nulls=True,
    title="Options of nri-runc and nri-crun",
    description="The file /etc/nri/runtime.json: docs/configuration.md.",
)
"""The keys of the JSON object."""


class WrapperOptions:
    """The options, with the default of each that is not given.

    :ivar fault: why the file cannot be used, "" if it can be; then the options that are right are here all the same.
    """

    def __init__(self, given: dict[str, Any] | None = None, fault: str = "") -> None:
        values = OPTIONS.read(given)
        if values is None:
            raise DecodeError("expected options that the table accepts")
        self.runtime: str = values["runtime"]
        self.conf_dir: str = values["confDir"]
        self.conf_file: str = values["confFile"]
        self.bin_dirs: tuple[str, ...] = tuple(values["binDirs"])
        self.failure_policy: str = values["failurePolicy"]
        self.timeout: float = values["timeout"]
        self.deadline: float = values["deadline"]
        self.log_file: str = values["logFile"]
        self.fault = fault


def load(path: str = RUNTIME_OPTIONS_FILE) -> WrapperOptions:
    """Return the options in a file; the defaults if there is none.

    Nothing is raised, since some commands must work in any case: :attr:`WrapperOptions.fault` has what is wrong.
    """
    try:
        document = read(path, check_owner=True)
        for directory in trust.directories(path):
            if wrong := trust.judge(os.stat(directory)):
                return WrapperOptions(fault=f"{directory} {wrong}")
    except FileNotFoundError:
        return WrapperOptions()
    except ConfigError as error:
        return WrapperOptions(fault="; ".join(map(str, error.faults)))
    except OSError as error:
        return WrapperOptions(fault=f"{path}: cannot be looked at: {error.strerror}, expected a file of JSON")
    return _parse(document, path)


def _parse(document: bytes, path: str) -> WrapperOptions:
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        repeated.extend(name for name in dict(pairs) if names.count(name) > 1)
        return dict(pairs)

    try:
        value = gojson.loads(str(document, "utf-8"), unique) if document.strip() else {}
    except ValueError as error:  # not UTF-8, or a DecodeError
        return WrapperOptions(fault=f"{path}: {error}")
    if not repeated and isinstance(value, dict) and OPTIONS.accepts(value):
        return WrapperOptions(value)
    from nri.types.table_explained import faults

    found = [f"{path}: {f'{where[1:]}: ' if where else ''}{wrong}" for where, wrong in faults(OPTIONS, value, "")]
    found += [f"{path}: {gojson.shorten(repr(name))} is there more than once" for name in repeated]
    right = {}
    if isinstance(value, dict):
        right = {name: item for name, item in value.items() if OPTIONS.accepts({name: item})}
    return WrapperOptions(right, "; ".join(found))
