"""``update``: plugins may change the new resources (``resize``), and hear when they are in place (``update``)."""

from __future__ import annotations

import os

from nri.errors import NRIError, escape
from nri.runtime.commandline import RESOURCES
from nri.runtime.invocation import request, spec_of
from nri.types import DecodeError, gojson
from nri.types.jsonobject import mismatch
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.runtime.commandline import Given
    from nri.runtime.invocation import Invocation

MAX_RESOURCES = 1024 * 1024
"""Bytes of a document of resources that are accepted; a real one has some hundreds."""

_PATHS = {
    "blkio-weight": ("blockIO", "weight"),
    "cpu-period": ("cpu", "period"),
    "cpu-quota": ("cpu", "quota"),
    "cpu-share": ("cpu", "shares"),
    "cpu-burst": ("cpu", "burst"),
    "cpu-rt-period": ("cpu", "realtimePeriod"),
    "cpu-rt-runtime": ("cpu", "realtimeRuntime"),
    "cpu-idle": ("cpu", "idle"),
    "cpuset-cpus": ("cpu", "cpus"),
    "cpuset-mems": ("cpu", "mems"),
    "kernel-memory": ("memory", "kernel"),
    "kernel-memory-tcp": ("memory", "kernelTCP"),
    "memory": ("memory", "limit"),
    "memory-reservation": ("memory", "reservation"),
    "memory-swap": ("memory", "swap"),
    "pids-limit": ("pids", "limit"),
}
"""The place of each option of :data:`RESOURCES` in ``linux.resources``."""

_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def update(call: Invocation) -> int:
    """Run ``resize``, the real runtime with the resources that plugins want, and ``update``; return the status."""
    chains = call.chains()
    id_ = call.container_id()
    if not id_ or not chains.wants(State.RESIZE, State.UPDATE):
        call.real.execute(call.line.words)
    document = _read(call.line.value("resources"))
    asked = _parse(document) if document is not None else resources_of(call.line.options)
    if (state := call.state(id_)) is None:
        raise NRIError("the container has no state; expected one that exists")
    spec = spec_of(state)
    wanted = asked
    about = request(State.RESIZE, id_, spec.replace(resources=asked), state.pid)
    if chains.wants(State.RESIZE, asked=about):
        changes = call.changes()
        chains.run(about, changes=changes)
        wanted = changes.resources(id_, asked)
        call.apply_updates(changes, except_for=id_)
    if wanted != asked:
        document = gojson.dumps(wanted)
    status = call.real.run(call.line.words) if document is None else _update(call, id_, document)
    if status == 0:
        try:
            chains.run(request(State.UPDATE, id_, spec.replace(resources=wanted), state.pid))
        except NRIError as error:  # the limits are in place already
            call.report.error(str(error))
    return status


def resources_of(options: Iterable[Given]) -> dict[str, Any]:
    """Return the resources that options of the command line ask for, as an OCI configuration has them.

    :raises DecodeError: if a value is not understood.
    """
    resources: dict[str, Any] = {}
    for option in options:
        if option.name in RESOURCES and option.value:
            kind, key = _PATHS[option.name]
            resources.setdefault(kind, {})[key] = _value(option)
    return resources


def _value(option: Given) -> int | str:
    text = option.value.strip()
    if option.name.startswith("cpuset-"):
        return text
    try:
        return int(text)
    except ValueError:
        if "memory" in option.name and (number := _bytes(text)) is not None:
            return number
    expected = "a number of bytes, or one like 512M" if "memory" in option.name else "a whole number"
    raise DecodeError(f"--{option.name}: found {gojson.shorten(repr(option.value))}, expected {expected}")


def _bytes(text: str) -> int | None:
    """Return the bytes of a size such as ``512M`` or ``1.5 GiB``, as docker's units.RAMInBytes does."""
    digits = text.rstrip("bBiIkKmMgGtTpP ")
    unit = text[len(digits) :].strip().lower()
    power = (
        _UNITS.get(unit[:1])
        if unit in ("", "b", *(f"{u}{end}" for u in "kmgtp" for end in ("", "b", "ib")))
        else None
    )
    try:
        return None if power is None else int(float(digits) * 1024**power)
    except (ValueError, OverflowError):
        return None


def _read(path: str) -> bytes | None:
    """Return the document that ``--resources`` names; None if there is none."""
    if not path:
        return None
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            document = file.read(MAX_RESOURCES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DecodeError(f"--resources {escape(path)}: cannot be read: {reason}") from error
    if len(document) > MAX_RESOURCES:
        raise DecodeError(f"--resources {escape(path)}: found more than {MAX_RESOURCES} bytes, expected resources")
    return document


def _parse(document: bytes) -> dict[str, Any]:
    try:
        value = gojson.loads(document)
        if not isinstance(value, dict):
            raise mismatch(value, "the document", "an object")
    except DecodeError as error:
        raise DecodeError(f"--resources: {error}") from error
    return value


def _update(call: Invocation, id_: str, document: bytes) -> int:
    """Run the real update with a document on its stdin, and with the options that are no part of it."""
    others = [word for each in call.line.options if each.name not in (*RESOURCES, "resources") for word in each.words]
    before = [word for each in call.line.before for word in each.words]
    stdin = os.memfd_create("resources", os.MFD_CLOEXEC)
    try:
        with open(stdin, "wb", closefd=False) as file:
            file.write(document)
        os.lseek(stdin, 0, os.SEEK_SET)
        return call.real.run([*before, "update", *others, "--resources", "-", id_], stdin=stdin)
    finally:
        os.close(stdin)
