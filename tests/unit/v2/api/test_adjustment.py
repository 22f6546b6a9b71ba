"""Builders of adjustments and updates: the messages that they make, and what NRI makes of these messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation import merge
from nri.adaptation.fields import FIELDS, RESOURCES, set_fields
from nri.v2 import api
from nri.v2.api.convert import HOOK_KEYS

Build = Callable[[api.Adjustment], api.Adjustment]


def wrapped(**values: Any) -> dict[str, Any]:
    """Return values as the JSON of Optional... messages."""
    return {key: {"value": value} for key, value in values.items()}


def env(key: str, value: str = "") -> dict[str, str]:
    return {"key": key, "value": value}


RESOURCE_CALLS: list[tuple[Callable[[Any], Any], dict[str, Any]]] = [
    (
        lambda it: it.set_memory(limit=1, reservation=0, swap=-1, kernel=4, kernel_tcp=5),
        {"memory": wrapped(limit="1", reservation="0", swap="-1", kernel="4", kernel_tcp="5")},
    ),
    (
        lambda it: it.set_memory(swappiness=0, disable_oom_killer=False, use_hierarchy=True),
        {"memory": wrapped(swappiness="0", disable_oom_killer=False, use_hierarchy=True)},
    ),
    (
        lambda it: it.set_cpu(shares=2, quota=-1, period=100, realtime_runtime=3, realtime_period=4, cpus="0-1"),
        {
            "cpu": wrapped(shares="2", quota="-1", period="100", realtime_runtime="3", realtime_period="4")
            | {"cpus": "0-1"}
        },
    ),
    (lambda it: it.set_cpu(shares=9).set_cpu(shares=8, mems="0"), {"cpu": wrapped(shares="8") | {"mems": "0"}}),
    (lambda it: it.set_pids_limit(0), {"pids": {"limit": "0"}}),
    (
        lambda it: it.set_hugepage_limit("2MB", 1).set_hugepage_limit("1GB", 2).set_hugepage_limit("2MB", 3),
        {"hugepage_limits": [{"page_size": "1GB", "limit": "2"}, {"page_size": "2MB", "limit": "3"}]},
    ),
    (lambda it: it.set_unified("memory.high", "max"), {"unified": {"memory.high": "max"}}),
    (lambda it: it.set_blockio_class(""), wrapped(blockio_class="")),
    (lambda it: it.set_rdt_class("gold"), wrapped(rdt_class="gold")),
]


def with_hooks(it: api.Adjustment) -> api.Adjustment:
    for kind in HOOK_KEYS:
        it.add_hook(kind, f"/bin/{kind}", args=["a"], env=["A=1"], timeout=5).add_hook(kind, "/b")
    return it


def hooks(kind: str) -> list[dict[str, Any]]:
    return [{"path": f"/bin/{kind}", "args": ["a"], "env": ["A=1"], **wrapped(timeout="5")}, {"path": "/b"}]


SECCOMP = api.LinuxSeccomp(default_action="SCMP_ACT_ALLOW")
MOUNT = {"destination": "/a", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]}
DEVICE = {"path": "/dev/a", "type": "c", "major": "1", "minor": "0", **wrapped(file_mode=0o600, uid=0)}
SCHEDULER: dict[str, Any] = {"policy": "SCHED_DEADLINE", "flags": ["SCHED_FLAG_RECLAIM"], "nice": -1, "priority": 4}
TIMES: dict[str, Any] = {"runtime": 1, "deadline": 2, "period": 3}
POLICY: dict[str, Any] = {"mode": "MPOL_BIND", "nodes": "0-1", "flags": ["MPOL_F_STATIC_NODES"]}
LINUX_CALLS: list[tuple[Build, dict[str, Any]]] = [
    (
        lambda it: it.add_device("/dev/a", major=1, minor=0, file_mode=0o600, uid=0).remove_device("/dev/b"),
        {"devices": [DEVICE, {"path": "-/dev/b"}]},
    ),
    (
        lambda it: it.add_device("/dev/a", major=1, minor=0, type="b", gid=0).add_device("/dev/a", major=2, minor=0),
        {"devices": [{"path": "/dev/a", "type": "c", "major": "2"}]},
    ),
    (
        lambda it: it.set_namespace("network", "/proc/1/ns/net").remove_namespace("pid"),
        {"namespaces": [{"type": "network", "path": "/proc/1/ns/net"}, {"type": "-pid"}]},
    ),
    (lambda it: it.set_sysctl("a.b", "1").remove_sysctl("c"), {"sysctl": {"a.b": "1", "-c": ""}}),
    (
        lambda it: it.add_net_device("eth1", "data").remove_net_device("eth2"),
        {"net_devices": {"eth1": {"name": "data"}, "-eth2": {}}},
    ),
    (lambda it: it.set_cgroups_path("/a"), {"cgroups_path": "/a"}),
    (lambda it: it.set_oom_score_adj(0), wrapped(oom_score_adj="0")),
    (
        lambda it: it.set_io_priority("IOPRIO_CLASS_BE", 4),
        {"io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4}},
    ),
    (lambda it: it.set_scheduler(**SCHEDULER, **TIMES), {"scheduler": {**SCHEDULER, **TIMES}}),
    (lambda it: it.set_memory_policy(**POLICY), {"memory_policy": POLICY}),
    (lambda it: it.set_seccomp(SECCOMP), {"seccomp_policy": {"default_action": "SCMP_ACT_ALLOW"}}),
    (
        lambda it: it.set_rdt(clos_id="a", schemata=[], enable_monitoring=False),
        {"rdt": wrapped(clos_id="a", schemata=[], enable_monitoring=False)},
    ),
    (lambda it: it.set_rdt(clos_id="a").remove_rdt(), {"rdt": {"remove": True}}),
    (lambda it: it.remove_rdt().set_rdt(clos_id="a"), {"rdt": {"remove": True, **wrapped(clos_id="a")}}),
    (lambda it: it.set_namespace("pid").remove_namespace("pid"), {"namespaces": [{"type": "-pid"}]}),
    (lambda it: it.remove_namespace("pid").set_namespace("pid"), {"namespaces": [{"type": "pid"}]}),
    (lambda it: it.set_sysctl("a", "1").remove_sysctl("a"), {"sysctl": {"-a": ""}}),
    (lambda it: it.add_net_device("eth1").remove_net_device("eth1"), {"net_devices": {"-eth1": {}}}),
    *[(build, {"resources": expected}) for build, expected in RESOURCE_CALLS],
]
CALLS: list[tuple[Build, dict[str, Any]]] = [
    (lambda it: it.add_annotation("a", "1").remove_annotation("b"), {"annotations": {"a": "1", "-b": ""}}),
    (lambda it: it.add_annotation("a", "1").remove_annotation("a"), {"annotations": {"-a": ""}}),
    (lambda it: it.remove_annotation("a").add_annotation("a", "1"), {"annotations": {"-a": "", "a": "1"}}),
    (lambda it: it.add_env("A", "1").add_env("A", "2").remove_env("B"), {"env": [env("A", "2"), env("-B")]}),
    (lambda it: it.add_env("A", "1").remove_env("A").remove_env("A"), {"env": [env("-A")]}),
    (lambda it: it.remove_env("A").add_env("A", "1").add_env("A", "2"), {"env": [env("-A"), env("A", "2")]}),
    (
        lambda it: it.add_mount("/a", "/srv", options=["rbind", "ro"]).remove_mount("/b"),
        {"mounts": [MOUNT, {"destination": "-/b"}]},
    ),
    (lambda it: it.add_mount("/a", "/b").remove_mount("/a"), {"mounts": [{"destination": "-/a"}]}),
    (lambda it: it.set_args(["sh", "-c", ""]), {"args": ["sh", "-c", ""]}),
    (lambda it: it.set_args(["a"]).replace_args([]), {"args": [""]}),
    (lambda it: it.replace_args(["b"]).set_args(["c"]), {"args": ["c"]}),
    (with_hooks, {"hooks": {kind: hooks(kind) for kind in HOOK_KEYS}}),
    (
        lambda it: it.add_rlimit("A", hard=1, soft=1).add_rlimit("A", hard=2**64 - 1, soft=0),
        {"rlimits": [{"type": "A", "hard": str(2**64 - 1)}]},
    ),
    (lambda it: it.add_cdi_device("a.com/b=c").add_cdi_device("a.com/b=c"), {"CDI_devices": [{"name": "a.com/b=c"}]}),
    *[(build, {"linux": expected}) for build, expected in LINUX_CALLS],
]


@pytest.mark.parametrize(("build", "expected"), CALLS, ids=[str(expected)[:60] for _, expected in CALLS])
def test_calls_set_their_part_of_an_adjustment_in_their_order_and_nothing_else(
    build: Build, expected: dict[str, Any]
) -> None:
    assert build(api.Adjustment()).message == json_format.ParseDict(expected, api.ContainerAdjustment())


def test_update_has_the_same_calls_for_resources() -> None:
    for build, expected in RESOURCE_CALLS:
        made = build(api.Update("app").ignore_failure()).message
        wanted = {"container_id": "app", "ignore_failure": True, "linux": {"resources": expected}}
        assert made == json_format.ParseDict(wanted, api.ContainerUpdate())
    assert not api.Update("app").message.ignore_failure


def test_there_is_a_call_for_every_field_that_a_plugin_can_set() -> None:
    paths = {path for build, _ in CALLS for path, *_ in set_fields(build(api.Adjustment()).message, FIELDS)}
    assert set(FIELDS) - paths == {"linux.resources.devices"}  # device rules come with the devices
    updates = [build(api.Update("app")).message.linux.resources for build, _ in RESOURCE_CALLS]
    assert set(RESOURCES) - {path for each in updates for path, *_ in set_fields(each, RESOURCES)} == {"devices"}


def test_adjustment_can_be_continued() -> None:
    message = api.Adjustment().add_env("A", "1").message
    continued = api.Adjustment(message).remove_env("A")
    assert continued.message is message
    assert [each.key for each in message.env] == ["-A"]


@pytest.mark.parametrize(
    ("kind", "call"),
    [
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
    ],
)
def test_name_that_would_be_a_removal_is_refused(kind: str, call: Callable[[api.Adjustment, str], Any]) -> None:
    for name in ("", "-A"):
        adjustment = api.Adjustment()
        with pytest.raises(ValueError, match=f"^{kind}: found {name!r}, expected a text that is not empty and does"):
            call(adjustment, name)
        assert adjustment.message == api.ContainerAdjustment()


@pytest.mark.parametrize(
    ("build", "message"),
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
    ],
)
def test_value_that_no_message_can_hold_is_refused_with_its_name(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        build()
    assert str(caught.value).startswith(message)


# What NRI makes of the calls

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


def built(kind: str, steps: Steps) -> api.CreateContainerResponse:
    adjustment = api.Adjustment()
    for step, name, value in steps:
        key = f"/{name}" if kind == "mount" else name
        getattr(adjustment, f"{step}_{kind}")(*((key, value) if step == "add" else (key,)))
    return api.CreateContainerResponse(adjust=adjustment.message)


def conflicts(steps: Steps, entries: dict[str, str]) -> bool:
    """Return whether a value for an entry of an earlier plugin comes without a removal."""
    removed: set[str] = set()
    for step, name, _ in steps:
        if step == "remove":
            removed.add(name)
        elif name in entries and name not in removed:
            return True
    return False


@given(st.sampled_from(["env", "mount"]), STEPS, ENTRIES)
def test_nri_makes_of_variables_and_mounts_what_the_calls_say(
    kind: str, steps: Steps, earlier: dict[str, str]
) -> None:
    if conflicts(steps, earlier):
        steps = [("remove", name, "") for name in "ABC"] + steps
    first = built(kind, [("add", name, value) for name, value in earlier.items()])
    merged = merge("CreateContainer", {"id": "app"}, [("10-one", first), ("20-two", built(kind, steps))])
    assert isinstance(merged, api.CreateContainerResponse)
    found = {each.key: each.value for each in merged.adjust.env}
    mounts = [each for each in merged.adjust.mounts if each.destination[0] != "-"]
    assert found | {each.destination[1:]: each.source for each in mounts} == applied(steps, earlier)
