"""The host configuration: the rules of its documents as tables, and the types that they are read into.

A container's start waits for the verdict on a document, which needs no jsonschema. ``host-config.schema.json`` is
made from ``HOST_CONFIG`` (``tools/schemas``). Beyond the schema, no object may give a key twice.
"""

from __future__ import annotations

from nri.config.when import WHEN, Condition
from nri.types import DecodeError, gojson
from nri.types.table import ANYTHING, FLAG, SCHEMA_KEY, Key, Rule, Table, array, text, words
from nri.types.v1 import STATES, VERSION, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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


SECONDS = Rule(
    (int, float),
    lambda value: 0 < value <= MAX_TIMEOUT,
    f"a number of seconds above 0, at most {MAX_TIMEOUT}",
    {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIMEOUT},
)
"""The rule for the time that a plugin or a chain has."""

PLUGIN = Table(
    Key(
        "type",
        text(
            0,
            MAX_TYPE_LENGTH,
            matches=is_type_name,
            pattern=TYPE_PATTERN,
            expected="a file name of letters, digits, '.', '_' and '-' that begins with a letter or a digit",
        ),
        description="The name of the plugin's executable in the plugin directory, /opt/nri/bin.",
        required=True,
    ),
    Key(
        "conf",
        ANYTHING,
        description="The plugin's own configuration, passed to it unchanged. `TYPE schema` prints its schema, which "
        "`nri check` checks this value against.",
    ),
    Key(
        "states",
        array(words(*STATES), unique=True),
        description="The states that the plugin is run for, beside create and delete, which every plugin gets.",
    ),
    Key(
        "failurePolicy",
        words(*FAILURE_POLICIES),
        description="What a failure means: the container does not start (fail), or it is logged (ignore). Without it "
        "the host decides.",
    ),
    Key(
        "timeout",
        SECONDS,
        description="Seconds after which the plugin is killed, which is a failure. Without it the host "
        "decides.",
    ),
    Key(
        "resident",
        FLAG,
        description="Whether the bridge may keep a plugin running that has opted in to answer request "
        "after request.",
    ),
    Key(
        "waiting",
        FLAG,
        description="Whether the bridge starts a process before there is a request, which waits for it, unless the "
        "plugin is a resident. For programs that do nothing before they have read their stdin.",
    ),
    Key("when", WHEN),
    notes=True,
    description="A plugin may be listed several times with different confs; it runs once for each entry.",
)
"""An entry of ``plugins``."""

HOST_CONFIG = Table(
    SCHEMA_KEY,
    Key("version", words(VERSION), title="The version of the contract", required=True),
    Key(
        "plugins",
        array(PLUGIN),
        description="The plugins, in the order they run; with an empty array none runs.",
        required=True,
    ),
    notes=True,
    title="NRI v0.1 host configuration",
    description="A file in /etc/nri/resource.d, or /etc/nri/conf.json: which plugins run on this host, in which "
    "order. Strict, so that a misspelt key is found when the file is read, not when a plugin fails to do its work.",
)
"""A file of the host configuration."""


class PluginEntry:
    """One entry of the host configuration. Nothing sets an attribute later.

    :ivar type: the name of the plugin's executable.
    :ivar conf: the plugin conf; passed to the plugin unchanged.
    :ivar states: the states that the plugin is run for beside ``create`` and ``delete``, which are always sent.
    :ivar failure_policy: one of ``FAILURE_POLICIES``, or "" for the default of the program that runs the chain.
    :ivar timeout: seconds; 0 for the default of the program that runs the chain.
    :ivar resident: False: the plugin is started for each request, even if it has opted in as a resident.
    :ivar waiting: True: a process is started before there is a request, unless the plugin is a resident.
    :ivar when: the containers that the plugin runs for.
    :ivar source: the path of the entry's file; "" for none. Not part of the document.
    :ivar source_index: the index of the entry in that file, from 0. Not part of the document.
    """

    __slots__ = (
        *("_document", "_key"),
        *(
            "conf",
            "failure_policy",
            "resident",
            "source",
            "source_index",
            "states",
            "timeout",
            "type",
            "waiting",
            "when",
        ),
    )

    def __init__(  # noqa: PLR0913 - a key each
        self,
        *,
        type: str,
        conf: Any = None,
        states: Iterable[str] = (),
        failure_policy: str = "",
        timeout: float = 0,
        resident: bool | None = None,
        waiting: bool | None = None,
        when: dict[str, Any] | None = None,
        source: str = "",
        source_index: int = 0,
    ) -> None:
        self.type = type
        self.conf = conf
        self.states = tuple(states)
        self.failure_policy = failure_policy
        self.timeout = timeout
        self.resident = resident
        self.waiting = waiting
        self.when = Condition(when or {})
        self.source = source
        self.source_index = source_index
        self._key = ""
        self._document = ""

    @property
    def place(self) -> str:
        """Its file, and which entry of it this is."""
        return f"{self.source}: plugins[{self.source_index}]"

    @classmethod
    def of_accepted(
        cls, value: dict[str, Any], source: str = "", source_index: int = 0
    ) -> PluginEntry:
        """Return the entry of an object that ``PLUGIN`` accepts."""
        return cls(
            type=value["type"],
            conf=value.get("conf"),
            states=value.get("states", ()),
            failure_policy=value.get("failurePolicy", ""),
            timeout=value.get("timeout", 0),
            resident=value.get("resident"),
            waiting=value.get("waiting"),
            when=value.get("when"),
            source=source,
            source_index=source_index,
        )

    @classmethod
    def of_document(cls, document: str) -> PluginEntry:
        """Return the entry of a ``document``, which another build may have written: its wrong keys are ignored.

        :raises DecodeError: if it is not JSON, or has no type.
        """
        value = gojson.loads(document, keeps_lone=True)
        right = PLUGIN.right(value)
        if "type" not in right:
            raise DecodeError(f"found {gojson.describe(value)}, expected an entry with a type")
        return cls.of_accepted(right)

    def to_value(self) -> dict[str, Any]:
        """Return the entry as a JSON object, without the keys that say nothing."""
        value = {
            "type": self.type,
            "conf": self.conf,
            "states": [*self.states] or None,
            "failurePolicy": self.failure_policy or None,
            "timeout": self.timeout or None,
            "resident": self.resident,
            "waiting": self.waiting,
            "when": self.when.value or None,
        }
        return {name: item for name, item in value.items() if item is not None}

    def wants(self, state: str) -> bool:
        """Return whether the plugin is run for *state*, if its condition is met."""
        return state in (State.CREATE, State.DELETE) or state in self.states

    @property
    def key(self) -> str:
        """The type, and a hash of all that the plugin gets of the entry: its conf, whatever the order of the keys."""
        if not self._key:
            self._key = f"{self.type} {_hash(self.conf)}"
        return self._key

    @property
    def document(self) -> str:
        """The entry as JSON, for a container's record: without its condition, which held."""
        if not self._document:
            value = self.to_value()
            value.pop("when", None)
            self._document = gojson.dumps(value).decode()
        return self._document

    @property
    def wanted_states(self) -> list[str]:
        """The states of the contract that the plugin is run for, in the order of a container's life."""
        return [str(state) for state in STATES if self.wants(state)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PluginEntry):
            return NotImplemented
        is_same_place = (self.source, self.source_index) == (other.source, other.source_index)
        return is_same_place and self.to_value() == other.to_value()

    __hash__ = None  # type: ignore[assignment] # a conf may hold dictionaries

    def __repr__(self) -> str:
        return f"PluginEntry({self.to_value()!r}, {self.source!r}, {self.source_index})"


def types_of(plugins: Iterable[PluginEntry]) -> list[str]:
    """Return the type of each entry."""
    return [plugin.type for plugin in plugins]


def _hash(conf: Any) -> str:
    try:
        from _blake2 import blake2b  # hashlib takes longer to import than the rest of a hook's work
    except ImportError:
        from hashlib import blake2b
    return blake2b(gojson.dumps(conf, in_order=True), digest_size=6).hexdigest()


class ConfigList:
    """The host configuration: which plugins run, in which order."""

    __slots__ = ("plugins", "version")

    def __init__(self, *, plugins: Iterable[PluginEntry] = (), version: str = VERSION) -> None:
        self.plugins = tuple(plugins)
        self.version = version

    def wanted_in(self, state: str) -> list[PluginEntry]:
        """Return the entries whose plugin is run for *state*, if their conditions are met."""
        return [plugin for plugin in self.plugins if plugin.wants(state)]

    def to_json(self) -> bytes:
        """Return the configuration as one document."""
        plugins = [plugin.to_value() for plugin in self.plugins]
        return gojson.dumps({"version": self.version, "plugins": plugins})

    def content_hash(self) -> str:
        """Return a hash of the content, whatever the names of the files: the same on all nodes of a fleet."""
        import hashlib

        return hashlib.sha256(self.to_json()).hexdigest()[:12]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigList):
            return NotImplemented
        return (self.version, self.plugins) == (other.version, other.plugins)

    __hash__ = None  # type: ignore[assignment] # see PluginEntry

    def __repr__(self) -> str:
        return f"ConfigList({self.plugins!r})"
