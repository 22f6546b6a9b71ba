"""From a container's config.json to what plugins see of it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.client import oci, read_config, spec_from_oci
from nri.types import DecodeError
from nri.types.v1 import Spec
from tests.support.host import OCI_CONFIG, Host
from tests.support.processes import open_fds


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        ({}, Spec()),
        ({"linux": {"resources": None, "namespaces": None, "cgroupsPath": None}}, Spec()),
        ({"annotations": {"a": "b", "c": None}}, Spec(annotations={"a": "b", "c": ""})),
        ({"linux": {"resources": {"x": [1.5]}}}, Spec(resources={"x": [1.5]})),
        ({"windows": {"resources": {"cpu": {}}}}, Spec(resources={"cpu": {}})),
        ({"linux": {}, "windows": {"resources": {"cpu": {}}}}, Spec()),
        (
            {"linux": {"namespaces": [{"type": "pid"}, {"type": "pid", "path": "/p"}]}},
            Spec(namespaces={"pid": "/p"}),
        ),
        ({"linux": {"cgroupsPath": "a.slice:b:c"}}, Spec(cgroups_path="a.slice:b:c")),
        ({"linux": "no", "vm": 1}, "linux: found the string 'no', expected an object"),
        (
            {"linux": {"resources": "all"}},
            "linux.resources: found the string 'all', expected an object",
        ),
        ({"linux": {"cgroupsPath": 1}}, "linux.cgroupsPath: found the number 1, expected a string"),
        ({"linux": {"namespaces": {}}}, "linux.namespaces: found an object, expected an array"),
        (
            {"linux": {"namespaces": [{}, "pid"]}},
            "linux.namespaces[1]: found the string 'pid', expected an object",
        ),
        (
            {"linux": {"namespaces": [{"type": 1}]}},
            "linux.namespaces[0].type: found the number 1, expected a string",
        ),
        ({"annotations": {"a": 1}}, "annotations.a: found the number 1, expected a string"),
        ({"annotations": "a"}, "annotations: found the string 'a', expected an object of strings"),
        ({"windows": 1}, "windows: found the number 1, expected an object"),
    ],
)
def test_spec_of_a_configuration_is_the_one_that_go_makes(
    config: dict[str, Any], spec: Spec | str
) -> None:
    if isinstance(spec, Spec):
        assert spec_from_oci(config) == spec
    else:
        with pytest.raises(DecodeError) as caught:
            spec_from_oci(config)
        assert str(caught.value).startswith(spec)


def test_spec_shares_nothing_with_the_configuration() -> None:
    config = {"annotations": {"a": "b"}, "linux": {"namespaces": []}}
    spec_from_oci(config).annotations["new"] = "x"
    assert config["annotations"] == {"a": "b"}


# config.json


def test_config_json_is_read_from_a_file_or_by_hand_from_a_fifo(host: Host) -> None:
    path = host.bundle(OCI_CONFIG) / "config.json"
    assert read_config(str(path)) == read_config(str(path), must_be_file=True) == OCI_CONFIG
    fifo = host.root / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text('{"annotations": {"a": "b"}}'))
    writer.start()
    assert read_config(str(fifo)) == {"annotations": {"a": "b"}}
    writer.join()


def test_config_json_that_cannot_be_read_is_named(host: Host) -> None:
    for path, message in (
        (str(host.bundle("{", "half") / "config.json"), "line 1 column 2: "),
        (
            str(host.bundle("[]") / "config.json"),
            "the document: found an array, expected an object",
        ),
        (f"{host.root}/missing", "cannot be read: No such file or directory"),
        ("/x\0y", "cannot be read: embedded null byte"),
    ):
        with pytest.raises(DecodeError) as caught:
            read_config(path)
        assert str(caught.value).startswith(path.replace("\0", "\\x00") + f": {message}")


IRREGULAR: dict[str, tuple[Callable[[Path], object], str]] = {
    "FIFO": (os.mkfifo, "cannot be read: found a FIFO, expected a regular file"),
    "device": (
        lambda path: path.symlink_to("/dev/zero"),
        "cannot be read: found a character device, expected a regular file",
    ),
    "socket": (
        lambda path: os.mknod(path, stat.S_IFSOCK),
        "cannot be read: found a socket, expected a regular file",
    ),
    "link to itself": (
        lambda path: path.symlink_to(path),
        "cannot be read: Too many levels of symbolic links",
    ),
}


@pytest.mark.parametrize("kind", IRREGULAR)
def test_config_json_of_a_bundle_must_be_a_regular_file(tmp_path: Path, kind: str) -> None:
    make, message = IRREGULAR[kind]
    path = tmp_path / "config.json"
    make(path)
    with pytest.raises(DecodeError) as caught:
        read_config(str(path), must_be_file=True)
    assert str(caught.value) == f"{path}: {message}"


def test_file_that_becomes_a_fifo_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    os.mkfifo(path)
    before = open_fds()
    regular = os.stat(__file__)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda _path: regular)
        with pytest.raises(
            DecodeError, match="cannot be read: found a FIFO, expected a regular file"
        ):
            read_config(str(path), must_be_file=True)
    assert open_fds() == before


def test_file_that_is_too_long_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    path.touch()
    os.truncate(path, 2**40)  # a hole
    with pytest.raises(
        DecodeError, match=r"has more than 16777216 bytes, expected an OCI config\.json"
    ):
        read_config(str(path))
    monkeypatch.setattr(oci, "MAX_CONFIG", 10)
    path.write_bytes(b'{"a": "b"}')
    assert read_config(str(path)) == {"a": "b"}
    path.write_bytes(b'{"a": "b"} ')
    with pytest.raises(DecodeError, match="has more than 10 bytes"):
        read_config(str(path))
