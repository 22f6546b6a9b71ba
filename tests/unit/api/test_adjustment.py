"""Builders of adjustments and updates: the messages that they make, and what NRI makes of these messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from nri import api
from nri.adaptation import merge
from nri.adaptation.fields import FIELDS, RESOURCES, set_fields
from nri.api.convert import HOOK_KEYS

Build = Callable[[api.Adjustment], api.Adjustment]


def env(key: str, value: str = "") -> dict[str, str]:
    return {"key": key, "value": value}


def mount(destination: str) -> dict[str, Any]:
    return {"destination": destination, "type": "", "source": "", "options": []}


RESOURCE_CALLS: list[tuple[Callable[[Any], Any], dict[str, Any]]] = [
    (
        lambda it: it.set_memory(
            limit=1,
            reservation=0,
            swap=-1,
            kernel=4,
            kernel_tcp=5,
            swappiness=0,
            disable_oom_killer=False,
            use_hierarchy=True,
        ),
        {
            "memory": {
                "limit": {"value": "1"},
                "reservation": {"value": "0"},
                "swap": {"value": "-1"},
                "kernel": {"value": "4"},
                "kernel_tcp": {"value": "5"},
                "swappiness": {"value": "0"},
                "disable_oom_killer": {"value": False},
                "use_hierarchy": {"value": True},
            }
        },
    ),
    (
        lambda it: it.set_cpu(
            shares=2, quota=-1, period=100, realtime_runtime=3, realtime_period=4, cpus="0-1", mems="0"
        ),
        {
            "cpu": {
                "shares": {"value": "2"},
                "quota": {"value": "-1"},
                "period": {"value": "100"},
                "realtime_runtime": {"value": "3"},
                "realtime_period": {"value": "4"},
                "cpus": "0-1",
                "mems": "0",
            }
        },
    ),
    (lambda it: it.set_cpu(shares=9).set_cpu(shares=8), {"cpu": {"shares": {"value": "8"}}}),
    (lambda it: it.set_pids_limit(0), {"pids": {"limit": "0"}}),
    (
        lambda it: it.set_hugepage_limit("2MB", 1).set_hugepage_limit("1GB", 2).set_hugepage_limit("2MB", 3),
        {"hugepage_limits": [{"page_size": "1GB", "limit": "2"}, {"page_size": "2MB", "limit": "3"}]},
    ),
    (lambda it: it.set_unified("memory.high", "max"), {"unified": {"memory.high": "max"}}),
    (lambda it: it.set_blockio_class(""), {"blockio_class": {"value": ""}}),
    (lambda it: it.set_rdt_class("gold"), {"rdt_class": {"value": "gold"}}),
]

SECCOMP = api.LinuxSeccomp(default_action="SCMP_ACT_ALLOW")
CALLS: list[tuple[Build, dict[str, Any]]] = [
    (lambda it: it.add_annotation("a", "1").remove_annotation("b"), {"annotations": {"a": "1", "-b": ""}}),
    (lambda it: it.add_env("A", "1").remove_env("B"), {"env": [env("A", "1"), env("-B")]}),
    (
        lambda it: it.add_mount("/a", "/srv", options=["rbind", "ro"]).remove_mount("/b"),
        {
            "mounts": [
                {"destination": "/a", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]},
                mount("-/b"),
            ]
        },
    ),
    (lambda it: it.set_args(["sh", "-c", ""]), {"args": ["sh", "-c", ""]}),
    (lambda it: it.replace_args(["sh"]), {"args": ["", "sh"]}),
    (lambda it: it.replace_args([]), {"args": [""]}),
    *[
        (
            lambda it, kind=kind: it.add_hook(kind, "/bin/a", args=["a"], env=["A=1"], timeout=5).add_hook(
                kind, "/b"
            ),
            {
                "hooks": {
                    kind: [
                        {"path": "/bin/a", "args": ["a"], "env": ["A=1"], "timeout": {"value": "5"}},
                        {"path": "/b", "args": [], "env": []},
                    ]
                }
            },
        )
        for kind in HOOK_KEYS
    ],
    (
        lambda it: it.add_rlimit("RLIMIT_CORE", hard=2**64 - 1, soft=0),
        {"rlimits": [{"type": "RLIMIT_CORE", "hard": str(2**64 - 1), "soft": "0"}]},
    ),
    (lambda it: it.add_cdi_device("a.com/b=c"), {"CDI_devices": [{"name": "a.com/b=c"}]}),
    (
        lambda it: it.add_device("/dev/a", major=1, minor=0, file_mode=0o600, uid=0).remove_device("/dev/b"),
        {
            "linux": {
                "devices": [
                    {
                        "path": "/dev/a",
                        "type": "c",
                        "major": "1",
                        "minor": "0",
                        "file_mode": {"value": 0o600},
                        "uid": {"value": 0},
                    },
                    {"path": "-/dev/b", "type": "", "major": "0", "minor": "0"},
                ]
            }
        },
    ),
    (
        lambda it: it.set_namespace("network", "/proc/1/ns/net").remove_namespace("pid"),
        {"linux": {"namespaces": [{"type": "network", "path": "/proc/1/ns/net"}, {"type": "-pid", "path": ""}]}},
    ),
    (lambda it: it.set_sysctl("a.b", "1").remove_sysctl("c"), {"linux": {"sysctl": {"a.b": "1", "-c": ""}}}),
    (
        lambda it: it.add_net_device("eth1", "data").remove_net_device("eth2"),
        {"linux": {"net_devices": {"eth1": {"name": "data"}, "-eth2": {"name": ""}}}},
    ),
    (lambda it: it.set_cgroups_path("/a"), {"linux": {"cgroups_path": "/a"}}),
    (lambda it: it.set_oom_score_adj(0), {"linux": {"oom_score_adj": {"value": "0"}}}),
    (
        lambda it: it.set_io_priority("IOPRIO_CLASS_BE", 4),
        {"linux": {"io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4}}},
    ),
    (
        lambda it: it.set_scheduler("SCHED_DEADLINE", flags=["SCHED_FLAG_RECLAIM"], runtime=1, deadline=2, period=3),
        {
            "linux": {
                "scheduler": {
                    "policy": "SCHED_DEADLINE",
                    "flags": ["SCHED_FLAG_RECLAIM"],
                    "runtime": "1",
                    "deadline": "2",
                    "period": "3",
                    "nice": 0,
                    "priority": 0,
                }
            }
        },
    ),
    (
        lambda it: it.set_memory_policy("MPOL_BIND", "0-1", ["MPOL_F_STATIC_NODES"]),
        {"linux": {"memory_policy": {"mode": "MPOL_BIND", "nodes": "0-1", "flags": ["MPOL_F_STATIC_NODES"]}}},
    ),
    (lambda it: it.set_seccomp(SECCOMP), {"linux": {"seccomp_policy": json_format.MessageToDict(SECCOMP)}}),
    (
        lambda it: it.set_rdt(clos_id="a", schemata=[], enable_monitoring=False),
        {
            "linux": {
                "rdt": {
                    "clos_id": {"value": "a"},
                    "schemata": {"value": []},
                    "enable_monitoring": {"value": False},
                }
            }
        },
    ),
    (lambda it: it.set_rdt(clos_id="a").remove_rdt(), {"linux": {"rdt": {"remove": True}}}),
    *[(build, {"linux": {"resources": expected}}) for build, expected in RESOURCE_CALLS],
]


@pytest.mark.parametrize(("build", "expected"), CALLS)
def test_a_call_sets_its_part_of_an_adjustment_and_nothing_else(build: Build, expected: dict[str, Any]) -> None:
    made = build(api.Adjustment()).message
    assert made == json_format.ParseDict(expected, api.ContainerAdjustment())


@pytest.mark.parametrize(("build", "expected"), RESOURCE_CALLS)
def test_an_update_has_the_same_calls_for_resources(build: Callable[[Any], Any], expected: dict[str, Any]) -> None:
    made = build(api.Update("app").ignore_failure()).message
    wanted = {"container_id": "app", "ignore_failure": True, "linux": {"resources": expected}}
    assert made == json_format.ParseDict(wanted, api.ContainerUpdate())


def test_there_is_a_call_for_every_field_that_a_plugin_can_set() -> None:
    paths = {path for build, _ in CALLS for path, *_ in set_fields(build(api.Adjustment()).message, FIELDS)}
    assert set(FIELDS) - paths == {"linux.resources.devices"}  # device rules come with the devices
    updated = {path for build, _ in RESOURCE_CALLS for path, *_ in set_fields(resources(build), RESOURCES)}
    assert set(RESOURCES) - updated == {"devices"}


def resources(build: Callable[[Any], Any]) -> api.LinuxResources:
    message: api.ContainerUpdate = build(api.Update("app")).message
    return message.linux.resources


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda it: it.add_env("A", "1").add_env("A", "2"), {"env": [env("A", "2")]}),
        (lambda it: it.add_env("A", "1").remove_env("A"), {"env": [env("-A")]}),
        (lambda it: it.remove_env("A").add_env("A", "1").add_env("A", "2"), {"env": [env("-A"), env("A", "2")]}),
        (lambda it: it.remove_env("A").remove_env("A"), {"env": [env("-A")]}),
        (lambda it: it.add_annotation("a", "1").remove_annotation("a"), {"annotations": {"-a": ""}}),
        (
            lambda it: it.remove_annotation("a").add_annotation("a", "1"),
            {"annotations": {"-a": "", "a": "1"}},
        ),
        (lambda it: it.add_mount("/a", "/b").remove_mount("/a"), {"mounts": [mount("-/a")]}),
        (
            lambda it: it.set_namespace("pid").remove_namespace("pid"),
            {"linux": {"namespaces": [{"type": "-pid"}]}},
        ),
        (
            lambda it: it.remove_namespace("pid").set_namespace("pid"),
            {"linux": {"namespaces": [{"type": "pid"}]}},
        ),
        (lambda it: it.set_args(["a"]).replace_args(["b"]).set_args(["c"]), {"args": ["c"]}),
        (
            lambda it: it.remove_rdt().set_rdt(clos_id="a"),
            {"linux": {"rdt": {"remove": True, "clos_id": {"value": "a"}}}},
        ),
        (
            lambda it: it.add_net_device("eth1").remove_net_device("eth1"),
            {"linux": {"net_devices": {"-eth1": {}}}},
        ),
    ],
)
def test_calls_take_effect_in_their_order(build: Build, expected: dict[str, Any]) -> None:
    assert build(api.Adjustment()).message == json_format.ParseDict(expected, api.ContainerAdjustment())


def test_an_adjustment_can_be_continued() -> None:
    message = api.Adjustment().add_env("A", "1").message
    continued = api.Adjustment(message).remove_env("A")
    assert continued.message is message
    assert [each.key for each in message.env] == ["-A"]


NAMED: list[tuple[str, Callable[[api.Adjustment, str], Any]]] = [
    ("annotation", lambda it, name: it.add_annotation(name, "")),
    ("annotation", lambda it, name: it.remove_annotation(name)),
    ("environment variable", lambda it, name: it.add_env(name, "")),
    ("environment variable", lambda it, name: it.remove_env(name)),
    ("mount", lambda it, name: it.add_mount(name, "/a")),
    ("mount", lambda it, name: it.remove_mount(name)),
    ("resource limit", lambda it, name: it.add_rlimit(name, hard=1, soft=1)),
    ("CDI device", lambda it, name: it.add_cdi_device(name)),
    ("device", lambda it, name: it.add_device(name, major=1, minor=1)),
    ("device", lambda it, name: it.remove_device(name)),
    ("namespace", lambda it, name: it.set_namespace(name)),
    ("namespace", lambda it, name: it.remove_namespace(name)),
    ("sysctl", lambda it, name: it.set_sysctl(name, "")),
    ("sysctl", lambda it, name: it.remove_sysctl(name)),
    ("network device", lambda it, name: it.add_net_device(name)),
    ("network device", lambda it, name: it.remove_net_device(name)),
]


@pytest.mark.parametrize(("what", "call"), NAMED)
@pytest.mark.parametrize("name", ["", "-", "-A"])
def test_a_name_that_would_be_a_removal_is_refused(
    what: str, call: Callable[[api.Adjustment, str], Any], name: str
) -> None:
    adjustment = api.Adjustment()
    with pytest.raises(ValueError, match=f"^{what}: found {name!r}, expected a text that is not empty and does not"):
        call(adjustment, name)
    assert adjustment.message == api.ContainerAdjustment()


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: api.Adjustment().set_args([]), "command line: found [], expected a program and its arguments"),
        (lambda: api.Adjustment().set_args(["", "a"]), "command line: found ['', 'a'], expected"),
        (
            lambda: api.Adjustment().add_hook("start", "/a"),
            "hook: found the kind 'start', expected one of prestart, ",
        ),
        (lambda: api.Update(""), "an update without a container: found an empty id"),
        (lambda: api.Update("a").set_cpu(shares=-1), "shares: found -1: "),
        (lambda: api.Update("a").set_memory(limit=cast(int, "1G")), "limit: found '1G': "),
        (lambda: api.Adjustment().set_oom_score_adj(2**70), f"oom_score_adj: found {2**70}: "),
    ],
)
def test_a_value_that_no_message_can_hold_is_refused_with_its_name(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        build()
    assert str(caught.value).startswith(said)


Steps = list[tuple[str, str, str]]
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from("ABC"), st.sampled_from(["1", "2"])), max_size=6
)
ENTRIES = st.dictionaries(st.sampled_from("ABCD"), st.just("0"))


def applied(steps: Steps, entries: dict[str, str]) -> dict[str, str]:
    """The model: entries with the steps applied in order."""
    left = dict(entries)
    for step, name, value in steps:
        left.pop(name, None)
        if step == "add":
            left[name] = value
    return left


def built(steps: Steps, add: str, remove: str) -> api.CreateContainerResponse:
    adjustment = api.Adjustment()
    for step, name, value in steps:
        if step == "add":
            getattr(adjustment, add)(*((f"/{name}", value) if add == "add_mount" else (name, value)))
        else:
            getattr(adjustment, remove)(f"/{name}" if add == "add_mount" else name)
    return api.CreateContainerResponse(adjust=adjustment.message)


def touched_only_by_values(steps: Steps, entries: dict[str, str]) -> bool:
    """Return whether a value for an entry of an earlier plugin comes without a removal: that is a conflict."""
    removed: set[str] = set()
    for step, name, _ in steps:
        if step == "remove":
            removed.add(name)
        elif name in entries and name not in removed:
            return True
    return False


@given(STEPS, ENTRIES)
def test_what_nri_makes_of_variables_is_what_the_calls_say(steps: Steps, earlier: dict[str, str]) -> None:
    if touched_only_by_values(steps, earlier):
        steps = [("remove", name, "") for name in "ABC"] + steps
    first = built([("add", name, value) for name, value in earlier.items()], "add_env", "remove_env")
    merged = merge(
        "CreateContainer", {"id": "app"}, [("10-one", first), ("20-two", built(steps, "add_env", "remove_env"))]
    )
    assert isinstance(merged, api.CreateContainerResponse)
    assert {each.key: each.value for each in merged.adjust.env} == applied(steps, earlier)


@given(STEPS, ENTRIES)
def test_what_nri_makes_of_mounts_is_what_the_calls_say(steps: Steps, earlier: dict[str, str]) -> None:
    if touched_only_by_values(steps, earlier):
        steps = [("remove", name, "") for name in "ABC"] + steps
    first = built([("add", name, value) for name, value in earlier.items()], "add_mount", "remove_mount")
    second = built(steps, "add_mount", "remove_mount")
    merged = merge("CreateContainer", {"id": "app"}, [("10-one", first), ("20-two", second)])
    assert isinstance(merged, api.CreateContainerResponse)
    left = {each.destination[1:]: each.source for each in merged.adjust.mounts if each.destination[0] != "-"}
    assert left == applied(steps, earlier)
