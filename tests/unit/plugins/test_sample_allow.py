"""Annotations are the workload's: whose count is what the plugin's conf says, and by what nobody can forge."""

from typing import Any

import pytest

from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import ANNOTATION, Konfine
from tests.unit.plugins.running import CONTAINER, POD, PluginNode

NAMESPACE = "io.kubernetes.pod.namespace"
TEAM_A, TEAM_B = {NAMESPACE: "team-a"}, {NAMESPACE: "team-b"}

NOBODY = "is for no pod"
NOT_FOR_B = "is not for the namespace team-b"
NOT_KNOWN = "needs a namespace, and none is known"


def allowing(**allow: Any) -> dict[str, Any]:
    return {"allow": {key: value for key, value in allow.items() if value is not None}}


@pytest.mark.parametrize(
    ("allow", "labels", "why"),
    [
        (None, {}, ""),
        (True, {}, ""),
        (False, TEAM_A, NOBODY),
        ([], TEAM_A, NOBODY),
        (["team-c", "team-a"], TEAM_A, ""),
        (["team-a"], {}, NOT_KNOWN),
        (["team-a"], {NAMESPACE: ""}, NOT_KNOWN),
        (["team-a"], {NAMESPACE.upper(): "team-a"}, NOT_KNOWN),
        (["TEAM-B", "team", "team-b "], TEAM_B, NOT_FOR_B),
    ],
)
def test_annotations_count_only_where_allow_names_the_namespace(
    allow: Any, labels: dict[str, str], why: str
) -> None:
    metadata = PluginNode(Konfine()).fine(
        allowing(cpus=allow), annotations={ANNOTATION: "2-3"}, labels=labels
    )
    assert metadata.get("ignored", "") == (f"{ANNOTATION}: allow.cpus {why}" if why else "")
    assert metadata["cpus"] == ("0-7" if why else "2-3")
    node = PluginNode(ClearCFS())
    node.limit(CONTAINER, 50_000)
    metadata = node.fine(
        allowing(**{"class": allow}), annotations={"qos.class/pod": "ls"}, labels=labels
    )
    assert node.is_limited(CONTAINER) == bool(why) != ("cleared" in metadata)
    assert metadata.get("ignored", "") == (f"qos.class/pod: allow.class {why}" if why else "")


def test_label_does_not_count_either() -> None:
    node = PluginNode(ClearCFS())
    node.limit(CONTAINER, 50_000)
    metadata = node.fine(allowing(**{"class": False}), labels={**TEAM_A, "qos.class": "ls"})
    assert metadata == {
        "ignored": "qos.class: allow.class is for no pod",
        "skipped": "no class, not in [ls]",
    }
    assert node.is_limited(CONTAINER)


def test_each_ignored_annotation_is_reported() -> None:
    node = PluginNode(Konfine())
    annotations = {ANNOTATION: "2-3", "qos.class": "system"}
    conf = {"systemReserved": "0", "allow": {"class": False, "cpus": ["team-a"]}}
    assert node.fine(conf, annotations=annotations, labels=TEAM_B)["ignored"] == (
        f"qos.class: allow.class {NOBODY}; {ANNOTATION}: allow.cpus {NOT_FOR_B}"
    )
    assert node.fine(conf, annotations=annotations, labels=TEAM_A) == {
        "cpus": "2-3",
        "ignored": f"qos.class: allow.class {NOBODY}",
    }


def test_message_is_short_and_printable_for_any_pod_name() -> None:
    for name, conf, start in (
        (
            "\x1b[2J\n\u202e" + "x" * 100_000,
            allowing(cpus=["a"]),
            "cpus.konfine.nri.io/container.\\x1b[2J\\n\\u202ex",
        ),
        ("x" * 100_000, {}, "the annotation cpus.konfine.nri.io/container.x"),
    ):
        annotations = {
            f"{ANNOTATION}/container.{name}": "a",
            "io.kubernetes.cri.container-name": name,
        }
        metadata = PluginNode(Konfine()).fine(
            conf, annotations=annotations, labels={NAMESPACE: "n" * 100_000}
        )
        assert metadata["ignored"].startswith(start)
        assert metadata["ignored"].isprintable()
        assert len(metadata["ignored"]) < 350


def test_error_about_many_cpus_is_short() -> None:
    node = PluginNode(Konfine())
    odd = ",".join(map(str, range(1, 8192, 2)))
    node.give(POD, odd)
    error = node.error({"systemReserved": odd}, annotations={ANNOTATION: odd}, id="i" * 100_000)
    assert error.startswith("no CPU is left for iii")
