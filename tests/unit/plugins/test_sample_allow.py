"""Annotations are the workload's: whose count is what the plugin's conf says, and by what nobody can forge."""

from __future__ import annotations

from typing import Any

from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import ANNOTATION, Konfine
from tests.unit.plugins.running import CONTAINER, POD, Node

NAMESPACE = "io.kubernetes.pod.namespace"
TEAM_A, TEAM_B = {NAMESPACE: "team-a"}, {NAMESPACE: "team-b"}

NOBODY = "is for nobody"
NOT_FOR_B = "is not for the namespace team-b"
NOT_KNOWN = "needs a namespace, and none is known"
CASES: list[tuple[Any, dict[str, str], str]] = [
    # allow, the sandbox's labels, why it is ignored
    (None, {}, ""),
    (True, {}, ""),
    (True, TEAM_B, ""),
    (False, TEAM_A, NOBODY),
    (False, {}, NOBODY),
    ([], TEAM_A, NOBODY),
    (["team-a"], TEAM_A, ""),
    (["team-c", "team-a"], TEAM_A, ""),
    (["team-a"], TEAM_B, NOT_FOR_B),
    (["team-a"], {}, NOT_KNOWN),
    (["team-a"], {NAMESPACE: ""}, NOT_KNOWN),
    (["team-a"], {NAMESPACE.upper(): "team-a"}, NOT_KNOWN),
    (["TEAM-B", "team", "team-b "], TEAM_B, NOT_FOR_B),
]


UNCHANGED = {"cpus": "0-7", "skipped": "it has these CPUs already"}


def allowing(**allow: Any) -> dict[str, Any]:
    return {"allow": {key: value for key, value in allow.items() if value is not None}}


def test_a_class_counts_only_for_those_who_may_say_it() -> None:
    for allow, labels, why in CASES[3:10:3]:  # nobody, this namespace, no known namespace
        node = Node(ClearCFS())
        node.limit(CONTAINER, 50_000)
        metadata = node.fine(allowing(**{"class": allow}), annotations={"qos.class/pod": "ls"}, labels=labels)
        assert node.is_limited(CONTAINER) == bool(why) != ("cleared" in metadata)
        assert metadata.get("ignored", "") == (f"qos.class/pod: allow.class {why}" if why else "")


def test_cpus_count_only_for_those_who_may_say_them() -> None:
    for allow, labels, why in CASES:
        metadata = Node(Konfine()).fine(allowing(cpus=allow), annotations={ANNOTATION: "2-3"}, labels=labels)
        assert metadata.get("ignored", "") == (f"{ANNOTATION}: allow.cpus {why}" if why else "")
        assert metadata["cpus"] == ("0-7" if why else "2-3")


def test_a_class_that_does_not_count_opens_no_reserved_cpus() -> None:
    conf = {"systemReserved": [0], **allowing(**{"class": ["kube-system"]})}
    annotations = {"qos.class": "system"}
    node = Node(Konfine())
    assert node.fine(conf, annotations=annotations, labels={NAMESPACE: "kube-system"})["cpus"] == "0-7"
    assert node.fine(conf, annotations=annotations, labels=TEAM_A) == {
        "cpus": "1-7",
        "ignored": "qos.class: allow.class is not for the namespace team-a",
    }


def test_a_label_does_not_count_either() -> None:
    node = Node(ClearCFS())
    node.limit(CONTAINER, 50_000)
    metadata = node.fine(allowing(**{"class": False}), labels={**TEAM_A, "qos.class": "ls"})
    assert metadata == {"ignored": "qos.class: allow.class is for nobody", "skipped": "no class, not in [ls]"}
    assert node.is_limited(CONTAINER)


def test_an_annotation_vouches_for_no_namespace() -> None:
    annotations = {ANNOTATION: "2-3", NAMESPACE: "team-a", "io.kubernetes.cri.sandbox-namespace": "team-a"}
    metadata = Node(Konfine()).fine(allowing(cpus=["team-a"]), annotations=annotations)
    assert metadata == {**UNCHANGED, "ignored": f"{ANNOTATION}: allow.cpus {NOT_KNOWN}"}


def test_all_that_is_ignored_is_said_and_one_does_not_decide_for_the_other() -> None:
    node = Node(Konfine())
    annotations = {ANNOTATION: "2-3", "qos.class": "system"}
    conf = {"systemReserved": "0", "allow": {"class": False, "cpus": ["team-a"]}}
    assert node.fine(conf, annotations=annotations, labels=TEAM_B)["ignored"] == (
        f"qos.class: allow.class {NOBODY}; {ANNOTATION}: allow.cpus {NOT_FOR_B}"
    )
    assert node.fine(conf, annotations=annotations, labels=TEAM_A) == {
        "cpus": "2-3",
        "ignored": f"qos.class: allow.class {NOBODY}",
    }


def test_what_is_not_said_is_not_ignored() -> None:
    conf = {"allow": {"class": False, "cpus": False}}
    assert Node(Konfine()).fine(conf, labels=TEAM_A) == UNCHANGED


def test_a_cpu_list_that_does_not_count_is_not_even_read() -> None:
    metadata = Node(Konfine()).fine(allowing(cpus=False), annotations={ANNOTATION: "no CPUs"})
    assert metadata["cpus"] == "0-7"


def test_what_is_said_of_it_is_short_whatever_pods_are_called() -> None:
    for name, conf, start in (
        ("\x1b[2J" + "x" * 100_000, allowing(cpus=["a"]), "cpus.konfine.nri.io/container."),
        ("x" * 100_000, {}, "the annotation cpus.konfine.nri.io/container.x"),
    ):
        annotations = {f"{ANNOTATION}/container.{name}": "a", "io.kubernetes.cri.container-name": name}
        metadata = Node(Konfine()).fine(conf, annotations=annotations, labels={NAMESPACE: "n" * 100_000})
        assert metadata["ignored"].startswith(start)
        assert len(metadata["ignored"]) < 350


def test_signs_of_control_in_what_is_ignored_are_escaped() -> None:
    name = "\x1b[2J\n\u202e"
    annotations = {f"{ANNOTATION}/container.{name}": "\x07", "io.kubernetes.cri.container-name": name}
    labels = {NAMESPACE: "team\n-b"}
    for conf in (allowing(cpus=["team-a"]), {}):
        ignored = Node(Konfine()).fine(conf, annotations=annotations, labels=labels)["ignored"]
        assert ignored.isprintable()
        assert "\\x1b[2J\\n\\u202e" in ignored


def test_an_error_about_many_cpus_is_short() -> None:
    node = Node(Konfine())
    odd = ",".join(map(str, range(1, 8192, 2)))
    node.give(POD, odd)
    error = node.error({"systemReserved": odd}, annotations={ANNOTATION: odd}, id="i" * 100_000)
    assert error.startswith("no CPU is left for iii")
