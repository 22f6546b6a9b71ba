"""``update``: plugins may change the new resources (``resize``), and hear when they are in place (``update``).

Engines give the resources as a document, ``--resources``. The options for single values, such as ``--memory``, are
refused where plugins act on new resources.
"""

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
    from typing import Any

    from nri.runtime.invocation import Invocation

MAX_RESOURCES = 1024 * 1024
"""Bytes of a document of resources that are accepted; a real one has some hundreds."""


def update(call: Invocation) -> int:
    """Run ``resize``, the real runtime with the resources that plugins want, and ``update``; return the status."""
    chains = call.chains()
    id_ = call.container_id()
    if not id_ or not chains.wants(State.RESIZE, State.UPDATE):
        call.real.execute(call.line.words)
    if given := [each.name for each in call.line.options if each.name in RESOURCES]:
        raise NRIError(f"found --{given[0]}, expected --resources FILE, since plugins act on new resources")
    document = _read(call.line.value("resources"))
    asked = {} if document is None else _parse(document)
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
    others = [word for each in call.line.options if each.name != "resources" for word in each.words]
    before = [word for each in call.line.before for word in each.words]
    stdin = os.memfd_create("resources", os.MFD_CLOEXEC)
    try:
        with open(stdin, "wb", closefd=False) as file:
            file.write(document)
        os.lseek(stdin, 0, os.SEEK_SET)
        return call.real.run([*before, "update", *others, "--resources", "-", id_], stdin=stdin)
    finally:
        os.close(stdin)
