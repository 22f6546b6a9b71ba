"""konfine: to which CPUs it confines a container, whose word counts, and what it refuses."""

import errno
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.fake_systemd import FakeSystemd
from nri.cgroups import parse_cpus, systemd_bus
from nri.plugins.konfine import ANNOTATION, Konfine
from nri.testing import CgroupTree, Pod, invoke
from tests.unit.plugins.running import CONTAINER, KINDS, POD, PluginNode
from tests.unit.types.mutations import values


@pytest.fixture(params=KINDS)
def node(request: pytest.FixtureRequest) -> PluginNode:
    return PluginNode(Konfine(), request.param)


@pytest.fixture
def v2() -> PluginNode:
    return PluginNode(Konfine())


def kubelets(cpus: object) -> dict[str, Any]:
    return {"cpu": {"cpus": cpus, "shares": 2}}


# Which CPUs


def test_cpus_of_kubelet_or_parent_are_kept_less_the_reserved(node: PluginNode) -> None:
    choices = [("4-5", "4-5"), ("0-5", "2-5"), ("1,3,9", "3"), ("", "2-7"), (None, "2-7")]
    for state in ("create", "update"):
        for cpus, outcome in choices:
            assert (
                node.fine({"systemReserved": "0-1"}, resources=kubelets(cpus), state=state)["cpus"]
                == outcome
            )
            assert node.cpus() == outcome
    none: list[Any] = [None, [], {"cpu": []}, {"cpu": {"shares": 2}}]
    for resources in none:
        assert node.fine({"systemReserved": [0]}, resources=resources)["cpus"] == "1-7"
    odd: list[Any] = [3, 0, 1.5, [0, 1], [], {}, True, False]
    for value in odd:
        metadata = node.fine(
            {"systemReserved": "0-1"}, resources=kubelets(value), annotations={ANNOTATION: "3"}
        )
        assert metadata["ignored"].startswith("spec.resources.cpu.cpus: found ")
        assert metadata["ignored"].endswith(", expected a CPU list")
        assert metadata["cpus"] == node.cpus() == "3"


def test_annotation_can_only_narrow(node: PluginNode) -> None:
    node.give(POD, "1-6")
    annotations = {ANNOTATION: "0-4"}
    assert node.fine({"systemReserved": [2]}, annotations=annotations)["cpus"] == "1,3-4"
    assert (
        node.fine({"systemReserved": [2]}, annotations=annotations, resources=kubelets("3-7"))[
            "cpus"
        ]
        == "3-4"
    )
    assert node.fine(annotations={ANNOTATION: "4", f"{ANNOTATION}/pod": "3,5"})["cpus"] == "3,5"
    assert node.fine(labels={ANNOTATION: "3,5"})["cpus"] == "3,5"


def test_classes_of_the_system_may_use_the_reserved_cpus(v2: PluginNode) -> None:
    for changes, noted, cpus in (
        ({}, {"qos.class": "system"}, "0-7"),
        ({}, {"qos.class": "system", ANNOTATION: "0-1"}, "0-1"),
        ({}, {"qos.class": "ls"}, "2-7"),
        ({"systemClasses": ["infra", "net"]}, {"qos.class": "net"}, "0-7"),
        ({"systemClasses": ["infra", "net"]}, {"qos.class": "system"}, "2-7"),
        ({"systemClasses": []}, {"qos.class": "system"}, "2-7"),
        ({"key": "my.key"}, {"my.key/pod": "system"}, "0-7"),
        ({"key": "my.key"}, {"qos.class": "system"}, "2-7"),
    ):
        assert v2.fine({"systemReserved": [0, 1], **changes}, annotations=noted)["cpus"] == cpus


def test_cpus_that_are_right_are_not_written_again(node: PluginNode) -> None:
    assert node.fine({"systemReserved": [0]}) == {"cpus": "1-7"}
    assert node.tree.written == {f"{CONTAINER}/cpuset.cpus": "1-7"}
    node.tree.forget()
    for state in ("create", "update"):
        assert node.fine({"systemReserved": [0]}, state=state) == {
            "cpus": "1-7",
            "skipped": "it has these CPUs already",
        }
    assert node.tree.written == {}
    assert node.fine({"systemReserved": [0, 1]}) == {"cpus": "2-7"}
    assert node.fine({"systemReserved": [0]}, state="update")["cpus"] == node.cpus() == "1-7"


def test_refused_write_is_an_error_with_the_kernels_answer() -> None:
    web = Pod().container("web")
    with CgroupTree("v1") as tree:
        tree.add(web)
        tree.refuse("web/cpuset.cpus", errno.EBUSY)
        result = invoke(Konfine(), web.request("create", conf={"systemReserved": [0]}))
    file = f"{tree.directory('web', 'cpuset')}/cpuset.cpus"
    assert result.error.startswith(f"cannot write '1-7' to {file}: Device or resource busy (EBUSY)")
    assert tree.written == {}


def test_systemd_that_cannot_be_told_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
    web = Pod(cgroup_driver="systemd").container("web")
    with (
        CgroupTree("v2", driver="systemd") as tree,
        FakeSystemd(Path(tree.run), web.cgroup) as systemd,
    ):
        tree.add(web)
        systemd.fault = "closed"
        metadata = invoke(Konfine(), web.request("create", conf={"systemReserved": [0]})).metadata
    assert metadata["systemd"].startswith(
        "not told: systemd did not answer GetUnitByControlGroup at "
    )


def test_container_with_its_parents_cpus_keeps_following_them(v2: PluginNode) -> None:
    """With CPUs of its own it would keep them when the parent is given more."""
    v2.give(CONTAINER, "0-7")
    v2.tree.put(f"{CONTAINER}/cpuset.cpus", "")
    assert v2.fine()["cpus"] == "0-7"
    assert v2.cpus() == ""
    v2.give(POD, "0-3")
    assert v2.fine({"systemReserved": [0]}, state="update")["cpus"] == "1-3"
    assert v2.cpus() == "1-3"


def test_cpus_that_are_not_in_effect_are_given_again(v2: PluginNode) -> None:
    """In v2 crun's scope may be narrower than its child: what the child was given says nothing of the scope."""
    scope = f"{POD}/crun-redis.scope"
    for path, cpus in ((scope, "0-1"), (f"{scope}/container", "0-7")):
        v2.make(path)
        v2.give(path, cpus)
    assert v2.fine(path=scope)["cpus"] == "0-7"
    assert [v2.cpus(path) for path in (scope, f"{scope}/container")] == ["0-7", "0-7"]


def test_other_states_change_nothing(node: PluginNode) -> None:
    for state in ("setup", "pause", "resume", "delete", "", "sleep"):
        before = node.cpus()
        assert node.fine({"systemReserved": [0]}, state=state) == {}
        assert node.cpus() == before


# What a pod says wrongly

NO_LISTS = [
    *(
        "0-4294967295",
        "8192",
        "-1",
        "3-1",
        "0-3:1/2",
        "all",
        "0 1",
        "0,,1",
        "1\0",
        "\x1b[2J",
        "٣",
        "0x1",
        "\ud800",
    ),
    *(
        "0-1\n2",
        "\u202e0-1",
        "0," * 100_000,
        ",".join(["0-8191"] * 1_000_000),
        "9" * 1_000_000,
        "-" * 60_000,
    ),
]


def test_invalid_cpu_list_is_ignored_and_reported(v2: PluginNode) -> None:
    for value in NO_LISTS:
        key = f"{ANNOTATION}/container.redis"
        annotations = {key: value, "io.kubernetes.cri.container-name": "redis"}
        conf = {"systemReserved": "0-1"}
        for said, where in (
            ({"annotations": annotations}, f"the annotation {key}"),
            ({"resources": kubelets(value)}, "spec.resources.cpu.cpus"),
        ):
            v2.give(CONTAINER, "0-7")
            metadata = v2.fine(conf, **said)
            assert metadata["ignored"].startswith(f"{where}: CPU list ")
            assert metadata["ignored"].isprintable()
            assert len(metadata["ignored"]) < 350
            assert metadata["cpus"] == v2.cpus() == "2-7"
        assert v2.fine(conf, annotations=annotations, state="delete") == {}


@pytest.mark.parametrize(
    ("annotation", "listed", "cpus", "ignored"),
    [
        ("0-1", None, "2-7", "the annotation ANNOTATION: '0-1' has no CPU of 2-7"),
        ("", None, "2-7", "the annotation ANNOTATION: '' has no CPU of 2-7"),
        ("5", "4", "4", "the annotation ANNOTATION: '5' has no CPU of 4"),
        ("4", "0", "4", "spec.resources.cpu.cpus: '0' has no CPU of 2-7"),
        (
            "0",
            "8-9",
            "2-7",
            "spec.resources.cpu.cpus: '8-9' has no CPU of 2-7; the annotation ANNOTATION: '0' has no CPU of 2-7",
        ),
    ],
)
def test_set_that_leaves_no_cpu_is_ignored(
    node: PluginNode, annotation: str, listed: str | None, cpus: str, ignored: str
) -> None:
    noted = {ANNOTATION: annotation}
    metadata = node.fine({"systemReserved": "0-1"}, annotations=noted, resources=kubelets(listed))
    assert metadata["ignored"] == ignored.replace("ANNOTATION", ANNOTATION)
    assert metadata["cpus"] == node.cpus() == cpus


def test_reserved_cpus_are_used_if_the_kubelet_leaves_no_others(node: PluginNode) -> None:
    labels = {"io.kubernetes.pod.namespace": "shop"}
    for listed, cpus in (
        ("0", "0"),
        ("0-1", "0-1"),
        ("1-3", "2-3"),
        ("", "2-7"),
        ("8", "2-7"),
        ("x", "2-7"),
    ):
        metadata = node.fine({"systemReserved": "0-1"}, resources=kubelets(listed), labels=labels)
        assert metadata["cpus"] == node.cpus() == cpus
        assert ("reserved" in metadata) == (cpus in ("0", "0-1"))
    metadata = node.fine(
        {"systemReserved": "0-1"},
        resources=kubelets("0-1"),
        labels=labels,
        annotations={ANNOTATION: "1-2"},
    )
    assert metadata["cpus"] == node.cpus() == "1"


WORDS = st.one_of(
    st.text(max_size=30),
    st.text("0123456789-,: \t\0", max_size=30),
    st.sampled_from([*NO_LISTS[:15], "0", "0-1", "2", "0-7", "9", "", " ", "system"]),
)
SCOPED = ("", "/pod", "/container.redis", "/container.")
KEYS = [
    *(f"{key}{scope}" for key in (ANNOTATION, "qos.class") for scope in SCOPED),
    *(
        "io.kubernetes.cri.container-name",
        "io.kubernetes.cri-o.ContainerName",
        "io.kubernetes.pod.namespace",
    ),
]
SAID = st.dictionaries(WORDS | st.sampled_from(KEYS), WORDS, max_size=6)
JSON = values | st.fixed_dictionaries({"cpus": values | WORDS})


@given(
    annotations=SAID,
    labels=SAID.map(lambda said: {**said, "io.kubernetes.pod.namespace": "team-a"}),
    resources=values | st.fixed_dictionaries({"cpu": JSON}),
    state=st.sampled_from(["create", "update"]),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_annotation_gives_a_pod_more_cpus(
    v2: PluginNode, annotations: dict[str, str], labels: dict[str, str], resources: Any, state: str
) -> None:
    conf = {"systemReserved": "0-1", "allow": {"class": ["kube-system"]}}
    v2.give(CONTAINER, "0-7")
    metadata = v2.fine(
        conf, state=state, annotations=annotations, labels=labels, resources=resources
    )
    # The list of the resources is the kubelet's: it may have reserved CPUs alone.
    assert parse_cpus(v2.cpus()) <= ({0, 1} if "reserved" in metadata else {2, 3, 4, 5, 6, 7})
    assert metadata["cpus"] == v2.cpus() != ""
    assert metadata.get("ignored", "").isprintable()
    assert len(metadata.get("ignored", "")) < 1000


# What it refuses


def test_configuration_that_leaves_no_cpu_is_an_error(node: PluginNode) -> None:
    for noted in ({}, {ANNOTATION: "0-1"}, {ANNOTATION: "all", "qos.class": "be"}):
        before = node.cpus()
        assert node.error(
            {"systemReserved": "0-99"}, annotations=noted, resources=kubelets("3")
        ) == (
            "no CPU is left for redis: its parent cgroup has 0-7, and conf.systemReserved is 0-99; "
            "expected one that leaves a CPU of the parent's"
        )
        assert node.cpus() == before


def test_child_that_the_container_has_made_hides_no_scope(v2: PluginNode) -> None:
    """It is named as the one that crun makes, and has the right CPUs; the scope has got others since."""
    scope = f"{POD}/cri-containerd-redis.scope"
    for path, cpus in ((scope, "0-7"), (f"{scope}/container", "1-7")):
        v2.make(path)
        v2.give(path, cpus)
    assert v2.fine({"systemReserved": [0]}, path=scope, state="update")["cpus"] == "1-7"
    assert v2.cpus(scope) == "1-7"
