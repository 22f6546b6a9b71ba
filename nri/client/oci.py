"""What OCI runtimes write: the ``config.json`` of a container, and its state.

Plugins see a part of the configuration, the ``nri.types.v1.Spec`` that Go's createSpec makes of it.
"""

from __future__ import annotations

import os

from nri import files
from nri.errors import escape
from nri.types import DecodeError, gojson
from nri.types.jsonobject import integer, mismatch, string, string_map
from nri.types.v1 import Request, Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_CONFIG = 16 * 1024 * 1024
"""Bytes of a config.json that are accepted; a real one has tens of thousands."""


def read_config(path: str, *, must_be_file: bool = False) -> dict[str, Any]:
    """Return the OCI configuration in the file ``path``.

    :param must_be_file: refuse anything but a regular file, and never block on a FIFO or device.
    :raises DecodeError: if the file cannot be read, is too long, or is not a JSON object.
    """
    where = escape(path)
    try:
        if must_be_file:
            return parse_config(files.read_regular(path, MAX_CONFIG)[0])
        with open(path, "rb") as file:
            return parse_config(file.read(MAX_CONFIG + 1))
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from error
    except OSError as error:
        raise DecodeError(f"{where}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path
        raise DecodeError(f"{where}: cannot be read: {error}") from error


def parse_config(document: bytes) -> dict[str, Any]:
    """Return the OCI configuration in a document.

    :raises DecodeError: if it is too long, or not a JSON object.
    """
    if len(document) > MAX_CONFIG:
        raise DecodeError(f"has more than {MAX_CONFIG} bytes, expected an OCI config.json")
    return _is_object(gojson.loads(document, keeps_lone=True), "the document")


SANDBOX_ID_KEYS = (
    "io.kubernetes.cri.sandbox-id",  # containerd
    "io.kubernetes.cri-o.SandboxID",  # CRI-O
)
"""The annotations in which runtimes write the id of a container's pod sandbox."""


KIND_KEY = "io.kubernetes.cri.container-type"
"""The annotation in which containerd's CRI plugin writes ``sandbox`` or ``container``."""


def sandbox_id_in(annotations: Mapping[str, str]) -> str:
    """Return the id of the pod sandbox of a container with these annotations, "" for none.

    It is "" also if they name two: on each runtime a pod can write the annotation of the other one.
    """
    ids = {annotations[key] for key in SANDBOX_ID_KEYS if annotations.get(key)}
    return ids.pop() if len(ids) == 1 else ""


def request(state: str, id_: str, spec: Spec, pid: int = 0) -> Request:
    """Return the request about a container, with the sandbox that its annotations name."""
    return Request(
        state=State(state), id=id_, pid=pid, spec=spec, sandbox_id=sandbox_id_in(spec.annotations)
    )


SHOWN_APART = ("resources", "namespaces", "cgroupsPath")
"""The keys of ``linux`` that a spec has at its top, and not in its ``linux``."""


def spec_from_oci(config: dict[str, Any], *, adjustable: bool = False) -> Spec:
    """Return the part that plugins see: resources of Linux or Windows, namespaces, cgroupsPath, annotations.

    :param adjustable: add what a plugin can adjust: the process, mounts, hooks and the other keys of ``linux``.
    :raises DecodeError: if a part of ``config`` has a type that the OCI specification does not allow.
    """
    annotations = string_map(config.get("annotations"), "annotations")
    if config.get("linux") is None:
        windows = _object(config.get("windows"), "windows")
        return Spec(resources=windows.get("resources"), annotations=annotations)
    linux = _object(config["linux"], "linux")
    resources = linux.get("resources")
    _object(resources, "linux.resources")  # which stays null if it is
    namespaces = {}
    for index, item in enumerate(_array(linux.get("namespaces"), "linux.namespaces")):
        where = f"linux.namespaces[{index}]"
        namespace = _object(item, where)
        namespaces[string(namespace.get("type"), f"{where}.type")] = string(
            namespace.get("path"), f"{where}.path"
        )
    path = string(linux.get("cgroupsPath"), "linux.cgroupsPath")
    spec = Spec(
        resources=resources, namespaces=namespaces, cgroups_path=path, annotations=annotations
    )
    if not adjustable:
        return spec
    others = {key: value for key, value in linux.items() if key not in SHOWN_APART}
    return spec.replace(
        process=config.get("process"),
        mounts=config.get("mounts"),
        hooks=config.get("hooks"),
        linux=others,
    )


def oci_from_spec(spec: Spec) -> dict[str, Any]:
    """Return an OCI configuration with what plugins see of it: the reverse of ``spec_from_oci``.

    :raises DecodeError: if ``spec.linux`` is not an object.
    """
    namespaces = []
    for kind, path in spec.namespaces.items():
        namespace = {"type": kind}
        if path:
            namespace["path"] = path
        namespaces.append(namespace)

    shown = {
        "resources": spec.resources,
        "namespaces": namespaces,
        "cgroupsPath": spec.cgroups_path,
    }
    parts = {"process": spec.process, "mounts": spec.mounts, "hooks": spec.hooks}
    return {
        "annotations": dict(spec.annotations),
        **{key: part for key, part in parts.items() if part is not None},
        "linux": _object(spec.linux, "spec.linux") | shown,
    }


def _object(value: object, where: str) -> dict[str, Any]:
    """Return an object; {} for null."""
    if value is None:
        return {}
    return _is_object(value, where)


def _is_object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise mismatch(value, where, "an object")
    return value


def _array(value: object, where: str) -> list[Any]:
    """Return an array; [] for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise mismatch(value, where, "an array")
    return value


MAX_STATE = 1024 * 1024
"""Bytes of a state that are accepted; a real one has some thousands."""

EXPECTED = "expected what an OCI runtime writes"


class OCIState:
    """A container's state, as runtimes write it for hooks and in answer to ``state`` (OCI specification, "State").

    :param source: where the document comes from, for messages.
    :raises DecodeError: if the document is not a valid state.
    """

    def __init__(self, document: bytes, source: str = "on stdin") -> None:
        try:
            if len(document) > MAX_STATE:
                raise DecodeError(f"found more than {MAX_STATE} bytes")
            value = _is_object(gojson.loads(document), "the document")
            self.id = string(value.get("id"), "id")
            self.pid = integer(value.get("pid"), "pid")
            self.bundle = string(value.get("bundle"), "bundle")
            status = value.get("status")
            self.status = status if isinstance(status, str) else ""  # a hook does not need it
            self.annotations = string_map(value.get("annotations"), "annotations")
            if not self.id:
                raise DecodeError("id: found nothing, expected the container's")
            if not self.bundle.startswith("/"):
                raise DecodeError(f"bundle: found {self.bundle!r}, expected an absolute path")
        except DecodeError as error:
            raise DecodeError(f"the container's state {source}: {error}; {EXPECTED}") from None

    def spec(self) -> Spec:
        """Return what plugins see of the container, as its bundle says now.

        :raises DecodeError: the bundle has no configuration.
        """
        spec = spec_from_oci(
            read_config(os.path.join(self.bundle, "config.json"), must_be_file=True)
        )
        spec.annotations.update(self.annotations)
        return spec
