"""The bridge's own settings: one JSON object, all keys optional.

A runtime that launches the bridge hands them over (``/etc/nri/conf.d/10-v1bridge.conf``); else they come from the
file that ``--config`` names. What the plugins are and what they are told is not among them: ``/etc/nri/resource.d``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from nri.client.chain import DEFAULT_TIMEOUT
from nri.client.lookup import DEFAULT_BIN_DIRS
from nri.config import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.config.entries import FAILURE_POLICIES, MAX_TIMEOUT
from nri.errors import NRIError
from nri.types import gojson
from nri.types.errors import DecodeError

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


class OptionsError(NRIError):
    """The bridge's settings can't be used; the message names the key, what was found, and what would be right."""


def _key(key: str, default: Any, expected: str) -> Any:
    metadata = {"key": key, "expected": expected}
    if isinstance(default, list | tuple):
        return field(default=tuple(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class BridgeOptions:
    """The settings, with the defaults of all that is not said."""

    conf_dir: str = _key("confDir", DEFAULT_CONF_DIR, "an absolute path")
    conf_file: str = _key("confFile", DEFAULT_CONF_FILE, "an absolute path")
    bin_dirs: tuple[str, ...] = _key("binDirs", DEFAULT_BIN_DIRS, "an array of absolute paths, at least one")
    failure_policy: str = _key("failurePolicy", "fail", f"one of {', '.join(FAILURE_POLICIES)}")
    plugin_timeout: float = _key(
        "pluginTimeout", DEFAULT_TIMEOUT, f"a number of seconds above 0, at most {MAX_TIMEOUT}"
    )
    prefork: bool = _key("prefork", True, "true or false")
    check_owner: bool = _key("checkOwner", True, "true or false")
    log_file: str = _key("logFile", "", "an absolute path")
    log_level: str = _key("logLevel", "info", f"one of {', '.join(LEVELS)}")
    log_format: str = _key("logFormat", "text", f"one of {', '.join(FORMATS)}")

    @classmethod
    def parse(cls, text: str) -> BridgeOptions:
        """The settings in a JSON text; "" (or blanks) is none at all.

        :raises OptionsError: with everything that is wrong.
        """
        settings, faults = cls.read(text)
        if faults:
            raise OptionsError(f"the bridge's settings: {'; '.join(faults)}")
        return settings

    @classmethod
    def read(cls, text: str) -> tuple[BridgeOptions, list[str]]:
        """What is good in a JSON text, with the defaults for the rest, and what is not.

        For a bridge that a runtime launches: containerd 1.7 ends when a plugin does not accept its configuration, and
        a misspelt level of a log must not take a node down.
        """
        if not text.strip():
            return cls(), []
        try:
            document = gojson.loads(text)
        except DecodeError as error:
            return cls(), [f"they are not JSON: {error}"]
        if not isinstance(document, dict):
            return cls(), [f"found {gojson.describe(document)}, expected an object"]
        by_key = {each.metadata["key"]: each for each in fields(cls)}
        faults: list[str] = []
        found: dict[str, Any] = {}
        for key, value in document.items():
            if key.startswith("x-") or value is None:
                continue
            if key not in by_key:
                near = difflib.get_close_matches(key, by_key, 1)
                hint = f', did you mean "{near[0]}"?' if near else f", expected one of {', '.join(by_key)}"
                faults.append(f"unknown key {gojson.shorten(repr(key))}{hint}")
            elif not _GOOD[key](value):
                faults.append(f"{key}: found {gojson.describe(value)}, expected {by_key[key].metadata['expected']}")
            else:
                found[by_key[key].name] = tuple(value) if isinstance(value, list) else value
        return cls(**found), faults


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value


_GOOD: dict[str, Callable[[Any], bool]] = {
    "confDir": _is_path,
    "confFile": _is_path,
    "binDirs": lambda value: isinstance(value, list) and bool(value) and all(map(_is_path, value)),
    "failurePolicy": lambda value: value in FAILURE_POLICIES,
    "pluginTimeout": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT
    ),
    "prefork": lambda value: isinstance(value, bool),
    "checkOwner": lambda value: isinstance(value, bool),
    "logFile": _is_path,
    "logLevel": lambda value: value in LEVELS,
    "logFormat": lambda value: value in FORMATS,
}
