"""Run a plugin for one request: in this process, or as a process of its own."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from nri import skel
from nri.adjust import Abilities, AdjustError, Changes
from nri.client.oci import oci_from_spec
from nri.process.conversation import BrokenOffError, launch, readable
from nri.skel import Plugin
from nri.testing.cgroup_tree import CgroupTree
from nri.types import DecodeError, gojson
from nri.types.gojson import shorten
from nri.types.v1 import Request, Result, State

Asked = Request | Mapping[str, Any]

TIMEOUT = 10.0
"""Seconds that an executable has for a request, as on a node."""


def invoke(plugin: skel.Plugin, request: Asked) -> Result:
    """Return a plugin's result for a request, as ``nri.skel.main`` would write it.

    The request goes through JSON and ``nri.skel.run``, so an exception becomes the result's ``error`` and a wrong
    request is refused. The plugin's stderr, with the traceback of an exception, is written to this process's. The
    changes that the result asks for are judged as a host judges them, which can apply them all.

    :param request: a ``Request``, or its decoded JSON.
    :raises AssertionError: the plugin wrote no result, or asks for changes that every host refuses; the message has
        its stderr.
    """
    stdout = io.BytesIO()
    stderr = io.StringIO()
    document = _document(request)
    status = skel.run(plugin, [plugin.type, "invoke"], io.BytesIO(document), stdout, stderr)
    said = stderr.getvalue()
    who = f"plugin {plugin.type!r}"
    sys.stderr.write(said)
    ending = f"exit status {status}" if status else ""
    result = _result(who, stdout.getvalue(), said, ending)
    if is_without_cgroup(result.error):
        sys.stderr.write(
            "nri.testing: the container's cgroup is missing: nri_cgroups.add(container) makes it\n"
        )
    return _judged(who, document, result, said)


def run(executable: str | os.PathLike[str], request: Asked, *, timeout: float = TIMEOUT) -> Result:
    """Return the result of an executable for a request: a process under the contract, started as a node's host does.

    It gets ``TYPE invoke`` as arguments, where TYPE is the file's name, and the environment of plugins on a node.

    :param request: as for ``invoke``.
    :param timeout: seconds until it is killed, with its children.
    :raises AssertionError: it failed in the sense of docs/spec.md, other than by an ``error`` in its result; the
        message has its exit status and the end of its stderr.
    """
    path = os.path.abspath(executable)
    name = os.path.basename(path)
    lines: list[str] = []
    document = _document(request)
    try:
        output = launch(
            path, [name, "invoke"], document, time.monotonic() + timeout, log=lines.append
        )
    except BrokenOffError as error:
        raise AssertionError(f"{path} could not be waited for or read: {error.strerror}") from error
    except OSError as error:
        raise AssertionError(
            f"{path} cannot be started: {error.strerror}; expected an executable file"
        ) from error
    said = "".join(f"{line}\n" for line in lines)
    if output.stopped:
        reasons = {
            "deadline": f"no result after {timeout:g} s",
            "output": "it wrote too much to stdout",
        }
        raise AssertionError(_failed(path, f"was killed: {reasons[output.stopped]}", said))
    result = _result(path, output.stdout, said, output.ending)
    if output.ending and not result.error:
        raise AssertionError(
            _failed(path, f"wrote a result without error, but: {output.ending}", said)
        )
    return _judged(path, document, result, said)


def _document(request: Asked) -> bytes:
    if isinstance(request, Request):
        return request.to_json()
    return gojson.dumps(dict(request))


def _result(who: str, stdout: bytes, stderr: str, ending: str) -> Result:
    also = f"; {ending}" if ending else ""
    if not stdout.strip():
        raise AssertionError(_failed(who, f"wrote no result{also}", stderr))
    try:
        return Result.from_json(stdout)
    except DecodeError as error:
        wrote = shorten(readable(stdout[:4096].strip()), 200)
        raise AssertionError(
            _failed(who, f"wrote no valid result: {error}: {wrote}{also}", stderr)
        ) from error


def _judged(who: str, document: bytes, result: Result, stderr: str) -> Result:
    """Return the result if a host takes the changes that it asks for."""
    asks = bool(result.adjust or result.updates or result.cgroups_path)
    if asks and not result.error:
        try:
            take_changes(Request.from_json(document), result)
        except (AdjustError, DecodeError) as error:
            raise AssertionError(
                _failed(who, f"asks for changes that a host refuses: {error}", stderr)
            ) from error
    return result


def is_without_cgroup(error: str) -> bool:
    """Return whether a plugin's error is that the container has no cgroup: on a node a made-up one has none."""
    return " cgroup for cgroupsPath " in error and "does not exist" in error


def take_changes(request: Request, result: Result) -> None:
    """Take the changes that a result asks for, as a host does that can apply them all.

    :raises nri.adjust.AdjustError: it refuses them; or DecodeError, if they have another form.
    """
    Changes(Abilities(), oci_from_spec(request.shown)).take(result.plugin, request, result)


def _failed(who: str, ending: str, stderr: str) -> str:
    if stderr:
        return f"{who} {ending}\nits stderr:\n{stderr}"
    return f"{who} {ending}\nits stderr is empty"


# The check that repeated and lone requests do no harm: a second ``create``, an ``update``, a lone ``delete``.


def assert_idempotent(plugin: Plugin, request: Request, tree: CgroupTree | None = None) -> None:
    """Check that a plugin stands repeated and lone requests about a container. The metadata may differ.

    - ``delete`` without a ``create`` has no error, and writes nothing;
    - ``create`` has no error; a second one has no error either, changes no file, and asks for the same changes;
    - ``update`` after it has no error, and changes nothing that ``create`` did not;
    - ``delete`` after all has no error.

    :param request: the ``create`` of a container; or its ``setup``, which then stands for ``create`` above.
    :param tree: the active tree that the plugin writes to; without one only the results are compared.
    :raises AssertionError: it names the step, and says how it differs.
    """
    state = str(request.state)
    if request.state not in (State.CREATE, State.SETUP):
        raise ValueError(
            f"the request is of state {state!r}: expected 'create' or 'setup', whose repetition counts"
        )
    record = [] if tree is None else tree.writes
    delete = request.replace(state=State.DELETE)
    _step(plugin, delete, record, f"delete without a {state}", writes=False)
    first = _step(plugin, request, record, f"the first {state}")
    second = _step(plugin, request, record, f"the second {state}", writes=False)
    for attribute in ("adjust", "updates", "cgroups_path"):
        was = getattr(first, attribute)
        is_ = getattr(second, attribute)
        if was != is_:
            values = f"found {is_!r}, expected {was!r}"
            raise AssertionError(
                f"{plugin.type}: the second {state} differs from the first in {attribute}: {values}"
            )
    update = request.replace(state=State.UPDATE)
    _step(plugin, update, record, f"update after {state}", writes=False)
    _step(plugin, delete, record, f"delete after {state}")


def _step(
    plugin: Plugin,
    request: Request,
    record: list[tuple[str, str]],
    name: str,
    *,
    writes: bool = True,
) -> Result:
    """Do one step; with ``writes=False`` it must write nothing.

    :param record: the writes of the tree.
    """
    before = len(record)
    result = invoke(plugin, request)
    if result.error:
        raise AssertionError(f"{plugin.type}: {name} has the error {result.error!r}: expected none")
    new = record[before:]
    if new and not writes:
        wrote = ", ".join(f"{file} = {text!r}" for file, text in new)
        raise AssertionError(f"{plugin.type}: {name} wrote {wrote}: expected nothing to be written")
    return result
