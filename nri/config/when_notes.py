"""Notes about the condition of an entry, for ``nri check``: what is allowed, and probably not what is meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nri.config.when import Pattern
from nri.types.gojson import shorten
from nri.types.table_explained import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.config import PluginEntry

_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_IN_LABEL = re.compile(r"\**([A-Za-z0-9._-]\**){0,63}")
_REGULAR_EXPRESSION = re.compile(r"\.\*|^\^|\$$|\\|\[.*\]|\(.*\)")

_OF_PODS = {"labels", "annotations"}
_UNKNOWN_TO_HOOKS = {"labels": "labels", "runtimeHandler": "runtime handlers"}


def notes(plugin: PluginEntry, containerds_file: str) -> list[str]:
    """Return the notes about an entry's ``when``.

    :param containerds_file: the file that containerd reads itself.
    """
    if plugin.when is None:
        return []
    where = f"{plugin.source or '(no file)'}: plugins[{plugin.source_index}].when"
    return [f"{where}{note}" for note in _notes(plugin, plugin.when.value, containerds_file)]


def _notes(plugin: PluginEntry, when: dict[str, Any], containerds_file: str) -> Iterator[str]:
    if plugin.source == containerds_file:
        yield ": containerd runs the plugins of this file itself, for all containers (1.6) or all sandboxes (2.x)"
    for of in ("labels", "annotations"):
        for key, rule in when.get(of, {}).items():
            if why := _never(rule, is_label=of == "labels"):
                yield f".{path_text((of, key))}: never met: {why}"
            for pattern in _listed(rule, "pattern"):
                if _REGULAR_EXPRESSION.search(pattern):
                    found = f"{shorten(repr(pattern))} looks like a regular expression"
                    yield f".{path_text((of, key))}: {found}; only * is special in a pattern"
    if when.keys() <= {*_OF_PODS, "sandbox"} and when.keys() & _OF_PODS:
        given = " and ".join([key for key in when if key in _OF_PODS])
        yield f": depends on {given} alone, so the author of a pod decides whether the plugin runs"
    if unknown := [what for key, what in _UNKNOWN_TO_HOOKS.items() if key in when]:
        yield f": nri hook and nri-runc do not know {' and '.join(unknown)}; what is not known keeps no plugin away"


def _never(rule: dict[str, Any], *, is_label: bool) -> str:
    """Return why no value can meet a rule; "" if one can."""
    values, patterns = _listed(rule, "equals"), _listed(rule, "pattern")
    if rule.get("present") is False and (values or patterns):
        return "what is not present has no value"
    possible = [value for value in values if not is_label or _LABEL.fullmatch(value)]
    if values and not possible:
        return "no label has such a value"
    if values and patterns and not any(Pattern(pattern).matches(value) for value in possible for pattern in patterns):
        return "no value of equals matches the pattern"
    if is_label and patterns and not any(_IN_LABEL.fullmatch(pattern) for pattern in patterns):
        return "no label has a value that matches"
    return ""


def _listed(rule: dict[str, Any], key: str) -> list[str]:
    given = rule.get(key, [])
    return [given] if isinstance(given, str) else given
