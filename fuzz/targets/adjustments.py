"""A plugin's changes and a container's OCI config.json: ``nri.adjust.document.read_adjust`` accepts what the JSON
Schema does, unless values contradict each other, and refuses the rest with a short DecodeError. An accepted adjust is
applied to any configuration, which can be written then and in which applying it again changes no mount or variable;
or the configuration is refused with a short DecodeError. Both documents stay as they were.
"""

from __future__ import annotations

import copy
from typing import Any

from harness import json_schemas

from nri.adjust.apply import apply
from nri.adjust.document import ADJUST, read_adjust
from nri.types import DecodeError, gojson

JSON = True
_VALIDATOR = json_schemas.validator("adjust")


def check(data: bytes) -> None:
    """Read the bytes as an array of an adjust and a configuration; what is no array, as an adjust."""
    try:
        value = gojson.loads(data)
    except DecodeError:
        return
    given, config = value if isinstance(value, list) and len(value) == 2 else (value, {})
    before = gojson.dumps(value)
    adjust = _read(given)
    if adjust is None or not isinstance(config, dict):
        return
    assert read_adjust(adjust) == adjust, "reading again changes it"
    wanted, changed = copy.deepcopy(adjust), copy.deepcopy(config)
    try:
        apply(changed, adjust)
    except DecodeError as error:
        _check_error(error)
        return
    gojson.dumps(changed)
    assert adjust == wanted, "applying changes the adjust"
    assert gojson.dumps(value) == before, "the input is changed"
    again = copy.deepcopy(changed)
    apply(again, adjust)
    assert again.get("mounts") == changed.get("mounts")
    assert not adjust.get("env") or again["process"]["env"] == changed["process"]["env"]


def _read(given: Any) -> dict[str, Any] | None:
    try:
        adjust = read_adjust(given)
    except DecodeError as error:
        _check_error(error)
        return None
    assert given is None or _VALIDATOR.is_valid(given), "the schema refuses it"
    assert ADJUST.accepts(adjust)
    return adjust


def _check_error(error: DecodeError) -> None:
    assert str(error).isprintable(), "an error with control characters"
    assert len(str(error)) < 800, "an error carries the document"


_CONFIG = (
    b'{"process":{"args":["sh"],"env":["A=0","B=0"],"rlimits":[{"type":"RLIMIT_CORE","hard":0,"soft":0}]},"mounts":['
    b'{"destination":"/proc"},{"destination":"/data/"}],"hooks":{"prestart":[]},"linux":{"devices":[{"path":"/dev/a"}],'
    b'"namespaces":[{"type":"pid"}],"resources":{"memory":{"limit":1,"swap":1},"devices":[]},"sysctl":{"a":"0"}}}'
)
_RESOURCES = (
    b'{"memory":{"limit":2},"cpu":{"shares":2,"cpus":"0"},"unified":{"memory.high":"1"},"hugepageLimits":'
    b'[{"pageSize":"2MB","limit":1}],"devices":[{"allow":true,"type":"c","access":"rw"}]}'
)
SEEDS = (
    b'[{"env":{"A":"1","B":null},"args":["","a"],"annotations":{"-a":null}},' + _CONFIG + b"]",
    b'[{"mounts":{"/data":{"type":"bind","source":"/x","options":["rslave"]},"-/proc":null}},'
    + _CONFIG
    + b"]",
    b'[{"hooks":{"prestart":[{"path":"/a","timeout":1}]},"rlimits":[{"type":"RLIMIT_CORE","hard":1,"soft":0}]},'
    + _CONFIG
    + b"]",
    b'[{"linux":{"devices":[{"path":"/dev/a","remove":true},{"path":"/dev/b","type":"c","major":1,"minor":2}],'
    b'"sysctl":{"a":null},"namespaces":[{"type":"pid","remove":true}],"intelRdt":{"remove":true,"closID":"a"},'
    b'"netDevices":{"a":{"name":"b"}},"oomScoreAdj":5,"resources":'
    + _RESOURCES
    + b"}},"
    + _CONFIG
    + b"]",
    b'[{"rlimits":[{"type":"RLIMIT_CORE","hard":1,"soft":0}]},{"process":{"rlimits":[{"type":[]}]}}]',
    b'[{"env":{"A":"1"}},{"process":[]}]',
    b'[{"mounts":{"/a":{}}},{"mounts":[1]}]',
    b"null",
    b'{"args":["","","a"]}',
    b'{"mounts":{"/a/":{}}}',
    b'{"linux":{"oomScoreAdj":1.0}}',
    b'{"env":{"A=B":"1"}}',
)
