"""What is wrong in ``adjust`` and ``updates``, with the place and what would be right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from nri.adjust.reading import read_adjust, read_updates
from nri.types import DecodeError
from tests.unit.adjust.documents import ADJUST, RESOURCES, UPDATES
from tests.unit.types.mutations import mutated

DEVICE = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3}
WRONG: list[tuple[Any, str, str]] = [
    ([], "adjust", "found an array, expected an object"),
    (
        {"en": {}},
        "adjust",
        (
            "found the key 'en', expected one of annotations, env, args, mounts, hooks, rlimits, cdiDevices, "
            "scheduler, linux"
        ),
    ),
    ({"annotations": {"a": 1}}, "adjust.annotations.a", "found the number 1, expected a string without NUL"),
    ({"annotations": {"": "1"}}, "adjust.annotations", "found the key '', expected a string that is not empty"),
    (
        {"annotations": {"-a": "1"}},
        "adjust.annotations.-a",
        "found the string '1', expected null: a key that begins with '-' removes",
    ),
    ({"env": ["A=1"]}, "adjust.env", "found an array, expected an object"),
    ({"env": {"A=B": "1"}}, "adjust.env", "found the key 'A=B', expected a name without '='"),
    ({"env": {"A\n": "\x00"}}, "adjust.env.A\\n", "found the string '\\x00', expected a string without NUL"),
    ({"args": "sh"}, "adjust.args", "found the string 'sh', expected an array"),
    ({"args": ["", ""]}, "adjust.args[1]", "found the string '' again, expected the command"),
    ({"mounts": {"data": {}}}, "adjust.mounts", "found the key 'data', expected an absolute path without '..'"),
    ({"mounts": {"/data/": {}}}, "adjust.mounts", "found the key '/data/', expected '/data'"),
    ({"mounts": {"-//data": None}}, "adjust.mounts", "found the key '//data', expected '/data'"),
    (
        {"mounts": {"/d\x1b": {"type": "bind"}}},
        "adjust.mounts./d\\x1b.source",
        "found the string '', expected an absolute path without '..' for a bind mount",
    ),
    (
        {"mounts": {"/d": {"source": "../x", "options": ["rbind"]}}},
        "adjust.mounts./d.source",
        "found the string '../x', expected an absolute path without '..' for a bind mount",
    ),
    (
        {"mounts": {"/d": {"destination": "/e"}}},
        "adjust.mounts./d",
        "found the key 'destination', expected one of type, source, options",
    ),
    (
        {"hooks": {"prestart": [{}]}},
        "adjust.hooks.prestart[0].path",
        "missing, expected an absolute path without '..'",
    ),
    (
        {"hooks": {"prestart": [{"path": "/a", "timeout": 0}]}},
        "adjust.hooks.prestart[0].timeout",
        "found the number 0, expected an integer of seconds, at least 1",
    ),
    (
        {"rlimits": [{"type": "NOFILE", "hard": 1, "soft": 1}]},
        "adjust.rlimits[0].type",
        "found the string 'NOFILE', expected a name such as RLIMIT_NOFILE",
    ),
    (
        {"rlimits": [{"type": "RLIMIT_CORE", "hard": 1, "soft": 1}, {"type": "RLIMIT_CORE", "hard": 1, "soft": 1}]},
        "adjust.rlimits[1].type",
        "found the string 'RLIMIT_CORE' again, expected it once",
    ),
    (
        {"rlimits": [{"type": "RLIMIT_CORE", "hard": -1, "soft": 1}]},
        "adjust.rlimits[0].hard",
        "found the number -1, expected an integer from 0 to 18446744073709551615",
    ),
    (
        {"cdiDevices": ["gpu0"]},
        "adjust.cdiDevices[0]",
        "found the string 'gpu0', expected a device's full name, VENDOR/CLASS=DEVICE",
    ),
    (
        {"cdiDevices": ["a.b/c=d", "a.b/c=d"]},
        "adjust.cdiDevices[1]",
        "found the string 'a.b/c=d' again, expected it once",
    ),
    (
        {"scheduler": {"nice": 1}},
        "adjust.scheduler.policy",
        (
            "missing, expected one of SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_ISO, SCHED_IDLE, "
            "SCHED_DEADLINE"
        ),
    ),
    (
        {"scheduler": {"policy": "SCHED_RR", "nice": 20}},
        "adjust.scheduler.nice",
        "found the number 20, expected an integer from -20 to 19",
    ),
    (
        {"linux": {"devices": [{"path": "/dev/x"}]}},
        "adjust.linux.devices[0].type",
        "missing, expected it for a device that is not removed",
    ),
    (
        {"linux": {"devices": [{"path": "/dev/x", "type": "b", "major": 1}]}},
        "adjust.linux.devices[0].minor",
        "missing, expected it for a device that is not removed",
    ),
    (
        {"linux": {"devices": [{"path": "/dev//x", "type": "c", "major": 1, "minor": 3}]}},
        "adjust.linux.devices[0].path",
        "found the string '/dev//x', expected '/dev/x'",
    ),
    (
        {
            "linux": {
                "devices": [
                    {"path": "/dev/x", "type": "c", "major": 1, "minor": 3},
                    {"path": "/dev/x", "type": "c", "major": 1, "minor": 3},
                ]
            }
        },
        "adjust.linux.devices[1].path",
        "found the string '/dev/x' again, expected it once",
    ),
    (
        {"linux": {"devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "access": "r"}]}},
        "adjust.linux.devices[0]",
        "found the key 'access', expected one of path, type, major, minor, fileMode, uid, gid, remove",
    ),
    (
        {"additionalGids": [1]},
        "adjust",
        (
            "found the key 'additionalGids', expected one of annotations, env, args, mounts, hooks, rlimits, "
            "cdiDevices, scheduler, linux"
        ),
    ),
    (
        {"linux": {"oomScoreAdj": 1001}},
        "adjust.linux.oomScoreAdj",
        "found the number 1001, expected an integer from -1000 to 1000",
    ),
    ({"linux": {"oomScoreAdj": 1.0}}, "adjust.linux.oomScoreAdj", "found the number 1.0, expected an integer"),
    (
        {"linux": {"cgroupsPath": ""}},
        "adjust.linux.cgroupsPath",
        "found the string '', expected a path, or SLICE:PREFIX:NAME",
    ),
    (
        {"linux": {"namespaces": [{"type": "net"}]}},
        "adjust.linux.namespaces[0].type",
        "found the string 'net', expected one of pid, network, mount, ipc, uts, user, cgroup, time",
    ),
    (
        {"linux": {"namespaces": [{"type": "pid", "remove": True}, {"type": "pid"}]}},
        "adjust.linux.namespaces[1].type",
        "found the string 'pid' again, expected it once",
    ),
    (
        {"linux": {"resources": {"cpu": {"shares": True}}}},
        "adjust.linux.resources.cpu.shares",
        "found the boolean true, expected an integer",
    ),
    (
        {"linux": {"resources": {"unified": {"../x": "1"}}}},
        "adjust.linux.resources.unified",
        "found the key '../x', expected the name of a file in the cgroup's directory",
    ),
    (
        {"linux": {"resources": {"hugepageLimits": [{"pageSize": "2M", "limit": 1}]}}},
        "adjust.linux.resources.hugepageLimits[0].pageSize",
        "found the string '2M', expected a size such as 2MB or 1GB",
    ),
    (
        {
            "linux": {
                "resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "2MB", "limit": 1}]}
            }
        },
        "adjust.linux.resources.hugepageLimits[1].pageSize",
        "found the string '2MB' again, expected it once",
    ),
    (
        {"linux": {"resources": {"devices": [{"allow": True, "access": "rx"}]}}},
        "adjust.linux.resources.devices[0].access",
        "found the string 'rx', expected letters out of r (read), w (write), m (mknod)",
    ),
]


@pytest.mark.parametrize(("document", "place", "wrong"), WRONG, ids=[place for _, place, _ in WRONG])
def test_a_wrong_adjust_is_refused_with_its_place(document: Any, place: str, wrong: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_adjust(document)
    assert str(caught.value) == f"{place}: {wrong}"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "updates: found null, expected an array of updates"),
        ({}, "updates: found an object, expected an array of updates"),
        ([{"resources": {}}], "updates[0].id: missing, expected a container's id"),
        ([{"id": "a"}], "updates[0].resources: missing, expected an object"),
        ([{"id": "", "resources": {}}], "updates[0].id: found the string '', expected a container's id"),
        (
            [{"id": "a", "resources": {"cpu": 1}}],
            "updates[0].resources.cpu: found the number 1, expected an object",
        ),
        (
            [{"id": "a", "resources": {"hugepageLimits": [{"pageSize": "1GB", "limit": 1}] * 2}}],
            "updates[0].resources.hugepageLimits[1].pageSize: found the string '1GB' again, expected it once",
        ),
    ],
)
def test_wrong_updates_are_refused_with_their_place(document: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_updates(document)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("document", "read"),
    [
        (None, {}),
        ({}, {}),
        ({"env": None, "linux": None}, {}),
        ({"args": []}, {}),
        ({"env": {"A": None}}, {"env": {"A": None}}),
        ({"linux": {"resources": {"cpu": {"shares": None}}}}, {"linux": {"resources": {"cpu": {}}}}),
        ({"mounts": {"/a": {"options": None}, "/b": None}}, {"mounts": {"/a": {}, "/b": None}}),
        (
            {"linux": {"devices": [{"path": "/dev/x", "remove": True}, DEVICE | {"uid": None}]}},
            {"linux": {"devices": [{"path": "/dev/x", "remove": True}, DEVICE]}},
        ),
        (
            {"linux": {"devices": [{"path": "/p", "type": "p"}]}},
            {"linux": {"devices": [{"path": "/p", "type": "p"}]}},
        ),
    ],
)
def test_a_null_stands_for_a_missing_key_but_removes_an_entry(document: Any, read: Any) -> None:
    assert read_adjust(document) == read


def test_reading_copies() -> None:
    assert read_adjust(ADJUST) is not ADJUST
    assert read_updates(UPDATES)[0]["resources"] is not RESOURCES


@settings(max_examples=500, deadline=None)
@given(mutated([ADJUST]))
def test_any_value_is_read_or_refused_with_a_short_line_and_reading_again_changes_nothing(value: Any) -> None:
    try:
        adjust = read_adjust(value)
    except DecodeError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 500
        return
    assert read_adjust(adjust) == adjust
