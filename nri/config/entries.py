"""The types of the host configuration, and the limits of their values."""

from __future__ import annotations

from nri.types.jsonobject import Field, JSONObject, choice, number, objects, opaque, string, strings
from nri.types.v1 import STATES, VERSION, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.config.when import Condition

FAILURE_POLICIES = ("fail", "ignore")
"""``fail``: the container does not start when the plugin fails. ``ignore``: the failure is logged."""

MAX_TIMEOUT = 3600
"""The longest time that a plugin or a whole chain may be given, in seconds."""

DEFAULT_TIMEOUT = 10.0
"""Seconds that a plugin has to answer, unless its entry has a ``timeout``."""

MAX_TYPE_LENGTH = 255
"""Characters; the limit that Linux sets for a file name."""

TYPE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*(?!\n)$"
"""The regular expression of a plugin's type; ``is_type_name`` is the same without ``re``."""


def is_type_name(name: object) -> bool:
    """Return whether *name* can be a plugin's type, which is also a file name: it has no slash and is not ``..``."""
    if not isinstance(name, str) or not name[:1].isalnum() or len(name) > MAX_TYPE_LENGTH:
        return False
    return name.isascii() and name.replace(".", "0").replace("_", "0").replace("-", "0").isalnum()


def _when(value: object, where: str) -> Condition | None:
    if value is None:
        return None
    from nri.config.when import Condition  # only for a configuration that has conditions

    return value if isinstance(value, Condition) else Condition.from_value(value, where)


class PluginEntry(JSONObject):
    """One entry of the host configuration."""

    __slots__ = (
        *("_document", "_key"),
        *("conf", "failure_policy", "resident", "source", "source_index", "states", "timeout", "type", "when"),
    )

    _key: str
    _document: str

    type: str
    """The name of the plugin's executable."""
    conf: Any
    """The plugin conf; passed to the plugin unchanged."""
    states: tuple[str, ...]
    """The states that the plugin is run for in addition to ``create`` and ``delete``, which are always sent."""
    failure_policy: str
    """One of ``FAILURE_POLICIES``, or "" for the default of the program that runs the chain."""
    timeout: float
    """Seconds; 0 for the default of the program that runs the chain."""
    resident: bool | None
    """False: the plugin is started for each request, even if it has opted in as a resident. None is True."""
    when: Condition | None
    """The containers that the plugin runs for; None for all."""
    source: str
    """The path of the entry's file; not part of the document."""
    source_index: int
    """The index of the entry in that file, from 0; not part of the document."""

    FIELDS = (
        Field("type", "type", string, omit_empty=False),
        Field("conf", "conf", opaque),
        Field("states", "states", strings),
        Field("failurePolicy", "failure_policy", string),
        Field("timeout", "timeout", number),
        Field("resident", "resident", choice),
        Field("when", "when", _when),
    )

    def __init__(
        self,
        *,
        type: str,
        conf: Any = None,
        states: Iterable[str] = (),
        failure_policy: str = "",
        timeout: float = 0,
        resident: bool | None = None,
        when: Condition | dict[str, Any] | None = None,
        source: str = "",
        source_index: int = 0,
    ) -> None:
        self._set(type=type, conf=conf, states=tuple(states), failure_policy=failure_policy, timeout=timeout)
        self._set(resident=resident, when=_when(when, "when"), source=source, source_index=source_index)

    @classmethod
    def from_value(cls, value: object, where: str) -> PluginEntry:
        """Return the entry of a decoded JSON object, as ``JSONObject.from_value``, without a source."""
        plugin = super().from_value(value, where)
        plugin._set(source="", source_index=0)
        return plugin

    def wants(self, state: str) -> bool:
        """Return whether the plugin is run for *state*, if its condition is met."""
        return state in (State.CREATE, State.DELETE) or state in self.states

    @property
    def key(self) -> str:
        """The type, and a hash of all that the plugin gets of the entry: its conf, whatever the order of the keys."""
        if not hasattr(self, "_key"):
            self._set(_key=f"{self.type} {_hash(self.conf)}")
        return self._key

    @property
    def document(self) -> str:
        """The entry as JSON, for a container's record: without its condition, which held."""
        if not hasattr(self, "_document"):
            self._set(_document=self.replace(when=None).to_json().decode())
        return self._document

    @property
    def wanted_states(self) -> list[str]:
        """The states of the contract that the plugin is run for, in the order of a container's life."""
        return [str(state) for state in STATES if self.wants(state)]


def _hash(conf: Any) -> str:
    from nri.types import gojson

    try:
        from _blake2 import blake2b  # hashlib takes longer to import than the rest of a hook's work
    except ImportError:
        from hashlib import blake2b
    return blake2b(gojson.dumps(_in_order(conf)), digest_size=6).hexdigest()


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _plugins(value: object, where: str) -> tuple[PluginEntry, ...]:
    return objects(PluginEntry, "plugins", value, where)


class ConfigList(JSONObject):
    """The host configuration: which plugins run, in which order."""

    __slots__ = ("plugins", "version")

    version: str
    plugins: tuple[PluginEntry, ...]

    FIELDS = (
        Field("version", "version", string, omit_empty=False),
        Field("plugins", "plugins", _plugins, omit_empty=False),
    )

    def __init__(self, *, plugins: Iterable[PluginEntry] = (), version: str = VERSION) -> None:
        self._set(version=version, plugins=tuple(plugins))

    def content_hash(self) -> str:
        """Return a hash of the content, whatever the names of the files: the same on all nodes of a fleet."""
        import hashlib

        return hashlib.sha256(self.to_json()).hexdigest()[:12]
