"""A CDI specification in YAML or JSON: it is read, or refused with a short DecodeError. An accepted one means the
same when it is written as JSON and read as YAML. Its edits become an adjust that
:func:`nri.adjust.reading.read_adjust` accepts, or an AdjustError says which device node the host lacks.
"""

from __future__ import annotations

from typing import Any

from fuzz.targets import split
from nri.adjust.cdi_document import read_specification
from nri.adjust.cdi_edits import adjust_of
from nri.adjust.cdi_yaml import loads
from nri.adjust.errors import AdjustError
from nri.adjust.reading import read_adjust
from nri.types import DecodeError, gojson

JSON = True
CHOICES = ("json", "yaml")


def check(data: bytes) -> None:
    """Read the bytes: YAML if the first one is odd, JSON otherwise."""
    choice, document = split(data, len(CHOICES))
    try:
        found = read_specification(loads(document) if CHOICES[choice] == "yaml" else gojson.loads(document))
    except DecodeError as error:
        assert str(error).isprintable(), "an error with control characters"
        assert len(str(error)) < 1000, "an error carries the document"
        return
    assert read_specification(found) == found, "reading again changes it"
    try:
        assert loads(gojson.dumps(found)) == found, "YAML and JSON differ"
    except DecodeError as error:
        assert "special characters" in str(error) or "control characters" in str(error), f"refused as YAML: {error}"
    many = [found.get("containerEdits", {}), *[device["containerEdits"] for device in found["devices"]]]
    try:
        adjust = adjust_of([("a file", edits) for edits in many], {"linux": {"namespaces": [{"type": "user"}]}})
    except AdjustError as error:
        assert str(error).isprintable(), "an error with control characters"
        return
    _read_without_extras(adjust)


def _read_without_extras(adjust: dict[str, Any]) -> None:
    adjust.pop("additionalGids", None)
    for device in adjust.get("linux", {}).get("devices", []):
        device.pop("access", None)
    assert read_adjust(adjust) == adjust


_FULL = (
    b'{"cdiVersion":"1.1.0","kind":"vendor.com/net","annotations":{"a":"b"},"devices":[{"name":"x","containerEdits":'
    b'{"env":["A=1"],"deviceNodes":[{"path":"/dev/null","hostPath":"/dev/zero","permissions":"rw","uid":5},{"path":'
    b'"/dev/x","type":"b","major":8,"minor":1,"fileMode":432}],"netDevices":[{"hostInterfaceName":"a","name":"b"}]}},'
    b'{"name":"0","containerEdits":{"mounts":[{"hostPath":"/a","containerPath":"/b/","options":["rbind"]}],"hooks":[{'
    b'"hookName":"poststop","path":"/bin/a","args":["a"],"env":["B=1"],"timeout":1}]}}],"containerEdits":{"intelRdt":'
    b'{"closID":"a","schemata":["b"],"enableMonitoring":true},"additionalGids":[0,5]}}'
)
SEEDS = (
    b"\0" + _FULL,
    b"\1" + _FULL,
    (
        b"\1---\ncdiVersion: 0.5.0\nkind: vendor.com/net\ndevices:\n- name: 0:1\n  containerEdits:\n"
        b"    deviceNodes:\n    - path: /dev/null\n      major: 1\n      minor: 0x3\n      type: c\n"
        b"      fileMode: 0666\n"
    ),
    b"\1a: &a [1]\nb: *a\n",
    b"\1? [a]\n: b\n",
    b"\1a: !!set {b}\n",
    b"\0" + b"[" * 300,
    b"\1" + b"[" * 300,
    b"\0null",
)
WORDS = (b"---\n", b"- ", b": ", b"&a ", b"*a", b"!!str ", b"<<", b"|\n", b">-\n", b"'", b'"', b"~", b"0o17", b"? ")
