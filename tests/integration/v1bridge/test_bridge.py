"""The bridge: which v0.1 plugins run for which events, with what, and what the runtime is answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nri.v1bridge import chains
from nri.v1bridge.runs import EventLog
from nri.v2 import api
from nri.v2.ttrpc import Code, StatusError
from tests.support.host import Host, plugin
from tests.support.node import Node, call
from tests.support.pods import container, pod

# What the bridge remembers of pods, for events that omit it


def test_stop_of_a_container_has_its_pods_annotations(host: Host, node: Node) -> None:
    host.configure(node.keeper())
    node.run_pod()
    request = api.StopContainerRequest(
        pod=api.PodSandbox(id="6efd"), container=container(annotations={"a": "b"})
    )
    node.bridge.stop_container(request, call())
    assert node.kept[-1]["spec"]["annotations"] == {"qos.class": "ls", "a": "b"}


# Errors


@pytest.mark.parametrize("event", ["create", "stop"])
def test_failing_plugin_fails_the_event_with_its_message(
    host: Host, node: Node, event: str
) -> None:
    host.configure(
        node.keeper("a", ["error", "no CPU\nis left"], states=["setup", "update"]),
        node.keeper("b", states=["setup", "update"]),
    )
    with pytest.raises(StatusError) as refused:
        getattr(node, event)()
    assert (refused.value.code, refused.value.message) == (
        Code.ABORTED,
        r"nri v0.1: plugin a: no CPU\nis left",
    )
    assert len(node.kept) == (2 if event.startswith("stop") else 1)


def test_error_for_the_runtime_has_at_most_4096_bytes(host: Host, node: Node) -> None:
    host.configure(node.keeper("a", ["error", 5000 * "é\n"]))
    with pytest.raises(StatusError) as refused:
        node.start()
    assert 4000 < len(refused.value.message.encode()) <= 4096
    assert refused.value.message.startswith("nri v0.1: plugin a: ")
    assert refused.value.message.endswith(" bytes)")
    assert refused.value.message.isprintable()


WITHOUT_ID: dict[str, Any] = {
    "run_pod_sandbox": api.RunPodSandboxRequest(),
    "stop_pod_sandbox": api.StopPodSandboxRequest(pod={"name": "web"}),
    "remove_pod_sandbox": api.RemovePodSandboxRequest(),
    "post_update_pod_sandbox": api.PostUpdatePodSandboxRequest(),
    "create_container": api.CreateContainerRequest(pod={"id": "6efd"}),
    "start_container": api.StartContainerRequest(pod={"id": "6efd"}, container={"name": "app"}),
    "stop_container": api.StopContainerRequest(),
}


def test_event_without_an_id_is_refused(host: Host, node: Node) -> None:
    host.configure(node.keeper())
    for handler, request in WITHOUT_ID.items():
        with pytest.raises(StatusError) as refused:
            getattr(node.bridge, handler)(request, call())
        assert refused.value.code == Code.INVALID_ARGUMENT, handler
        assert refused.value.message.startswith("found no ")
    assert node.kept == []
    node.run_pod()
    assert node.steps == [("create", "6efd")]
    assert node.bridge.chains.wait_until_idle(0)


# Where a container's cgroup is to be


def mover(host: Host, *paths: str, **options: Any) -> None:
    """Plugins that want these paths."""
    types = [f"mover{number}" for number in range(len(paths))]
    host.install(*types)
    entries = [
        plugin(type_, ["put", "cgroupsPath", path], states=["setup"], **options)
        for type_, path in zip(types, paths, strict=True)
    ]
    host.configure(*entries)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/a/../../b", "'..'"),
        ("relative/path", "is relative, expected one that begins with '/'"),
    ],
    ids=range(2),
)
def test_invalid_path_is_refused(
    host: Host, node: Node, caplog: pytest.LogCaptureFixture, path: str, why: str
) -> None:
    mover(host, path)
    with pytest.raises(StatusError) as refused:
        node.create()
    assert refused.value.code == Code.ABORTED
    assert refused.value.message.startswith("nri v0.1: plugin mover0: cgroupsPath: ")
    assert why in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 500
    (failed,) = [record for record in caplog.records if record.message == "failed"]
    assert why in dict(failed.__dict__["fields"])["error"]


def test_errors_name_the_plugin_as_the_configuration_does(host: Host, node: Node) -> None:
    host.install(
        "mover", do=[["write", '{"plugin": "somebody else", "cgroupsPath": ".."}'], ["nothing"]]
    )
    host.configure(plugin("mover", states=["setup"]))
    with pytest.raises(StatusError, match=r"nri v0\.1: plugin mover: "):
        node.create()


@pytest.mark.parametrize("path", ["/a//b/./c/", "kubepods-podx.slice:cri-containerd:1f92"])
def test_last_cgroups_path_counts_as_it_is(host: Host, node: Node, path: str) -> None:
    mover(host, "/first", path, "")
    assert node.create() == path


# A pod that is resized as a whole


def resize(node: Node, shares: int | None) -> None:
    request = api.UpdatePodSandboxRequest(pod=pod())
    if shares is not None:
        request.linux_resources.cpu.shares.value = shares
    node.bridge.update_pod_sandbox(request, call())
    node.bridge.post_update_pod_sandbox(api.PostUpdatePodSandboxRequest(pod=pod()), call())


def test_update_of_a_sandbox_has_its_new_resources(host: Host, node: Node) -> None:
    host.configure(node.keeper("a"), node.keeper("b", states=["update"]))
    node.run_pod()
    resize(node, 512)
    resize(node, None)
    node.stop_pod()
    kept = [request for request in node.kept if request["state"] != "create"]
    assert [(each["state"], each["id"], each["sandboxID"]) for each in kept[:2]] == 2 * [
        ("update", "6efd", "6efd")
    ]
    assert [each["spec"]["resources"] for each in kept] == [
        {"memory": {}, "cpu": {"shares": 512}},
        None,
        None,
        None,
    ]


def test_twenty_events_at_once_get_their_own_answers(host: Host, node: Node) -> None:
    host.script(
        "mirror",
        '#!/bin/sh\nread -r r\nid=${r#*\\"id\\":\\"}\necho "{\\"error\\": \\"${id%%\\"*}\\"}"\n',
    )
    host.configure(plugin("mirror"))

    def answer(id_: str) -> str:
        with pytest.raises(StatusError) as refused:
            node.run_pod(id=id_)
        return refused.value.message

    ids = [f"pod-{number}" for number in range(20)]
    with ThreadPoolExecutor(len(ids)) as pool:
        assert [*pool.map(answer, ids)] == [f"nri v0.1: plugin mirror: {id_}" for id_ in ids]


def test_chains_that_have_ended_are_noted_before_too_many_wait(
    node: Node, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for a moment without events; on a busy node none comes."""
    noted: list[str] = []
    monkeypatch.setattr(chains, "MAX_WAITING", 2)
    monkeypatch.setattr(EventLog, "end", lambda _, run: noted.append(str(run.request.state)))
    host.configure(node.keeper())
    node.run_pod()
    node.start()
    assert noted == []
    node.stop()
    assert noted == ["create", "create", "delete"]
