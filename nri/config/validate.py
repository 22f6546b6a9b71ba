"""Whether a configuration is good: the one question that a container's start waits for.

The rules are those of ``host-config.schema.json``, and that no object gives a key twice; here without jsonschema,
which costs more than all the rest of a hook. A test holds both to the same verdict. What exactly is wrong is for
:mod:`nri.config.diagnostics` to say.
"""

from __future__ import annotations

from nri.config.entries import FAILURE_POLICIES, MAX_TIMEOUT, PREFORK, is_type_name
from nri.types import gojson
from nri.types.v1 import STATES, VERSION

TOP_LEVEL_KEYS = ("$schema", "version", "plugins")
PLUGIN_KEYS = ("type", "conf", "states", "failurePolicy", "timeout", "prefork")
NOTE_PREFIX = "x-"
"""A key that begins with it holds the operator's own notes."""


def parse(document: bytes) -> object:
    """The value of a configuration that is good; None for one that is not."""
    duplicates = []

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            duplicates.append(value)
        return value

    try:
        value = gojson.loads(str(document, "utf-8"), unique)
    except ValueError:  # not UTF-8, or a DecodeError
        return None
    return value if not duplicates and is_good(value) else None


def is_good(document: object) -> bool:
    """Whether a decoded document is what ``host-config.schema.json`` accepts."""
    if not isinstance(document, dict) or not _known_keys(document, TOP_LEVEL_KEYS):
        return False
    if document.get("version") != VERSION or not isinstance(document.get("$schema", ""), str):
        return False
    plugins = document.get("plugins")
    return isinstance(plugins, list) and all(map(is_good_plugin, plugins))


def is_good_plugin(plugin: object) -> bool:
    """Return whether an entry of ``plugins`` is good."""
    return (
        isinstance(plugin, dict)
        and is_type_name(plugin.get("type"))
        and _known_keys(plugin, PLUGIN_KEYS)
        and plugin.get("failurePolicy", "fail") in FAILURE_POLICIES
        and _are_states(plugin.get("states", []))
        and _is_timeout(plugin.get("timeout", MAX_TIMEOUT))
        and plugin.get("prefork", "never") in PREFORK
    )


def _known_keys(value: dict[str, object], known: tuple[str, ...]) -> bool:
    return all(key in known or key.startswith(NOTE_PREFIX) for key in value)


def _are_states(value: object) -> bool:
    return isinstance(value, list) and all(item in STATES for item in value) and len(set(value)) == len(value)


def _is_timeout(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT
