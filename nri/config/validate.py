"""The rules of the host configuration as a table, ``HOST_CONFIG``, and the verdict on a document.

A container's start waits for the verdict (``parse``), which needs no jsonschema. ``host-config.schema.json`` is
made from the table (``tools/schemas``). Beyond the schema, no object may give a key twice.
"""

from __future__ import annotations

from nri.config.entries import FAILURE_POLICIES, MAX_TIMEOUT, MAX_TYPE_LENGTH, TYPE_PATTERN, is_type_name
from nri.config.when import WHEN
from nri.types import gojson
from nri.types.table import ANYTHING, FLAG, SCHEMA_KEY, Key, Table, array, number, text, words
from nri.types.v1 import STATES, VERSION

SECONDS = number(0, MAX_TIMEOUT, above=True, expected=f"a number of seconds above 0, at most {MAX_TIMEOUT}")
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
        description="Seconds after which the plugin is killed, which is a failure. Without it the host decides.",
    ),
    Key(
        "resident",
        FLAG,
        description="Whether the bridge may keep a plugin running that has opted in to answer request after request.",
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


def parse(document: bytes) -> object:
    """Return the value of a valid configuration; None for one that is not valid."""
    twice: list[str] = []
    try:
        value = gojson.loads(str(document, "utf-8"), twice)
    except ValueError:  # not UTF-8, or a DecodeError
        return None
    return value if not twice and HOST_CONFIG.accepts(value) else None
