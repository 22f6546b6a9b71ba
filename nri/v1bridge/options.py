"""The bridge options: one JSON object, all keys optional.

A runtime that launches the bridge passes them to it (``/etc/nri/conf.d/10-v1bridge.conf``); otherwise they come from
the file that ``--config`` names. Plugins and their confs are in the host configuration, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from nri.config.entries import DEFAULT_TIMEOUT, FAILURE_POLICIES, MAX_TIMEOUT
from nri.config.faults import nearest
from nri.errors import NRIError
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, DEFAULT_RECORD_FILE
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.table import FLAG, SCHEMA_KEY, Key, Rule, Table, array, number, text, words
from nri.types.table_explained import why


class OptionsError(NRIError):
    """The bridge options cannot be used; the message names the key, what was found, and what would be right."""


def _option(name: str, default: Any, rule: Rule, title: str) -> Any:
    return field(default=default, metadata={"key": name, "rule": rule, "title": title})


def _is_path(value: str) -> bool:
    return value.startswith("/") and "\0" not in value


_PATH = text(matches=_is_path, pattern=r"^/[^\0]*(?![\s\S])", expected="an absolute path")
_PATHS = array(_PATH, 1, expected="an array of absolute paths, at least one")
_SECONDS = number(0, MAX_TIMEOUT, above=True, expected=f"a number of seconds above 0, at most {MAX_TIMEOUT}")


@dataclass(frozen=True, kw_only=True)
class BridgeOptions:
    """The bridge options, with the default of each that is not given."""

    conf_dir: str = _option("confDir", DEFAULT_CONF_DIR, _PATH, "Directory of the host configuration")
    conf_file: str = _option("confFile", DEFAULT_CONF_FILE, _PATH, "File that is read if confDir has no *.conf")
    bin_dirs: tuple[str, ...] = _option(
        "binDirs", DEFAULT_BIN_DIRS, _PATHS, "Directories of plugins, in the order of the search"
    )
    failure_policy: str = _option(
        "failurePolicy",
        "fail",
        words(*FAILURE_POLICIES),
        "What a failure of a plugin means that has no failurePolicy of its own",
    )
    plugin_timeout: float = _option(
        "pluginTimeout", DEFAULT_TIMEOUT, _SECONDS, "Seconds for a plugin that has no timeout of its own"
    )
    prefork: bool = _option("prefork", True, FLAG, "Whether plugins are loaded before there is a request")
    check_owner: bool = _option("checkOwner", True, FLAG, "Whether files that others can write to are refused")
    late_create: bool = _option(
        "lateCreate", True, FLAG, "Whether containers that started without the bridge get a late create"
    )
    record_file: str = _option("recordFile", DEFAULT_RECORD_FILE, _PATH, "File with the containers that were served")
    log_file: str = _option("logFile", "", _PATH, "File of the log; without it the journal or syslog")
    log_level: str = _option(
        "logLevel", "info", words("debug", "info", "warning", "error"), "The least level that is logged"
    )
    log_format: str = _option("logFormat", "text", words("text", "json"), "The form of the log's lines")

    @classmethod
    def parse(cls, document: str) -> BridgeOptions:
        """Return the options of a JSON text; "" (or blanks) means no options.

        :raises OptionsError: with all faults.
        """
        options, faults = cls.read(document)
        if faults:
            raise OptionsError(f"bridge options: {'; '.join(faults)}")
        return options

    @classmethod
    def read(cls, document: str) -> tuple[BridgeOptions, list[str]]:
        """Return the valid options of a JSON text, with the defaults for the rest, and the faults.

        containerd 1.7 ends when a plugin does not accept its configuration; a misspelt key must not take a node down.
        """
        if not document.strip():
            return cls(), []
        try:
            value = gojson.loads(document)
        except DecodeError as error:
            return cls(), [f"they are not JSON: {error}"]
        if not isinstance(value, dict):
            return cls(), [why(OPTIONS, value)]
        attributes = {each.metadata["key"]: each.name for each in fields(cls)}
        faults: list[str] = []
        found: dict[str, Any] = {}
        for name, item in value.items():
            if item is None or OPTIONS.is_note(name):
                continue
            if name == SCHEMA_KEY.name and SCHEMA_KEY.rule.accepts(item):
                continue
            if name not in OPTIONS.keys:
                near = nearest(name, OPTIONS.keys)
                hint = f', did you mean "{near}"?' if near else f", expected one of {', '.join(OPTIONS.keys)}"
                faults.append(f"unknown key {gojson.shorten(repr(name))}{hint}")
            elif wrong := why(OPTIONS.keys[name].rule, item):
                faults.append(f"{name}: {wrong}")
            else:
                found[attributes[name]] = tuple(item) if isinstance(item, list) else item
        return cls(**found), faults


OPTIONS = Table(
    *[
        Key(each.metadata["key"], each.metadata["rule"], title=each.metadata["title"])
        for each in fields(BridgeOptions)
    ],
    SCHEMA_KEY,
    notes=True,
    nulls=True,
    title="Options of the bridge",
    description="The file of `nri bridge --config`, or /etc/nri/conf.d/10-v1bridge.conf: docs/configuration.md.",
)
"""The keys of the JSON object."""
