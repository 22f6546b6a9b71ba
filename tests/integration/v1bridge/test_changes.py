"""What plugins ask for in answer to setup, resize and delete is in the answer to the runtime, or the event fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.v1bridge import chains
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.support.host import Host, plugin
from tests.support.node import Node, call
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until


@pytest.fixture
def node(host: Host) -> Node:
    node = Node(host)
    node.runtime("containerd", "2.2.1")  # NRI 0.11
    return node


def asking(
    host: Host, name: str, state: str, *, key: str = "adjust", value: Any, **options: Any
) -> Any:
    """Install a plugin that asks for something in answer to a state."""
    host.install(name)
    return plugin(name, ["put", key, value], states=[state], **options)


def create(node: Node, **changes: Any) -> api.CreateContainerResponse | None:
    return node.bridge.create_container(
        api.CreateContainerRequest(pod=pod(), container=container(pid=0, **changes)), call()
    )


def update(node: Node, **resources: Any) -> api.UpdateContainerResponse | None:
    request = api.UpdateContainerRequest(
        pod=pod(), container=container(), linux_resources=resources
    )
    return node.bridge.update_container(request, call())


def test_the_answer_has_the_changes_of_all_plugins(host: Host, node: Node) -> None:
    host.configure(
        asking(host, "a", "setup", value={"env": {"A": "1"}, "linux": {"oomScoreAdj": 3}}),
        asking(host, "b", "setup", value={"env": {"B": "2", "C": None}}),
    )
    response = create(node)
    assert response is not None
    assert [(each.key, each.value) for each in response.adjust.env] == [
        ("-C", ""),
        ("A", "1"),
        ("B", "2"),
    ]
    assert response.adjust.linux.oom_score_adj.value == 3


def test_without_changes_the_answer_is_empty(host: Host, node: Node) -> None:
    host.configure(node.keeper(states=["setup", "resize"]))
    assert create(node) is None
    assert update(node) == api.UpdateContainerResponse()


def test_plugin_sees_the_changes_of_those_before_it(host: Host, node: Node) -> None:
    host.configure(
        asking(host, "a", "setup", value={"env": {"A": "1"}, "args": ["new"]}),
        node.keeper("b", states=["setup"]),
    )
    create(
        node, env=["A=0", "B=0"], args=["old"], mounts=[{"destination": "/proc", "type": "proc"}]
    )
    (seen,) = node.kept
    assert seen["spec"]["process"] == {"args": ["new"], "env": ["A=1", "B=0"]}
    assert seen["spec"]["mounts"] == [{"destination": "/proc", "type": "proc"}]
    assert seen["extensions"] == {"adjust": 1}


def test_a_resize_shows_the_new_limits_and_can_change_them(host: Host, node: Node) -> None:
    updates = [
        {"id": "1f92", "resources": {"cpu": {"quota": 5}}},
        {"id": "other", "resources": {"cpu": {"shares": 2}}, "ignoreFailure": True},
    ]
    host.configure(
        asking(host, "a", "resize", key="updates", value=updates),
        node.keeper("b", states=["resize"]),
    )
    response = update(node, cpu={"quota": {"value": 9}, "period": {"value": 10}})
    (seen,) = node.kept
    assert seen["spec"]["resources"] == {"memory": {}, "cpu": {"quota": 5, "period": 10}}
    assert response is not None
    own, other = response.update
    assert (own.container_id, own.linux.resources.cpu.quota.value, own.ignore_failure) == (
        "1f92",
        5,
        False,
    )
    assert (other.container_id, other.linux.resources.cpu.shares.value, other.ignore_failure) == (
        "other",
        2,
        True,
    )


def test_resize_of_a_sandbox_has_its_new_resources(host: Host, node: Node) -> None:
    host.configure(node.keeper("a", states=["resize"]))
    request = api.UpdatePodSandboxRequest(
        pod=pod(), linux_resources={"cpu": {"shares": {"value": 7}}}
    )
    node.bridge.update_pod_sandbox(request, call())
    (seen,) = node.kept
    assert (seen["state"], seen["id"], seen["sandboxID"]) == ("resize", "6efd", "6efd")
    assert seen["spec"]["resources"] == {"memory": {}, "cpu": {"shares": 7}}

    updates = [{"id": "6efd", "resources": {"cpu": {"shares": 2}}}]
    host.configure(asking(host, "b", "resize", key="updates", value=updates))
    with pytest.raises(
        StatusError, match="updates: NRI v2 has no updates in answer to an event of a sandbox"
    ):
        node.bridge.update_pod_sandbox(request, call())


def test_a_container_that_stops_can_leave_its_share_to_others(host: Host, node: Node) -> None:
    host.install("a")
    host.configure(
        plugin("a", ["put", "updates", [{"id": "other", "resources": {"cpu": {"shares": 2}}}]])
    )
    request = api.StopContainerRequest(pod=pod(), container=container())
    response = node.bridge.stop_container(request, call())
    assert response is not None
    assert [each.container_id for each in response.update] == ["other"]


def test_cdi_devices_need_a_runtime_that_resolves_them(host: Host, node: Node) -> None:
    host.configure(asking(host, "a", "setup", value={"cdiDevices": ["vendor.com/class=one"]}))
    response = create(node)
    assert response is not None
    assert [each.name for each in response.adjust.CDI_devices] == ["vendor.com/class=one"]
    node.runtime("containerd", "1.7.24")
    with pytest.raises(
        StatusError, match=r"adjust\.cdiDevices: containerd 1\.7\.24 has NRI 0\.6, which does not"
    ):
        create(node)


@pytest.mark.parametrize("args", [["", "sleep", "1"], [""]])
def test_empty_first_word_of_a_command_reaches_the_runtime(
    host: Host, node: Node, args: list[str]
) -> None:
    """It takes over the command line of plugins that the runtime has asked before the bridge, too."""
    host.configure(asking(host, "a", "setup", value={"args": args}))
    response = create(node, args=["old"])
    assert response is not None
    assert list(response.adjust.args) == args


# What the runtime writes because a plugin asked for it


@pytest.fixture
def two(host: Host) -> Node:
    """A bridge with a container ``old`` that has been served; a plugin ``asks`` wants updates of it."""
    node = Node(host)
    node.runtime("containerd", "2.2.1")
    host.configure(node.keeper("quota", states=["update"]))
    node.bridge.synchronize([], [])
    node.bridge.idle()
    node.start(id="old", name="old", pid=101)
    asked = [
        {"id": "old", "resources": {"cpu": {"cpus": "1"}}},
        {"id": "unknown", "resources": {"cpu": {"cpus": "1"}}},
    ]
    others = ["resize", "setup", "delete"]
    host.install("asks")
    asks = plugin("asks", ["put_in", others, "updates", asked], states=["setup", "resize"])
    host.configure(node.keeper("quota", states=["update"]), asks)
    return node


@pytest.mark.parametrize("event", ["create", "update", "stop"])
@pytest.mark.parametrize("has_next", [True, False])
def test_an_update_that_was_asked_for_is_followed_by_the_containers_update(
    two: Node, monkeypatch: pytest.MonkeyPatch, event: str, has_next: bool
) -> None:
    node = two
    monkeypatch.setattr(chains, "WRITTEN_AFTER", 1e6 if has_next else 0.01)
    if event == "create":
        assert create(node, id="new") is not None
    elif event == "update":
        assert update(node, cpu={"shares": {"value": 5}}) is not None
    else:
        request = api.StopContainerRequest(pod=pod(), container=container())
        assert node.bridge.stop_container(request, call()) is not None
    node.bridge.idle()
    if has_next:
        assert ("update", "old") not in node.steps  # the runtime may not have written it
        node.run_pod()
        node.bridge.idle()
    assert wait_until(lambda: ("update", "old") in node.steps)
    (kept,) = [request for request in node.kept if request["state"] == "update"]
    assert kept["spec"]["resources"]["cpu"]["cpus"] == "1"
    assert kept["prevResult"]["plugin"] == "quota"
    assert wait_until(lambda: node.bridge.chains.late.counts()["waiting"] == 0)
    lacks = node.bridge.chains.describe()["withoutPlugins"]
    assert [lack["plugin"] for lack in lacks if lack["state"] == "update"] == []


def test_an_update_does_not_run_before_the_runtime_has_written(
    host: Host, two: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker looks at all containers after a change, also between an answer and what the runtime writes of it."""
    node = two
    monkeypatch.setattr(chains, "WRITTEN_AFTER", 1e6)
    assert create(node, id="new") is not None
    node.bridge.idle()
    others = [node.keeper("other"), node.keeper("quota", states=["update"])]
    host.configure(*others)
    assert wait_until(lambda: node.steps.count(("create", "old")) == 2)  # of the other one, late
    assert node.bridge.chains.late.wait_until_idle(SOON)
    assert ("update", "old") not in node.steps
    node.run_pod()
    node.bridge.idle()
    assert wait_until(lambda: ("update", "old") in node.steps)


def test_an_update_that_a_killed_bridge_did_not_run_is_run_by_the_next_one(
    host: Host, two: Node
) -> None:
    assert create(two, id="new") is not None
    two.bridge.chains.stop(for_good=True)  # as far as the next one can tell: killed
    two.bridge.idle()
    two.bridge.close()
    after = Node(host)
    host.closing.append(lambda: after.bridge.chains.stop(for_good=True))
    after.runtime("containerd", "2.2.1")
    running = api.ContainerState.CONTAINER_RUNNING
    after.bridge.synchronize([pod()], [container(id="old", name="old", pid=101, state=running)])
    after.bridge.idle()
    assert wait_until(lambda: ("update", "old") in after.steps)


# What the runtime has dropped

DEVICE = "vendor.com/class=one"
ASKED = {
    "env": {"LEVEL": "3", "OLD": None},
    "mounts": {"/data": {"type": "bind", "source": "/srv", "options": ["bind"]}},
    "linux": {"devices": [{"path": "/dev/one", "type": "c", "major": 1, "minor": 3}]},
}
APPLIED: dict[str, Any] = {
    "env": ["PATH=/bin", "LEVEL=3"],
    "mounts": [api.Mount(destination="/proc"), api.Mount(destination="/data")],
    "linux": api.LinuxContainer(devices=[api.LinuxDevice(path="/dev/one")]),
}


def adjusting(host: Host, name: str, value: Any, **options: Any) -> Any:
    """Install a plugin that asks for something in answer to ``setup`` alone."""
    answer = json.dumps({"adjust": value})
    case = f"case $(cat) in *'\"state\":\"setup\"'*) echo '{answer}' ;; *) echo '{{}}' ;; esac"
    host.script(name, f"#!/bin/sh\n{case}\n")
    return plugin(name, states=["setup"], **options)


def start(node: Node, **changes: Any) -> None:
    about = container(**changes)
    node.bridge.start_container(api.StartContainerRequest(pod=pod(), container=about), call())


@pytest.mark.parametrize(
    ("lacks", "missing"),
    [
        ({}, ""),
        ({"env": ["PATH=/bin", "LEVELS=3"]}, "env LEVEL"),
        ({"mounts": [api.Mount(destination="/proc")]}, "mounts /data"),
        ({"linux": api.LinuxContainer()}, "linux.devices /dev/one"),
    ],
    ids=["all is there", "env", "mounts", "devices"],
)
@pytest.mark.parametrize("policy", ["fail", "ignore"])
@pytest.mark.parametrize("is_another_bridge", [False, True])
def test_what_the_runtime_has_dropped_is_seen_at_the_start(
    host: Host,
    node: Node,
    lacks: dict[str, Any],
    missing: str,
    policy: str,
    is_another_bridge: bool,
) -> None:
    entry = adjusting(host, "asking", ASKED, failure_policy=policy)
    host.configure(entry, node.keeper(states=["create"]))
    create(node)
    if is_another_bridge:
        node.bridge.close()
        node = Node(host)
        node.runtime("containerd", "2.2.1")
        node.bridge.synchronize([pod()], [container(state=api.ContainerState.CONTAINER_CREATED)])
    said = f"adjust.{missing}: the runtime has not applied it"
    if missing and policy == "fail":
        with pytest.raises(StatusError, match=f"create: plugin asking: {said}$"):
            start(node, **APPLIED | lacks)
        assert node.steps == []
        return
    start(node, **APPLIED | lacks)
    assert node.steps == [("create", "1f92")]
    without = node.bridge.chains.describe()["withoutPlugins"]
    listed = [(each["plugin"], each["state"], each["cause"], each["why"]) for each in without]
    assert listed == ([("asking", "setup", "ignored", said)] if missing else [])


def test_nothing_is_missed_where_a_runtime_shows_less(host: Host, node: Node) -> None:
    host.configure(adjusting(host, "asking", ASKED | {"cdiDevices": [DEVICE]}))
    create(node)
    start(node)


def test_what_a_later_plugin_removes_is_not_missed(host: Host, node: Node) -> None:
    host.configure(
        adjusting(host, "a", {"env": {"A": "1"}}),
        adjusting(host, "b", {"env": {"A": None}}),
    )
    create(node)
    start(node, env=["PATH=/bin"], mounts=APPLIED["mounts"])


@pytest.mark.parametrize(
    ("more", "is_dropped"),
    [
        ({}, True),
        ({"env": ["PATH=/usr/bin", "LEVEL=3"]}, True),
        ({"env": ["PATH=/bin", "LEVEL=3", "ONE=1"]}, False),
        ({"mounts": [api.Mount(destination="/usr/lib/one.so")]}, False),
        ({"linux": api.LinuxContainer(devices=[api.LinuxDevice(path="/dev/one")])}, False),
        ({"hooks": api.Hooks(create_container=[api.Hook(path="/bin/one")])}, False),
        ({"CDI_devices": [api.CDIDevice(name=DEVICE)]}, False),
    ],
)
def test_cdi_devices_that_have_added_nothing_are_missed(
    host: Host, node: Node, more: dict[str, Any], is_dropped: bool
) -> None:
    asked = {"cdiDevices": [DEVICE], "env": {"LEVEL": "3"}}
    host.configure(adjusting(host, "asking", asked))
    own = {"env": ["PATH=/bin"], "mounts": [api.Mount(destination="/proc")]}
    create(node, **own)
    there: dict[str, Any] = own | {"env": ["PATH=/bin", "LEVEL=3"]} | more
    if is_dropped:
        with pytest.raises(StatusError, match=f"adjust.cdiDevices {DEVICE}: the runtime has not"):
            start(node, **there)
    else:
        start(node, **there)


@pytest.mark.parametrize(
    ("runtime", "asked", "said"),
    [
        (("containerd", "1.7.29"), {"cdiDevices": [DEVICE]}, "drops it; expected 1.7.30 or newer"),
        (("containerd", "2.0.5"), {"cdiDevices": [DEVICE]}, "drops it; expected 2.1.0 or newer"),
        (("docker", "29.1.0"), {"rlimits": []}, "applies env and mounts alone"),
        (("docker", "29.1.0"), {"env": {"A": None}}, "removes nothing"),
        (("docker", "29.1.0"), {"env": {"A": "1"}}, ""),
        (("containerd", "1.7.30"), {"cdiDevices": [DEVICE]}, ""),
    ],
)
def test_what_a_release_drops_is_refused(
    host: Host, runtime: tuple[str, str], asked: dict[str, Any], said: str
) -> None:
    node = Node(host)
    node.runtime(*runtime)
    host.configure(adjusting(host, "asking", asked))
    if said:
        with pytest.raises(StatusError, match=f"{' '.join(runtime)} {said}$"):
            create(node)
    else:
        assert create(node) is not None


def test_states_that_a_runtime_never_sends_are_said_at_its_synchronize(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.configure(plugin("limits"), plugin("asking", states=["setup", "update"]))
    said: dict[str, list[str]] = {}
    for name in ("containerd", "docker"):
        node = Node(host)
        node.runtime(name, "29.1.0")
        caplog.clear()
        node.bridge.synchronize([], [])
        said[name] = [line for line in caplog.messages if "has no event for" in line]
    types = {"create": "limits, asking", "delete": "limits, asking", "update": "asking"}
    expected = [
        f"docker has no event for {state}, so these plugins are not run for it: {of_state}; use nri-runc there"
        for state, of_state in types.items()
    ]
    assert said == {"containerd": [], "docker": expected}
