"""Adjustments that are applied to a config.json: one, several, put together or one after the other."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nri.adjust import AdjustError
from nri.adjust.apply import apply, apply_resources
from nri.adjust.claims import Claims, name_of
from nri.adjust.fields import ADDED, FIELDS, LIST, MAP, put, walk
from nri.adjust.merging import merge
from nri.adjust.reading import read_adjust
from nri.types import DecodeError, gojson
from tests.unit.adjust.documents import ADJUST
from tests.unit.types.mutations import values

CONFIG: dict[str, Any] = {
    "ociVersion": "1.2.0",
    "annotations": {"kept": "0", "old": "0", "a": "0"},
    "process": {
        "args": ["init"],
        "env": ["KEPT=0", "OLD=0", "A=0", "NOTHING"],
        "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}, {"type": "RLIMIT_NOFILE", "hard": 1, "soft": 1}],
        "user": {"uid": 0, "gid": 0, "additionalGids": [7]},
        "oomScoreAdj": 0,
    },
    "hooks": {"prestart": [{"path": "/bin/first"}]},
    "mounts": [
        {"destination": "/proc", "type": "proc"},
        {"destination": "/data/", "type": "bind", "source": "/old"},
        {"destination": "/old", "type": "tmpfs"},
        {"destination": "/dev/shm", "type": "tmpfs"},
    ],
    "linux": {
        "cgroupsPath": "/old",
        "sysctl": {"kept": "0", "kernel.shm_rmid_forced": "0"},
        "devices": [{"path": "/dev/old", "type": "c", "major": 1, "minor": 1}, {"path": "/dev/kept", "type": "p"}],
        "namespaces": [{"type": "user"}, {"type": "network"}, {"type": "pid"}],
        "netDevices": {"eth3": {}, "kept": {"name": "x"}},
        "intelRdt": {"closID": "old"},
        "rootfsPropagation": "rprivate",
        "resources": {
            "memory": {"limit": 5},
            "cpu": {"shares": 2, "cpus": "7"},
            "unified": {"memory.high": "0", "kept": "0"},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 5}, {"pageSize": "64KB", "limit": 6}],
            "devices": [{"allow": False, "access": "rwm"}],
        },
    },
}


def applied(config: dict[str, Any], *documents: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(config)
    for document in documents:
        apply(changed, document)
    return changed


def merged(*documents: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for document in documents:
        merge(whole, copy.deepcopy(document))
    return whole


def at(config: dict[str, Any], path: str) -> Any:
    value: Any = config
    for key in path.split("."):
        value = value.get(key, "missing") if isinstance(value, dict) else "missing"
    return value


Case = tuple[list[dict[str, Any]], str, Any]

CASES: list[Case] = [
    ([{"annotations": {"a": "1", "new": "2", "old": None}}], "annotations", {"kept": "0", "a": "1", "new": "2"}),
    ([{"annotations": {"-old": None, "-no": None}}], "annotations", {"kept": "0", "a": "0"}),
    ([{"env": {"A": "1", "OLD": None, "NEW": "x=y"}}], "process.env", ["KEPT=0", "A=1", "NOTHING", "NEW=x=y"]),
    ([{"env": {"NOTHING": ""}}], "process.env", ["KEPT=0", "OLD=0", "A=0", "NOTHING="]),
    ([{"env": {"A": "1"}}, {"env": {"-A": None, "A": "2"}}], "process.env", ["KEPT=0", "OLD=0", "A=2", "NOTHING"]),
    ([{"env": {"N": "1"}}, {"env": {"N": None}}], "process.env", ["KEPT=0", "OLD=0", "A=0", "NOTHING"]),
    ([{"env": {"A": None}}, {"env": {"A": "2"}}], "process.env", ["KEPT=0", "OLD=0", "A=2", "NOTHING"]),
    ([{"args": ["sh"]}], "process.args", ["sh"]),
    ([{"args": ["", "sh"]}], "process.args", ["sh"]),
    ([{"args": [""]}], "process.args", ["init"]),
    ([{"args": ["a"]}, {"args": ["", "b"]}], "process.args", ["b"]),
    ([{"args": ["a"]}, {"args": [""]}], "process.args", ["init"]),
    (
        [{"hooks": {"prestart": [{"path": "/a"}]}}, {"hooks": {"prestart": [{"path": "/b"}]}}],
        "hooks.prestart",
        [{"path": "/bin/first"}, {"path": "/a"}, {"path": "/b"}],
    ),
    ([{"hooks": {"poststop": [{"path": "/a"}]}}], "hooks.poststop", [{"path": "/a"}]),
    (
        [
            {
                "rlimits": [
                    {"type": "RLIMIT_NOFILE", "hard": 9, "soft": 9},
                    {"type": "RLIMIT_NPROC", "hard": 1, "soft": 1},
                ]
            }
        ],
        "process.rlimits",
        [
            {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            {"type": "RLIMIT_NOFILE", "hard": 9, "soft": 9},
            {"type": "RLIMIT_NPROC", "hard": 1, "soft": 1},
        ],
    ),
    ([{"scheduler": {"policy": "SCHED_RR"}}], "process.scheduler", {"policy": "SCHED_RR"}),
    ([{"linux": {"oomScoreAdj": -5}}], "process.oomScoreAdj", -5),
    ([{"linux": {"ioPriority": {"class": "IOPRIO_CLASS_BE"}}}], "process.ioPriority", {"class": "IOPRIO_CLASS_BE"}),
    ([{"linux": {"cgroupsPath": "/new"}}], "linux.cgroupsPath", "/new"),
    ([{"linux": {"seccomp": {"defaultAction": "A"}}}], "linux.seccomp", {"defaultAction": "A"}),
    ([{"linux": {"memoryPolicy": {"mode": "MPOL_BIND"}}}], "linux.memoryPolicy", {"mode": "MPOL_BIND"}),
    (
        [{"linux": {"sysctl": {"a": "1", "kernel.shm_rmid_forced": None}}}],
        "linux.sysctl",
        {"kept": "0", "a": "1"},
    ),
    ([{"linux": {"netDevices": {"eth3": None, "a": {}}}}], "linux.netDevices", {"kept": {"name": "x"}, "a": {}}),
    (
        [{"linux": {"namespaces": [{"type": "user", "remove": True}, {"type": "network", "path": "/x"}]}}],
        "linux.namespaces",
        [{"type": "pid"}, {"type": "network", "path": "/x"}],
    ),
    (
        [{"linux": {"devices": [{"path": "/dev/old", "remove": True}]}}],
        "linux.devices",
        [{"path": "/dev/kept", "type": "p"}],
    ),
    (
        [{"linux": {"devices": [{"path": "/dev/old", "type": "b", "major": 8, "minor": 0}]}}],
        "linux.devices",
        [{"path": "/dev/kept", "type": "p"}, {"path": "/dev/old", "type": "b", "major": 8, "minor": 0}],
    ),
    (
        [
            {
                "linux": {
                    "devices": [
                        {"path": "/dev/u", "type": "u", "major": 8, "minor": 0},
                        {"path": "/dev/p", "type": "p"},
                    ],
                    "resources": {"devices": [{"allow": False, "type": "c", "major": 8, "minor": 0, "access": "w"}]},
                }
            }
        ],
        "linux.resources.devices",
        [
            {"allow": False, "access": "rwm"},
            {"allow": True, "type": "c", "major": 8, "minor": 0, "access": "rwm"},
            {"allow": False, "type": "c", "major": 8, "minor": 0, "access": "w"},
        ],
    ),
    (
        [
            {"linux": {"devices": [{"path": "/dev/x", "type": "p"}]}},
            {"linux": {"devices": [{"path": "/dev/x", "remove": True}]}},
        ],
        "linux.devices",
        CONFIG["linux"]["devices"],
    ),
    ([{"linux": {"intelRdt": {"schemata": ["a"]}}}], "linux.intelRdt", {"closID": "old", "schemata": ["a"]}),
    ([{"linux": {"intelRdt": {"remove": True}}}], "linux.intelRdt", "missing"),
    ([{"linux": {"intelRdt": {"remove": True, "schemata": ["a"]}}}], "linux.intelRdt", {"schemata": ["a"]}),
    (
        [{"linux": {"intelRdt": {"closID": "a"}}}, {"linux": {"intelRdt": {"remove": True, "schemata": ["a"]}}}],
        "linux.intelRdt",
        {"schemata": ["a"]},
    ),
    (
        [{"linux": {"intelRdt": {"remove": True}}}, {"linux": {"intelRdt": {"remove": False, "closID": "b"}}}],
        "linux.intelRdt",
        {"closID": "b"},
    ),
    ([{"linux": {"resources": {"memory": {"limit": 9}}}}], "linux.resources.memory", {"limit": 9}),
    (
        [{"linux": {"resources": {"memory": {"limit": 9, "swap": 10}}}}],
        "linux.resources.memory",
        {"limit": 9, "swap": 10},
    ),
    (
        [{"linux": {"resources": {"cpu": {"shares": 9}}}}, {"linux": {"resources": {"cpu": {"mems": "0"}}}}],
        "linux.resources.cpu",
        {"shares": 9, "cpus": "7", "mems": "0"},
    ),
    ([{"linux": {"resources": {"pids": {"limit": 9}}}}], "linux.resources.pids", {"limit": 9}),
    (
        [
            {"linux": {"resources": {"unified": {"memory.high": "1", "-x": "2"}}}},
            {"linux": {"resources": {"unified": {"x": "3"}}}},
        ],
        "linux.resources.unified",
        {"memory.high": "1", "kept": "0", "-x": "2", "x": "3"},
    ),
    (
        [{"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 9}]}}}],
        "linux.resources.hugepageLimits",
        [{"pageSize": "64KB", "limit": 6}, {"pageSize": "2MB", "limit": 9}],
    ),
    ([{"linux": {"resources": {"blockIO": {"weight": 10}}}}], "linux.resources.blockIO", {"weight": 10}),
    ([{"linux": {"resources": {"network": {"classID": 1}}}}], "linux.resources.network", {"classID": 1}),
    (
        [{"linux": {"resources": {"rdma": {"a": {"hcaHandles": 1}}}}}],
        "linux.resources.rdma",
        {"a": {"hcaHandles": 1}},
    ),
]


@pytest.mark.parametrize(
    ("documents", "path", "expected"), CASES, ids=lambda case: case if isinstance(case, str) else ""
)
def test_a_field_is_set_replaced_and_removed(documents: list[dict[str, Any]], path: str, expected: Any) -> None:
    documents = [read_adjust(document) for document in documents]
    assert at(applied(CONFIG, merged(*documents)), path) == expected
    bare = applied({}, merged(*documents))
    assert gojson.dumps(bare)
    assert applied({}, {}) == {}


SECTIONS = (("linux", "resources", "cpu"), ("linux", "resources", "memory"))


def test_the_cases_have_every_field_that_can_be_applied() -> None:
    tried = {field.name for documents, _, _ in CASES for document in documents for field, _ in walk(document)}
    siblings = {field.name for field in FIELDS if field.name.rpartition(".")[0] in ("hooks", "linux.intelRdt")}
    siblings |= {field.name for field in FIELDS if field.path[:3] in SECTIONS}
    others = {"cdiDevices", "mounts", "linux.resources.blockioClass", "linux.resources.rdtClass"}
    assert tried | siblings | others == {field.name for field in FIELDS}


# Mounts


def destinations(*documents: dict[str, Any], config: dict[str, Any] = CONFIG) -> list[str]:
    return [mount["destination"] for mount in applied(config, merged(*documents))["mounts"]]


def test_mounts_are_ordered_by_the_depth_of_their_destinations() -> None:
    added: dict[str, Any] = {"mounts": {"/a/b/c": {}, "/a": {}, "/": {}, "/old": None}}
    assert destinations(added) == ["/", "/proc", "/data/", "/a", "/dev/shm", "/a/b/c"]
    assert destinations({"mounts": {"-/proc": None}}) == ["/data/", "/old", "/dev/shm"]


@pytest.mark.parametrize("spelling", ["/data/", "//data", "/x/../data", "/./data"])
def test_a_mount_replaces_the_one_at_its_destination_however_that_is_spelt(spelling: str) -> None:
    config = {"mounts": [{"destination": spelling, "source": "/old"}]}
    document = {"mounts": {"/data": {"type": "bind", "source": "/new"}}}
    assert applied(config, document)["mounts"] == [{"destination": "/data", "type": "bind", "source": "/new"}]
    assert applied(config, {"mounts": {"/data": None}})["mounts"] == []


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        (["rbind"], "private", "private"),
        (["rshared"], "private", "rshared"),
        (["rslave"], "private", "rslave"),
        (["rslave"], "rshared", "rshared"),
        (["rslave"], None, "rslave"),
        (["rprivate"], None, None),
    ],
)
def test_a_shared_or_slave_mount_changes_the_propagation_of_the_root(options: Any, before: Any, after: Any) -> None:
    config: dict[str, Any] = {"linux": {"rootfsPropagation": before}} if before else {}
    changed = applied(config, {"mounts": {"/a": {"source": "/a", "options": options}}})
    assert changed.get("linux", {}).get("rootfsPropagation") == after
    assert ("linux" in changed) == (after is not None)


# Resources, CDI


@pytest.mark.parametrize(
    ("memory", "wanted", "swap"),
    [
        ({"limit": 1, "swap": 2}, {"limit": 9}, 9),
        ({"limit": 1, "swap": -1}, {"limit": 9}, 9),
        ({"limit": 1}, {"limit": 9}, None),
        ({"limit": 1, "swap": 2}, {"limit": 9, "swap": 8}, 8),
        ({"limit": 1, "swap": 2}, {"reservation": 1}, 2),
    ],
)
def test_a_limit_of_memory_is_also_that_of_swap(memory: Any, wanted: Any, swap: Any) -> None:
    resources = {"memory": memory}
    apply_resources(resources, {"memory": wanted})
    assert resources["memory"].get("swap") == swap


def test_what_cdi_devices_alone_have_is_applied() -> None:
    device = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "access": "r"}
    changed = applied(CONFIG, {"additionalGids": [8, 7], "linux": {"devices": [device]}})
    assert changed["process"]["user"]["additionalGids"] == [7, 8]
    assert changed["linux"]["devices"][-1] == {"path": "/dev/x", "type": "c", "major": 1, "minor": 3}
    assert changed["linux"]["resources"]["devices"][-1]["access"] == "r"


# Any configuration


MALFORMED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"annotations": []}, {"annotations": {"a": "1"}}, "annotations: found an array, expected an object"),
    ({"process": 1}, {"env": {"A": "1"}}, "process: found the number 1, expected an object"),
    ({"process": {"env": {}}}, {"env": {"A": "1"}}, "process.env: found an object, expected an array"),
    ({"process": []}, {"args": ["a"]}, "process: found an array, expected an object"),
    (
        {"process": {"rlimits": 1}},
        {"rlimits": ADJUST["rlimits"]},
        "process.rlimits: found the number 1, expected an array",
    ),
    ({"hooks": []}, {"hooks": {"prestart": []}}, "hooks: found an array, expected an object"),
    (
        {"hooks": {"prestart": "a"}},
        {"hooks": {"prestart": []}},
        "hooks.prestart: found the string 'a', expected an array",
    ),
    ({"mounts": {}}, {"mounts": {"/a": None}}, "mounts: found an object, expected an array"),
    ({"mounts": [1]}, {"mounts": {"/a": None}}, "mounts: an element: found the number 1, expected an object"),
    ({"linux": []}, {"linux": {"oomScoreAdj": 1}}, "linux: found an array, expected an object"),
    ({"linux": {"devices": 1}}, {"linux": {"devices": []}}, "linux.devices: found the number 1, expected an array"),
    (
        {"linux": {"resources": 1}},
        {"linux": {"resources": {}}},
        "linux.resources: found the number 1, expected an object",
    ),
    (
        {"linux": {"resources": {"cpu": []}}},
        {"linux": {"resources": {"cpu": {"shares": 1}}}},
        "linux.resources.cpu: found an array, expected an object",
    ),
    (
        {"linux": {"resources": {"unified": 1}}},
        {"linux": {"resources": {"unified": {}}}},
        "linux.resources.unified: found the number 1, expected an object",
    ),
    ({"linux": {"sysctl": []}}, {"linux": {"sysctl": {}}}, "linux.sysctl: found an array, expected an object"),
    ({"linux": {"intelRdt": []}}, {"linux": {"intelRdt": {}}}, "linux.intelRdt: found an array, expected an object"),
    ({"process": {"user": 1}}, {"additionalGids": [1]}, "process.user: found the number 1, expected an object"),
]


@pytest.mark.parametrize(("config", "document", "message"), MALFORMED, ids=[message for _, _, message in MALFORMED])
def test_a_malformed_configuration_is_an_error_with_its_place(config: Any, document: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        apply(config, document)
    assert str(caught.value) == message


def parents(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[place for key, inner in items for place in parents(inner, (*path, key))]]


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from([place for place in parents(CONFIG) if place]), values)
def test_any_configuration_is_changed_or_refused_and_the_adjust_stays(place: tuple[Any, ...], value: Any) -> None:
    config: Any = copy.deepcopy(CONFIG)
    around = config
    for key in place[:-1]:
        around = around[key]
    around[place[-1]] = value
    adjust = copy.deepcopy(ADJUST)
    try:
        apply(config, adjust)
    except DecodeError as error:
        assert str(error).isprintable()
    else:
        gojson.dumps(config)
    assert adjust == ADJUST


# Two plugins


def shared(random: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two documents with parts of the full one: each thing is in one of them, or in none."""
    parts: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for field, value in walk(copy.deepcopy(ADJUST)):
        if field.kind == MAP:
            owners = {key.removeprefix("-"): random.randrange(3) for key in value}
            pieces: list[Any] = [
                {key: item for key, item in value.items() if owners[key.removeprefix("-")] == which}
                for which in (0, 1)
            ]
        elif field.kind == LIST:
            owners = {name_of(item, field): random.randrange(3) for item in value}
            pieces = [[item for item in value if owners[name_of(item, field)] == which] for which in (0, 1)]
        elif field.kind == ADDED:
            pieces = [random.sample(value, random.randrange(len(value) + 1)) for _ in (0, 1)]
        else:
            owner = random.randrange(3)
            pieces = [value if owner == which else None for which in (0, 1)]
        for part, piece in zip(parts, pieces, strict=True):
            if piece:
                put(part, field, piece)
    return parts


def comparable(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without the order of device rules: merging puts those of devices first."""
    rules = config.get("linux", {}).get("resources", {}).get("devices", [])
    rules.sort(key=json.dumps)
    return config


@settings(max_examples=500, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_merged_documents_do_what_they_do_one_after_the_other(random: Any, is_bare: bool) -> None:
    first, second = shared(random)
    claims = Claims()
    try:
        claims.claim(read_adjust(first), "a", "adjust")
        claims.claim(read_adjust(second), "b", "adjust")
    except AdjustError:
        assume(False)
    # A limit overwrites the container's swap, but not that of a plugin, which only a merged document tells.
    memory = "linux.resources.memory"
    assume(at(first, f"{memory}.swap") == "missing" or at(second, f"{memory}.limit") == "missing")
    config: dict[str, Any] = {} if is_bare else CONFIG
    whole = merged(first, second)
    assert read_adjust(whole) == whole
    assert comparable(applied(config, whole)) == comparable(applied(config, first, second))


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_merging_with_nothing_changes_nothing(random: Any) -> None:
    first, _ = shared(random)
    once = merged(first)
    assert merged(first, {}) == merged({}, first) == merged(once) == once
