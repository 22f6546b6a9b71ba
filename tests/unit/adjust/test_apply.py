"""Adjustments that are applied to a config.json: one, several, put together or one after the other."""

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nri.adjust import AdjustError
from nri.adjust.apply import apply, apply_resources
from nri.adjust.document import read_adjust
from nri.adjust.fields import name_of, put, walk
from nri.adjust.merging import ADDED, BY_ENTRIES, COMMAND, MAP, REMOVAL
from nri.types import DecodeError, gojson
from tests.unit.adjust.documents import ADJUST, merged

CONFIG: dict[str, Any] = {
    "ociVersion": "1.2.0",
    "annotations": {"kept": "0", "old": "0", "a": "0"},
    "process": {
        "args": ["init"],
        "env": ["KEPT=0", "OLD=0", "A=0", "NOTHING"],
        "rlimits": [
            {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            {"type": "RLIMIT_NOFILE", "hard": 1, "soft": 1},
        ],
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
        "devices": [
            {"path": "/dev/old", "type": "c", "major": 1, "minor": 1},
            {"path": "/dev/kept", "type": "p"},
        ],
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


def at(config: dict[str, Any], path: str) -> Any:
    value: Any = config
    for key in path.split("."):
        value = value.get(key, "missing") if isinstance(value, dict) else "missing"
    return value


def linux(**keys: Any) -> dict[str, Any]:
    return {"linux": keys}


def resources(**keys: Any) -> dict[str, Any]:
    return {"linux": {"resources": keys}}


def rlimit(type_: str, number: int) -> dict[str, Any]:
    return {"type": type_, "hard": number, "soft": number}


BLOCK = {"path": "/dev/old", "type": "b", "major": 8, "minor": 0}
PIPE = {"path": "/dev/p", "type": "p"}
KEPT = {"path": "/dev/kept", "type": "p"}
RDT = "linux.intelRdt"

CASES: list[tuple[list[dict[str, Any]], str, Any]] = [
    (
        [{"annotations": {"a": "1", "new": "2", "old": None}}],
        "annotations",
        {"kept": "0", "a": "1", "new": "2"},
    ),
    ([{"annotations": {"-old": None, "-no": None}}], "annotations", {"kept": "0", "a": "0"}),
    (
        [{"env": {"A": "1", "OLD": None, "NEW": "x=y"}}],
        "process.env",
        ["KEPT=0", "A=1", "NOTHING", "NEW=x=y"],
    ),
    ([{"env": {"NOTHING": ""}}], "process.env", ["KEPT=0", "OLD=0", "A=0", "NOTHING="]),
    (
        [{"env": {"A": "1"}}, {"env": {"-A": None, "A": "2"}}],
        "process.env",
        ["KEPT=0", "OLD=0", "A=2", "NOTHING"],
    ),
    ([{"args": ["", "sh"]}], "process.args", ["sh"]),
    ([{"args": [""]}], "process.args", ["init"]),
    (
        [{"hooks": {"prestart": [{"path": "/a"}]}}],
        "hooks.prestart",
        [{"path": "/bin/first"}, {"path": "/a"}],
    ),
    (
        [{"rlimits": [rlimit("RLIMIT_NOFILE", 9), rlimit("RLIMIT_NPROC", 1)]}],
        "process.rlimits",
        [rlimit("RLIMIT_CORE", 0), rlimit("RLIMIT_NOFILE", 9), rlimit("RLIMIT_NPROC", 1)],
    ),
    (
        [linux(sysctl={"a": "1", "kernel.shm_rmid_forced": None})],
        "linux.sysctl",
        {"kept": "0", "a": "1"},
    ),
    (
        [linux(netDevices={"eth3": None, "a": {}})],
        "linux.netDevices",
        {"kept": {"name": "x"}, "a": {}},
    ),
    (
        [linux(namespaces=[{"type": "user", "remove": True}, {"type": "network", "path": "/x"}])],
        "linux.namespaces",
        [{"type": "pid"}, {"type": "network", "path": "/x"}],
    ),
    ([linux(devices=[{"path": "/dev/old", "remove": True}])], "linux.devices", [KEPT]),
    ([linux(devices=[BLOCK])], "linux.devices", [KEPT, BLOCK]),
    (
        [linux(devices=[BLOCK])],
        "linux.resources.devices",
        [
            {"allow": False, "access": "rwm"},
            {"allow": True, "type": "b", "major": 8, "minor": 0, "access": "rwm"},
        ],
    ),
    (
        [
            linux(
                devices=[BLOCK | {"type": "u"}, PIPE],
                resources={"devices": [{"allow": False, "type": "c"}]},
            )
        ],
        "linux.resources.devices",
        [
            {"allow": False, "access": "rwm"},
            {"allow": True, "type": "c", "major": 8, "minor": 0, "access": "rw"},
            {"allow": False, "type": "c"},
        ],
    ),
    ([linux(intelRdt={"schemata": ["a"]})], RDT, {"closID": "old", "schemata": ["a"]}),
    ([linux(intelRdt={"remove": True})], RDT, "missing"),
    ([resources(memory={"limit": 9})], "linux.resources.memory", {"limit": 9}),
    (
        [resources(cpu={"shares": 9, "mems": "0"})],
        "linux.resources.cpu",
        {"shares": 9, "cpus": "7", "mems": "0"},
    ),
    (
        [resources(unified={"memory.high": "1", "-x": "2"}), resources(unified={"x": "3"})],
        "linux.resources.unified",
        {"memory.high": "1", "kept": "0", "-x": "2", "x": "3"},
    ),
    (
        [resources(hugepageLimits=[{"pageSize": "2MB", "limit": 9}])],
        "linux.resources.hugepageLimits",
        [{"pageSize": "64KB", "limit": 6}, {"pageSize": "2MB", "limit": 9}],
    ),
]


@pytest.mark.parametrize(("documents", "path", "expected"), CASES)
def test_field_is_set_replaced_and_removed(
    documents: list[dict[str, Any]], path: str, expected: Any
) -> None:
    documents = [read_adjust(document) for document in documents]
    together = merged(*documents, by="a" * len(documents))
    assert at(applied(CONFIG, together), path) == expected
    assert gojson.dumps(applied({}, together))


WHOLE: dict[str, tuple[dict[str, Any], Any]] = {
    "process.args": ({"args": ["sh"]}, ["sh"]),
    "process.scheduler": ({"scheduler": {"policy": "SCHED_RR"}}, {"policy": "SCHED_RR"}),
    "process.oomScoreAdj": (linux(oomScoreAdj=-5), -5),
    "process.ioPriority": (
        linux(ioPriority={"class": "IOPRIO_CLASS_BE"}),
        {"class": "IOPRIO_CLASS_BE"},
    ),
    "hooks.poststop": ({"hooks": {"poststop": [{"path": "/a"}]}}, [{"path": "/a"}]),
    "linux.cgroupsPath": (linux(cgroupsPath="/new"), "/new"),
    "linux.seccomp": (linux(seccomp={"defaultAction": "A"}), {"defaultAction": "A"}),
    "linux.memoryPolicy": (linux(memoryPolicy={"mode": "MPOL_BIND"}), {"mode": "MPOL_BIND"}),
    "linux.resources.pids": (resources(pids={"limit": 9}), {"limit": 9}),
    "linux.resources.blockIO": (resources(blockIO={"weight": 10}), {"weight": 10}),
    "linux.resources.network": (resources(network={"classID": 1}), {"classID": 1}),
    "linux.resources.rdma": (resources(rdma={"a": {"hcaHandles": 1}}), {"a": {"hcaHandles": 1}}),
}


def test_fields_that_are_set_as_a_whole() -> None:
    for config in (CONFIG, {}):
        together = applied(
            config, merged(*[read_adjust(document) for document, _ in WHOLE.values()])
        )
        assert {path: at(together, path) for path in WHOLE} == {
            path: value for path, (_, value) in WHOLE.items()
        }
    assert applied({}, {}) == {}


def test_mounts_are_ordered_by_the_depth_of_their_destinations() -> None:
    def destinations(mounts: dict[str, Any]) -> list[str]:
        return [mount["destination"] for mount in applied(CONFIG, {"mounts": mounts})["mounts"]]

    added: dict[str, Any] = {"/a/b/c": {}, "/a": {}, "/": {}, "/old": None}
    assert destinations(added) == ["/", "/proc", "/data/", "/a", "/dev/shm", "/a/b/c"]
    assert destinations({"-/proc": None}) == ["/data/", "/old", "/dev/shm"]


@pytest.mark.parametrize("spelling", ["/data/", "//data", "/x/../data", "/./data"])
def test_mount_replaces_the_one_at_any_spelling_of_its_path(spelling: str) -> None:
    config = {"mounts": [{"destination": spelling, "source": "/old"}]}
    document = {"mounts": {"/data": {"type": "bind", "source": "/new"}}}
    assert applied(config, document)["mounts"] == [
        {"destination": "/data", "type": "bind", "source": "/new"}
    ]
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
def test_shared_or_slave_mount_changes_the_roots_propagation(
    options: Any, before: Any, after: Any
) -> None:
    config: dict[str, Any] = {"linux": {"rootfsPropagation": before}} if before else {}
    changed = applied(config, {"mounts": {"/a": {"source": "/a", "options": options}}})
    assert changed.get("linux", {}).get("rootfsPropagation") == after
    assert ("linux" in changed) == (after is not None)


@pytest.mark.parametrize(
    ("memory", "wanted", "swap"),
    [
        ({"limit": 1, "swap": -1}, {"limit": 9}, 9),
        ({"limit": 1}, {"limit": 9}, None),
        ({"limit": 1, "swap": 2}, {"limit": 9, "swap": 8}, 8),
        ({"limit": 1, "swap": 2}, {"reservation": 1}, 2),
    ],
)
def test_memory_limit_is_also_the_limit_of_memory_and_swap(
    memory: Any, wanted: Any, swap: Any
) -> None:
    found = {"memory": memory}
    apply_resources(found, {"memory": wanted})
    assert found["memory"].get("swap") == swap


OBJECT, ARRAY = "found an array, expected an object", "found an object, expected an array"
MALFORMED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"annotations": []}, {"annotations": {"a": "1"}}, f"annotations: {OBJECT}"),
    ({"process": {"env": {}}}, {"env": {"A": "1"}}, f"process.env: {ARRAY}"),
    ({"hooks": {"prestart": {}}}, {"hooks": {"prestart": [{}]}}, f"hooks.prestart: {ARRAY}"),
    ({"mounts": [[]]}, {"mounts": {"/a": None}}, f"mounts: an element: {OBJECT}"),
    ({"linux": []}, linux(cgroupsPath="/a"), f"linux: {OBJECT}"),
    (resources(devices={}), linux(devices=[BLOCK]), f"linux.resources.devices: {ARRAY}"),
    (linux(intelRdt=[]), linux(intelRdt={"closID": "a"}), f"linux.intelRdt: {OBJECT}"),
    (resources(cpu=[]), resources(cpu={"shares": 1}), f"linux.resources.cpu: {OBJECT}"),
]


@pytest.mark.parametrize(("config", "document", "message"), MALFORMED)
def test_malformed_configuration_is_an_error_with_its_place(
    config: Any, document: Any, message: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        apply(copy.deepcopy(config), document)
    assert str(caught.value) == message


# Two plugins


def test_no_plugin_can_set_what_is_already_set() -> None:
    for field, value in walk(ADJUST):
        one: dict[str, Any] = {}
        put(one, field, ["sh"] if field.kind == COMMAND else value)
        for by in ("ab", "aa") if field.kind not in (ADDED, REMOVAL) else ():
            with pytest.raises(
                AdjustError,
                match=rf"^adjust\.{field.name}.*: already set by the plugin a; expected one",
            ):
                merged(one, one, by=by)


def test_removal_hands_a_thing_over_to_the_plugin_that_removes() -> None:
    a, removed = {"env": {"A": "1"}}, {"env": {"A": None}}
    assert merged(a, removed, {"env": {"B": "1"}}) == {"env": {"-A": None, "B": "1"}}
    with pytest.raises(
        AdjustError, match=r"^adjust\.env A: already removed by the plugin b; expected one plugin"
    ):
        merged(a, removed, a)
    rdt = linux(intelRdt={"closID": "a"})
    with pytest.raises(
        AdjustError, match=r"^adjust\.linux\.intelRdt\.closID: already removed by the plugin b"
    ):
        merged(rdt, linux(intelRdt={"remove": True}), rdt)
    with pytest.raises(
        AdjustError, match=r"^adjust\.linux\.intelRdt\.closID: already set by the plugin a"
    ):
        merged(rdt, linux(intelRdt={"remove": False, "closID": "b"}))
    with pytest.raises(
        AdjustError, match=r"^adjust\.linux\.namespaces user: already set by the plugin a"
    ):
        merged(
            linux(namespaces=[{"type": "user", "remove": True}]),
            linux(namespaces=[{"type": "user"}]),
        )


def parts(random: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two documents with parts of the full one: each thing is in one of them, or in none."""
    both: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for field, value in walk(copy.deepcopy(ADJUST)):
        if field.kind == MAP:
            owners = {key.removeprefix("-"): random.randrange(3) for key in value}
            pieces: list[Any] = [
                {key: item for key, item in value.items() if owners[key.removeprefix("-")] == which}
                for which in (0, 1)
            ]
        elif field.kind in BY_ENTRIES:
            owners = {name_of(item, field): random.randrange(3) for item in value}
            pieces = [
                [item for item in value if owners[name_of(item, field)] == which]
                for which in (0, 1)
            ]
        elif field.kind == ADDED:
            pieces = [random.sample(value, random.randrange(len(value) + 1)) for _ in (0, 1)]
        else:
            owner = random.randrange(3)
            pieces = [value if owner == which else None for which in (0, 1)]
        for part, piece in zip(both, pieces, strict=True):
            if piece:
                put(part, field, piece)
    return both


def comparable(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without the order of device rules: merging puts those of devices first."""
    rules = config.get("linux", {}).get("resources", {}).get("devices", [])
    rules.sort(key=json.dumps)
    return config


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_merged_documents_do_the_same_as_one_after_the_other(random: Any, is_bare: bool) -> None:
    first, second = parts(random)
    assert merged(first, {}) == merged({}, first) == merged(merged(first)) == merged(first)
    try:
        whole = merged(first, second)
    except AdjustError:
        assume(False)
    # A limit overwrites the container's swap, but not that of a plugin, which only a merged document tells.
    memory = "linux.resources.memory"
    assume(at(first, f"{memory}.swap") == "missing" or at(second, f"{memory}.limit") == "missing")
    config: dict[str, Any] = {} if is_bare else CONFIG
    assert read_adjust(whole) == whole
    assert comparable(applied(config, whole)) == comparable(applied(config, first, second))
