"""Whose word counts: `skel.why_not_allowed`, with the field `namespaces` of a conf, and a request's namespace."""

from typing import Any

import pytest

from nri import skel
from nri.skel import fields
from nri.testing import CgroupTree, Pod
from nri.types import DecodeError
from nri.types.v1 import Request, Spec

NOT_KNOWN = "pods needs a namespace, and none is known"


class AskedConf(skel.Conf):
    pods: bool | tuple[str, ...] = fields.namespaces("whose containers may ask")


@pytest.mark.parametrize(
    ("conf", "in_shop", "without"),
    [
        (None, "pods is for no pod", "pods is for no pod"),
        ({"pods": False}, "pods is for no pod", "pods is for no pod"),
        ({"pods": []}, "pods is for no pod", "pods is for no pod"),
        ({"pods": True}, "", ""),
        ({"pods": ["bar", "shop"]}, "", NOT_KNOWN),
        ({"pods": ["bar"]}, "pods is not for the namespace shop", NOT_KNOWN),
    ],
)
def test_the_conf_says_whose_word_counts(conf: Any, in_shop: str, without: str) -> None:
    pods = AskedConf.from_value(conf).pods
    web = Pod(
        "web", namespace="shop", annotations={"io.kubernetes.pod.namespace": "bar"}
    ).container("web")
    assert web.request("create").namespace == "shop"
    assert skel.why_not_allowed(web.request("create"), pods, "pods") == in_shop
    claims = {
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.cri.sandbox-namespace": "shop",
    }
    bare = Pod("web", runtime="runc", annotations=claims).container("web")
    assert bare.request("create").namespace == ""
    assert skel.why_not_allowed(bare.request("create"), pods, "pods") == without


def test_a_text_is_one_namespace_and_an_empty_name_is_none() -> None:
    inside = Pod("web", namespace="hop").container("web").request("create")
    assert skel.why_not_allowed(inside, "shop") == "namespaces is not for the namespace hop"
    assert skel.why_not_allowed(Request(state="create", id="a"), [""]).endswith("none is known")


@pytest.mark.parametrize("conf", [{"pods": [""]}, {"pods": "shop"}, {"pods": [1]}])
def test_another_conf_is_an_error(conf: Any) -> None:
    with pytest.raises(DecodeError, match="pods"):
        AskedConf.from_value(conf)


def test_annotations_and_cgroup_of_a_request(nri_cgroups: CgroupTree, nri_pod: Pod) -> None:
    assert Request(state="create", id="a").annotations == {}
    assert Request(state="create", id="a", spec=Spec(annotations={"b": "c"})).annotations == {
        "b": "c"
    }
    web = nri_pod.container("web", resources={"cpu": {"cpus": "0-1"}})
    nri_cgroups.add(web)
    assert skel.cgroup_of(web.request("create")).cpus() == {0, 1}
