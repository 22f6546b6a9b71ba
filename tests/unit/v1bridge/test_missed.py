"""What lives and was not served, of what runtimes synchronize with."""

from typing import Any

from nri.v1bridge.late import Found, find_missed
from nri.v2 import api
from tests.support.pods import container, pod

STATES = api.ContainerState


def running(id_: str, pod_id: str, **changes: Any) -> api.Container:
    return container(**{"id": id_, "pod_sandbox_id": pod_id, "state": STATES.CONTAINER_RUNNING, **changes})


def ids(found: Found) -> list[list[str]]:
    return [[each.request.id for each in group] for group in found.missed]


def test_a_sandbox_comes_before_its_containers() -> None:
    pods = [pod(id="p1"), pod(id="p2", pid=2)]
    containers = [running("c2", "p2"), running("c1", "p1"), running("c3", "p2")]
    found = find_missed(pods, containers, set())
    assert ids(found) == [["p1", "c1"], ["p2", "c2", "c3"]]
    assert found.counted() == "2 sandboxes and 3 containers"


def test_ids_on_record_are_not_missed() -> None:
    pods = [pod(id="p1"), pod(id="p2")]
    found = find_missed(pods, [running("c1", "p1"), running("c2", "p2")], {"p1", "p2", "c2"})
    assert ids(found) == [["c1"]]
    assert found.counted() == "0 sandboxes and 1 container"
    assert found.unproven == {}


def test_running_and_paused_containers_live() -> None:
    of_states = [running(str(state), "p", state=state) for state in STATES.values()]
    assert len(of_states) == 5
    assert find_missed([pod(id="")], [running("", "")], set()) == Found([], {})
    living = [str(STATES.CONTAINER_PAUSED), str(STATES.CONTAINER_RUNNING)]
    assert sorted(ids(find_missed([pod(id="p")], of_states, {"p"}))[0]) == sorted(living)


def test_sandbox_without_a_process_lives_if_a_container_does() -> None:
    pods = [pod(id="spoofed", pid=0), pod(id="stopped", pid=0), pod(id="done", pid=0)]
    found = find_missed(pods, [running("c", "spoofed")], {"done"})
    assert ids(found) == [["spoofed", "c"]]
    assert {id_: [each.request.id for each in group] for id_, group in found.unproven.items()} == {
        "stopped": ["stopped"]
    }


def test_container_of_an_unlisted_pod_is_served() -> None:
    (group,) = find_missed([], [running("c", "gone", name="app")], set()).missed
    assert [(each.request.id, each.request.sandbox_id, each.name) for each in group] == [("c", "gone", "//app")]


def test_the_request_is_the_events_and_says_that_it_is_late() -> None:
    ((sandbox, app),) = find_missed([pod()], [running("1f92", "6efd")], set()).missed
    assert (sandbox.name, app.name) == ("default/web", "default/web/app")
    assert all((each.request.state, each.request.late) == ("create", True) for each in (sandbox, app))
    assert sandbox.request.is_sandbox
    assert app.request.pid == 4712
    assert app.request.spec is not None
    assert app.request.spec.annotations["qos.class"] == "ls"  # the pod's
    assert app.request.labels == {"app": "web"}
