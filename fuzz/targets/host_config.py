"""The host configuration: ``nri.config.loading.parse`` accepts a file if and only if the schema does and no key is
given twice. For any other file ``nri.config.diagnostics`` names at least one fault, each of one printable line
with a position in the file. An accepted file can be read as a list of plugins whose types are file names.
"""

from __future__ import annotations

from harness import json_schemas

from fuzz.targets.wire_messages import SEEDS as MESSAGES
from nri.config import loading
from nri.config.diagnostics import SourcePositions, diagnose
from nri.config.entries import PluginEntry
from nri.types import DecodeError, gojson

JSON = True
_VALIDATOR = json_schemas.validator("host-config")


def check(data: bytes) -> None:
    """Read the bytes as a configuration file."""
    value = loading.parse(data)
    accepted = _schema_accepts(data)
    assert (value is not None) == accepted, (
        f"parse accepts: {value is not None}, the schema: {accepted}"
    )
    if value is not None:
        plugins = [PluginEntry.of_accepted(entry) for entry in value["plugins"]]
        assert all(
            plugin.type and "/" not in plugin.type and plugin.type != ".." for plugin in plugins
        )
        assert [PluginEntry.of_accepted(plugin.to_value()) for plugin in plugins] == plugins
        return
    faults = diagnose("file", data)
    assert faults, "neither good nor wrong"
    lines = data.decode("utf-8", "replace").split("\n")
    for fault in faults:
        assert "please report this" not in fault.message, str(fault)
        assert 1 <= fault.line <= len(lines)
        assert 1 <= fault.column <= len(lines[fault.line - 1]) + 1
        assert str(fault).isprintable()
        assert len(str(fault)) < 1000, "a fault carries the document"


def _schema_accepts(data: bytes) -> bool:
    try:
        text = data.decode()
        value = gojson.loads(text)
    except (UnicodeDecodeError, DecodeError):
        return False
    return _VALIDATOR.is_valid(value) and not SourcePositions(text).duplicates


SEEDS = (
    (
        b'{"$schema":"urn:nri:v0.1:host-config","version":"0.1","x-note":{"a":1},"plugins":[{"type":"a","conf":{"b":[1]},'
        b'"states":["setup","update"],"failurePolicy":"fail","timeout":1.5},{"type":"b-1.0_c","x-":null}]}'
    ),
    b'{"version":"0.1","plugins":[]}',
    b'{\n  "version": "0.1",\n  "plugins": [\n    { "typ": "clearcfs" },\n    { "type": "../evil" }\n  ]\n}\n',
    b'{"version":"0.1","plugins":[{"type":"a","states":["updat","create","create"],"timeout":0,"conf":{"a":1,"\\u0061":2}}]}',
    b'{"version":"0.1","plugins":[{"type":"a",}]}',
    b'{"version":"0.1","plugins":[{"type":"a","timeout":0}]}',
    b'{"version":"0.1","plugins":[{"type":"a","timeout":3600}]}',
    b'{"version":"0.1","plugins":[{"type":"a","timeout":3600.5}]}',
    b'{"version":"0.1","plugins":[{"type":"a","states":["setup","setup"]}]}',
    b'{"version":"0.1","plugins":[{"type":"a","failurePolicy":true,"x":1}]}',
    (
        b'{"version":"0.1","plugins":[{"type":"a","when":{"namespaces":["b-*"],"labels":{"c":{"equals":["d"],"present":true}},'
        b'"annotations":{"e":{"pattern":"f*"}},"sandbox":"both","runtimeHandler":[""]}}]}'
    ),
    b'{"version":"0.1","plugins":[{"type":"a","when":{"namespaces":[],"labels":{"c d":{}},"sandbox":1}}]}',
    b'{"version":"0.1","plugins":[],"version":"0.1"}',
    b"# a comment\n{}",
    b"\xef\xbb\xbf{}",
    b'{"version":"0.1","plugins":[{"type":"\xff"}]}',
    b"",
    *(seed[1:] for seed in MESSAGES if seed[0] == 2),
)
