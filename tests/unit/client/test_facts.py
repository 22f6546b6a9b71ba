"""What a host knows of a container by its request, on each runtime, and what a pod cannot forge."""

from typing import Any

import pytest

from nri.client import ChainError, Client
from nri.client.facts import facts_of
from nri.client.invoker import Invoker
from nri.client.oci import sandbox_id_in
from nri.config import ConfigList, PluginEntry
from nri.config.when import Facts
from nri.testing.pods import recorded
from nri.types.v1 import Request, Spec

CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-id": "pod",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}
CRIO = {
    "io.kubernetes.cri-o.SandboxID": "pod",
    "io.kubernetes.cri-o.ContainerType": "container",
    "io.kubernetes.container.name": "app",
    "io.kubernetes.pod.namespace": "shop",
}


def facts(annotations: dict[str, str], **changes: Any) -> Facts:
    """What is known by the request of a hook, without labels."""
    values = {"id": "app", "sandbox_id": "pod", "state": "create", **changes}
    return facts_of(Request(spec=Spec(annotations=annotations), **values))


RECORDED: list[tuple[str, str | None, bool, bool, bool]] = [
    # name, namespace, is a sandbox, has labels, has all annotations
    ("containerd-1.6.20-native.container-create", "default", False, True, True),
    ("containerd-2.1.9-native.pod-create", "default", True, True, True),
    ("bridge/containerd-1.7.24.container-create", "default", False, True, True),
    ("bridge/containerd-2.1.9.pod-create", "default", True, True, True),
    ("kubernetes/v2-systemd-create-container-be-ls", "default", False, True, True),
    ("hook/podman.container-create", None, False, False, True),
]


@pytest.mark.parametrize(("name", "namespace", "is_sandbox", "has_labels", "has_all"), RECORDED)
def test_recorded_requests(
    name: str, namespace: str | None, is_sandbox: bool, has_labels: bool, has_all: bool
) -> None:
    found = facts_of(Request.from_value(recorded(name), "request"))
    assert found.namespace == namespace
    assert found.is_sandbox is is_sandbox
    assert (found.labels is not None, found.has_all_annotations) == (has_labels, has_all)
    assert found.runtime_handler is None


@pytest.mark.parametrize(
    ("own", "others"), [(CONTAINERD, CRIO), (CRIO, CONTAINERD)], ids=["containerd", "cri-o"]
)
def test_namespace_is_unknown_if_a_pod_forges_annotations(
    own: dict[str, str], others: dict[str, str]
) -> None:
    found = facts(own)
    assert (found.namespace, found.is_sandbox, found.labels, found.runtime_handler) == (
        "shop",
        False,
        None,
        None,
    )
    forged = {key: "kube-system" if value == "shop" else value for key, value in others.items()}
    assert facts(forged | own).namespace is None


@pytest.mark.parametrize(
    ("labels", "namespace"),
    [
        ('{"io.kubernetes.pod.namespace":"shop"}', "shop"),
        ('{"io.kubernetes.pod.namespace":"other"}', None),
        ('{"app":"web"}', None),
        ("{}", None),
        ("[]", None),
        ("no JSON", None),
    ],
)
@pytest.mark.parametrize(
    "also", [{}, {"io.kubernetes.cri.sandbox-namespace": "shop"}, CONTAINERD], ids=str
)
def test_namespace_of_cri_o_is_that_of_its_labels(
    labels: str, namespace: str | None, also: dict[str, str]
) -> None:
    """Without a kubelet there is none, whatever annotations of the pod agree on."""
    found = facts({**CRIO, **also, "io.kubernetes.cri-o.Labels": labels})
    assert found.namespace == namespace
    assert ("namespace" in found.contradictions) == (namespace is None)
    without = facts({"io.kubernetes.cri-o.Labels": labels})
    assert (without.namespace, without.contradictions) == (None, {})


SANDBOXES = {
    "containerd": {
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-id": "pod",
    },
    "cri-o": {"io.kubernetes.container.name": "POD", "io.kubernetes.cri-o.SandboxID": "pod"},
}
OF_A_CONTAINER = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-id": "x",
    "io.kubernetes.cri-o.SandboxID": "x",
    "io.kubernetes.container.name": "app",
}


@pytest.mark.parametrize("runtime", SANDBOXES)
def test_sandbox_is_known_and_cannot_pass_for_a_container(runtime: str) -> None:
    own = SANDBOXES[runtime]
    assert facts(own, id="pod", sandbox_id="pod").is_sandbox is True
    written_last = {"containerd": own, "cri-o": {"io.kubernetes.container.name": "POD"}}[runtime]
    forged = facts({**own, **OF_A_CONTAINER, **written_last}, id="pod", sandbox_id="x")
    assert forged.is_sandbox is None


def test_facts_depend_on_the_runtime_and_the_kubelets_label() -> None:
    assert facts({}, sandbox_id="").is_sandbox is False
    assert facts(CONTAINERD).has_all_annotations is False  # it passes on only some
    assert facts(CRIO).has_all_annotations is True
    found = facts(CONTAINERD, labels={"io.kubernetes.pod.namespace": "kube-system"})
    assert (found.namespace, found.has_all_annotations) == ("kube-system", True)
    assert facts_of(Request(state="create", id="a")).annotations is None


def test_a_host_that_knows_more_judges_by_what_it_knows() -> None:
    entry = PluginEntry(type="keeper", when={"runtimeHandler": ["kata"]})
    request = Request(
        state="create", id="a", labels={"app": "web"}, spec=Spec(annotations=CONTAINERD)
    )
    client = Client(
        ConfigList(plugins=[entry]), Invoker(), facts=lambda asked: Facts(runtime_handler=asked.id)
    )
    assert (client.chain("create", request), client.holding(request)) == ([], [])
    assert client.skipped("create", request) != []
    request = request.replace(id="kata")
    assert (client.chain("create", request), client.holding(request)) == ([entry], [entry])
    assert client.skipped("create", request) == []


@pytest.mark.parametrize("unknown", [{}, {"unknown": "run"}, {"unknown": "skip"}], ids=str)
def test_a_contradiction_is_refused_whatever_is_done_with_unknown_facts(
    unknown: dict[str, str],
) -> None:
    entry = PluginEntry(type="keeper", states=["setup"], when={"namespaces": ["shop"], **unknown})
    client = Client(ConfigList(plugins=[entry]), Invoker())
    forged = {**CRIO, "io.kubernetes.cri.sandbox-namespace": "other"}
    for state in ("setup", "create"):
        with pytest.raises(ChainError, match="expected a container whose annotations agree"):
            client.chain(
                state,
                Request(state=state, id="app", sandbox_id="pod", spec=Spec(annotations=forged)),
            )
    entry = PluginEntry(type="keeper", when={"namespaces": ["shop"], "sandbox": True, **unknown})
    client = Client(ConfigList(plugins=[entry]), Invoker())
    assert (
        client.chain("create", Request(state="create", id="app", spec=Spec(annotations=forged)))
        == []
    )


def test_a_pod_names_no_sandbox_but_its_own() -> None:
    assert (
        sandbox_id_in(CONTAINERD)
        == sandbox_id_in(CRIO)
        == sandbox_id_in(CONTAINERD | CRIO)
        == "pod"
    )
    for own, forged in (
        (CRIO, "io.kubernetes.cri.sandbox-id"),
        (CONTAINERD, "io.kubernetes.cri-o.SandboxID"),
    ):
        assert sandbox_id_in({**own, forged: "another's"}) == ""
