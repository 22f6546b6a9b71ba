"""From a container's OCI ``config.json`` to the :class:`nri.types.v1.Spec` that plugins see, as Go's createSpec."""

from __future__ import annotations

import os
import stat

from nri import filekind
from nri.errors import escape
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.jsonobject import mismatch, string, string_map
from nri.types.v1 import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_CONFIG = 16 * 1024 * 1024
"""Bytes of a config.json that are read; a real one has some tens of thousands."""


def read_config(path: str, *, must_be_file: bool = False) -> dict[str, Any]:
    """The OCI configuration in the file ``path``.

    :param must_be_file: refuse what is no regular file, and do not wait for a FIFO or device to be opened.
    :raises DecodeError: when it can't be read, is too long, or is no JSON object.
    """
    where = escape(path)
    try:
        with open(path, "rb", opener=_open_file if must_be_file else None) as file:
            document = file.read(MAX_CONFIG + 1)
    except OSError as error:
        raise DecodeError(f"{where}: cannot be read: {error.strerror}") from error
    except DecodeError:
        raise
    except ValueError as error:  # a NUL in the path
        raise DecodeError(f"{where}: cannot be read: {error}") from error
    if len(document) > MAX_CONFIG:
        raise DecodeError(f"{where}: has more than {MAX_CONFIG} bytes, expected an OCI config.json")
    try:
        value = gojson.loads(document)
        if not isinstance(value, dict):
            raise mismatch(value, "the document", "an object")
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from error
    return value


def _open_file(path: str, flags: int) -> int:
    """An opener of regular files: it waits for nothing."""
    _require_regular(path, os.stat(path).st_mode)  # a socket can't be opened
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require_regular(path, os.fstat(fd).st_mode)
    except DecodeError:
        os.close(fd)
        raise
    return fd


def _require_regular(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise DecodeError(f"{escape(path)}: is {filekind.describe(mode)}, expected a regular file")


def spec_from_oci(config: dict[str, Any]) -> Spec:
    """What plugins see of ``config``: Linux resources (else those of Windows), namespaces, cgroupsPath, annotations.

    :raises DecodeError: where a part of it is not of the kind that the OCI specification says.
    """
    annotations = string_map(config.get("annotations"), "annotations")
    linux = _object(config.get("linux"), "linux")
    if linux is None:
        windows = _object(config.get("windows"), "windows") or {}
        return Spec(resources=windows.get("resources"), annotations=annotations)
    resources = _object(linux.get("resources"), "linux.resources")
    listed = linux.get("namespaces")
    if listed is not None and not isinstance(listed, list):
        raise mismatch(listed, "linux.namespaces", "an array")
    namespaces = {}
    for index, item in enumerate(listed or []):
        where = f"linux.namespaces[{index}]"
        namespace = _object(item, where) or {}
        namespaces[string(namespace.get("type"), f"{where}.type")] = string(namespace.get("path"), f"{where}.path")
    return Spec(
        resources=resources,
        namespaces=namespaces,
        cgroups_path=string(linux.get("cgroupsPath"), "linux.cgroupsPath"),
        annotations=annotations,
    )


def _object(value: object, where: str) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise mismatch(value, where, "an object")
