"""Annotations with a scope."""

from collections.abc import Mapping

from nri.skel import scoped
from nri.types.v1 import Request, Spec

NAME = "io.kubernetes.cri.container-name"
KEY = "qos.example"


def request(
    annotations: dict[str, str] | None = None, labels: Mapping[str, str] = {}, id: str = "c"
) -> Request:
    spec = None if annotations is None else Spec(annotations=annotations)
    return Request(state="create", id=id, sandbox_id="s", spec=spec, labels=labels)


def test_the_strongest_scope_wins() -> None:
    for annotations, found in (
        ({}, None),
        ({KEY: "a"}, (KEY, "a")),
        ({KEY: ""}, (KEY, "")),
        ({KEY: "a", f"{KEY}/pod": "b"}, (f"{KEY}/pod", "b")),
        ({KEY: "a", f"{KEY}/container.app": "c", NAME: "app"}, (f"{KEY}/container.app", "c")),
        ({KEY: "a", f"{KEY}/container.app": "c", NAME: "other"}, (KEY, "a")),
        ({KEY: "a", f"{KEY}/container.app": "c"}, (KEY, "a")),
        (
            {f"{KEY}/container.app": "c", "io.kubernetes.cri-o.ContainerName": "app"},
            (f"{KEY}/container.app", "c"),
        ),
        (
            {f"{KEY}/container.app": "c", "io.kubernetes.container.name": "app"},
            (f"{KEY}/container.app", "c"),
        ),
        ({f"{KEY}x": "a", KEY.upper(): "b", f"{KEY} ": "c"}, None),
    ):
        assert scoped(request(annotations), KEY) == found


def test_a_sandbox_is_no_container_of_its_pod() -> None:
    annotations = {f"{KEY}/container.app": "c", NAME: "app", f"{KEY}/pod": "b"}
    assert scoped(request(annotations, id="s"), KEY) == (f"{KEY}/pod", "b")


def test_labels_count_where_no_annotation_does() -> None:
    assert scoped(request({KEY: "a"}, {f"{KEY}/pod": "l"}), KEY) == (KEY, "a")
    assert scoped(request({}, {KEY: "l", f"{KEY}/pod": "p"}), KEY) == (f"{KEY}/pod", "p")
    assert (
        scoped(request({}, {KEY: "l"}), KEY) == scoped(request(None, {KEY: "l"}), KEY) == (KEY, "l")
    )
    assert scoped(request(None), KEY) is None
