"""From a container's config.json to what plugins see of it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from nri.client import read_config, spec_from_oci
from nri.client.oci import MAX_CONFIG
from nri.types import DecodeError
from nri.types.v1 import Spec
from tests.support.host import OCI_CONFIG, Host


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        ({}, Spec()),
        ({"linux": None, "annotations": None}, Spec()),
        ({"linux": {}}, Spec()),
        ({"linux": {"resources": None, "namespaces": None, "cgroupsPath": None}}, Spec()),
        ({"annotations": {"a": "b", "c": None}}, Spec(annotations={"a": "b", "c": ""})),
        ({"linux": {"resources": {"x": [1.5]}}}, Spec(resources={"x": [1.5]})),
        ({"linux": {"resources": {}}}, Spec(resources={})),
        ({"windows": {"resources": {"cpu": {}}}}, Spec(resources={"cpu": {}})),
        ({"linux": {}, "windows": {"resources": {"cpu": {}}}}, Spec()),
        ({"linux": {"namespaces": [{"type": "pid"}, {"type": "pid", "path": "/p"}]}}, Spec(namespaces={"pid": "/p"})),
        ({"linux": {"namespaces": []}}, Spec()),
        ({"linux": {"cgroupsPath": "a.slice:b:c"}}, Spec(cgroups_path="a.slice:b:c")),
        ({"linux": "no", "vm": 1}, "linux: found the string 'no', expected an object"),
        ({"linux": []}, "linux: found an array, expected an object"),
        ({"linux": {"resources": "all"}}, "linux.resources: found the string 'all', expected an object"),
        ({"linux": {"cgroupsPath": 1}}, "linux.cgroupsPath: found the number 1, expected a string"),
        ({"linux": {"namespaces": {}}}, "linux.namespaces: found an object, expected an array"),
        ({"linux": {"namespaces": [{}, "pid"]}}, "linux.namespaces[1]: found the string 'pid', expected an object"),
        ({"linux": {"namespaces": [{"type": 1}]}}, "linux.namespaces[0].type: found the number 1, expected a string"),
        ({"linux": {"namespaces": [{"type": "pid", "path": []}]}}, "linux.namespaces[0].path: found an array"),
        ({"annotations": {"a": 1}}, "annotations.a: found the number 1, expected a string"),
        ({"annotations": "a"}, "annotations: found the string 'a', expected an object of strings"),
        ({"windows": 1}, "windows: found the number 1, expected an object"),
    ],
)
def test_it_is_made_as_by_go(config: dict[str, Any], spec: Spec | str) -> None:
    if isinstance(spec, Spec):
        assert spec_from_oci(config) == spec
    else:
        with pytest.raises(DecodeError) as caught:
            spec_from_oci(config)
        assert str(caught.value).startswith(spec)


def test_nothing_of_the_configuration_is_shared(host: Host) -> None:
    config = {"annotations": {"a": "b"}, "linux": {"namespaces": []}}
    spec_from_oci(config).annotations["new"] = "x"
    assert config["annotations"] == {"a": "b"}


def test_a_config_json_is_read(host: Host) -> None:
    path = host.bundle(OCI_CONFIG) / "config.json"
    assert read_config(str(path)) == OCI_CONFIG


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the document is empty, expected JSON"),
        ("{", "line 1 column 2: "),
        ("[]", "the document: found an array, expected an object"),
        ("null", "the document: found null, expected an object"),
        ('{"a": 1} x', "line 1 column 10: found 'x' after the document"),
    ],
)
def test_what_is_no_configuration_is_named_with_its_file(host: Host, text: str, message: str) -> None:
    path = host.bundle(text) / "config.json"
    with pytest.raises(DecodeError) as caught:
        read_config(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")


def test_what_cannot_be_read_is_named(host: Host) -> None:
    for path, message in (
        (f"{host.root}/missing", "cannot be read: No such file or directory"),
        (str(host.root), "cannot be read: Is a directory"),
        ("/x\0y", "cannot be read: embedded null byte"),
    ):
        with pytest.raises(DecodeError, match=message):
            read_config(path)


def test_a_file_that_is_too_long_is_not_read_to_its_end(host: Host) -> None:
    path = host.bundle("") / "config.json"
    os.truncate(path, 2**40)  # a hole
    with pytest.raises(DecodeError, match=f"has more than {MAX_CONFIG} bytes, expected an OCI config.json"):
        read_config(str(path))
