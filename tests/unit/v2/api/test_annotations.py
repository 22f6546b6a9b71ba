"""A pod's annotation for one of its containers; the same rule for v0.1 and v2 plugins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri import skel
from nri.types.v1 import Request, Spec
from nri.v2 import api

KEY = "class.example.com"
NAMES = st.sampled_from(["app", "app-2", "pod", "container.app"])
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [KEY, f"{KEY}/pod", f"{KEY}/container.app", f"{KEY}/container.app-2", f"{KEY}/container", "other"]
    ),
    st.sampled_from(["", "a", "b"]),
)


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        ({}, None),
        ({KEY: ""}, (KEY, "")),
        ({KEY: "a", f"{KEY}/pod": "b"}, (f"{KEY}/pod", "b")),
        ({KEY: "a", f"{KEY}/pod": "b", f"{KEY}/container.app": "c"}, (f"{KEY}/container.app", "c")),
        ({KEY: "a", f"{KEY}/container.other": "c"}, (KEY, "a")),
    ],
)
def test_the_strongest_scope_wins(annotations: dict[str, str], found: tuple[str, str] | None) -> None:
    assert api.scoped(api.PodSandbox(annotations=annotations), KEY, api.Container(name="app")) == found


def test_a_pod_or_a_container_without_a_name_has_no_scope_of_a_container() -> None:
    pod = api.PodSandbox(annotations={f"{KEY}/container.app": "c", f"{KEY}/container.": "d", KEY: "a"})
    assert api.scoped(pod, KEY) == api.scoped(pod, KEY, api.Container()) == (KEY, "a")


def test_a_containers_own_annotations_do_not_count() -> None:
    container = api.Container(name="app", annotations={KEY: "own"})
    assert api.scoped(api.PodSandbox(), KEY, container) is None


@given(ANNOTATIONS, NAMES)
def test_a_v0_1_plugin_finds_the_same(annotations: dict[str, str], name: str) -> None:
    own = {"io.kubernetes.cri.container-name": name}
    request = Request(state="create", id="c", sandbox_id="s", spec=Spec(annotations=annotations | own))
    found = api.scoped(api.PodSandbox(annotations=annotations), KEY, api.Container(name=name))
    assert found == skel.scoped(request, KEY)
