"""The tables of keys in docs/: made of the tables that check the configuration, for tests and tools.

A page has the comment ``<!-- keys: NAME -->`` before each, with a name of ``TABLES``, or ``knobs``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nri.cgroups.knob_table import TABLE as KNOBS
from nri.config.entries import HOST_CONFIG
from nri.config.when import RULE, WHEN
from nri.plugins.clearcfs import ClearCFSConf
from nri.plugins.hook_injector import HookInjectorConf
from nri.plugins.konfine import KonfineConf
from nri.plugins.logger import LoggerConf
from nri.plugins.qos import QoSConf
from nri.runc.options import WrapperOptions
from nri.types.table import Key, Table
from nri.v1bridge import BridgeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.types.table import Rule

TABLES = {
    "host configuration": HOST_CONFIG,
    "when": WHEN,
    "rule": RULE,
    "bridge options": BridgeOptions.table,
    "nri-runc": WrapperOptions.table,
    "clearcfs": ClearCFSConf.table,
    "konfine": KonfineConf.table,
    "qos": QoSConf.table,
    "hook-injector": HookInjectorConf.table,
    "logger": LoggerConf.table,
}

_NOT_SHOWN = {"$schema", "mountinfo", "run", "sys"}
"""Keys that are not for users; the last three are for tests: where a made-up node has what a real one has at /."""

_TABLE = re.compile(r"(?<=<!-- keys: )([\w -]+)( -->\n\n)(?:\|.*\n)*")


def filled(page: str) -> str:
    """Return the text of a page with its tables of keys, and of knobs, as the code has them."""
    return _TABLE.sub(lambda match: match[1] + match[2] + _text(match[1]), page)


_OF_THE_BRIDGE = ("`confDir`", "`confFile`", "`binDirs`", "`recordDir`", "`failurePolicy`")


def _text(name: str) -> str:
    if name == "knobs":
        rows = [
            ("name", "value", "files of v1", "property of a unit", "crun's child", "needs"),
            *map(_knob, KNOBS),
        ]
    else:
        rows = [("key", "value", "default", "meaning"), *_rows(TABLES[name], "")]
        if name == "nri-runc":  # the page has the others as the bridge's
            rows = [row for row in rows if row[0] not in _OF_THE_BRIDGE]
    rows.insert(1, ("---",) * len(rows[0]))
    return "".join([f"| {' | '.join(row)} |\n" for row in rows])


def _knob(name: str) -> tuple[str, ...]:
    knob = KNOBS[name]
    told = {
        version: file.told
        for version, file in sorted(knob.files.items(), reverse=True)
        if file.told
    }
    is_one = len({*told.values()}) == 1 and told.keys() == {1, 2}
    return (
        f"`{name}`",
        ("" if knob.can_be_written else "only read: ") + knob.values.expected,
        ", ".join(f"`{file}`" for file in (knob.files[1].names() if 1 in knob.files else ()))
        or "none",
        told[2]
        if is_one
        else ", ".join(f"{name} (v{version})" for version, name in told.items()) or "none",
        knob.level,
        knob.needs,
    )


def _rows(table: Table, prefix: str) -> Iterator[tuple[str, ...]]:
    for key in table.keys.values():
        if key.name in _NOT_SHOWN:
            continue
        inner, dots = key.rule, f"{prefix}{key.name}."
        if inner.kind is list:
            inner, dots = inner.parts[0], f"{prefix}{key.name}[]."
        about = _about(key)
        # Two asterisks in a cell would be emphasis, and not be seen.
        yield (
            f"`{prefix}{key.name}`",
            _kind(key.rule).replace("*", r"\*"),
            _default(key),
            about.replace("*", r"\*"),
        )
        # The keys of `allow` are in a table of all plugins, and those of `when` in one of their own.
        if isinstance(inner, Table) and inner is not WHEN and key.name != "allow":
            yield from _rows(inner, dots)


def _about(key: Key) -> str:
    named = key.named or key.rule.keywords
    # The title is a shorter one.
    about = (named.get("description") or named.get("title", "")).rstrip(".")
    return about[:1].lower() + about[1:] if about[1:2].islower() or about[1:2] == " " else about


def _kind(rule: Rule) -> str:
    text = rule.expected
    if text == "an array":
        text = f"an array, each {rule.parts[0].expected}"
    text = text.replace("a string that is not empty", "a string")
    return re.sub(r"^an? ", "", text).replace("|", "\\|")


def _default(key: Key) -> str:
    if key.required:
        return "required"
    default = int(key.default) if isinstance(key.default, float) else key.default
    return f"`{json.dumps(default)}`" if default not in (None, "", {}, []) else ""
