"""Runs an executable that was just built, as a host would: without an environment, in a process group of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nri.authoring.build_errors import BuildError
from nri.client.resident import try_resident
from nri.process.conversation import launch
from nri.types import gojson
from nri.types.v1 import Request, Result

if TYPE_CHECKING:
    from nri.process.conversation import Output

ANSWER_WITHIN = 30.0
"""Seconds that an executable has for one answer: its first start reads it from the disk."""

_NO_MODULE = ("ModuleNotFoundError: ", "ImportError: ")
_HIDE = "import it with an import statement, or build with the interpreter that has it"


def default_request(plugin: str, states: list[str], conf: Any) -> Request:
    """Return a request for a container that does not exist, in the first state that the plugin acts on."""
    spec = {
        "resources": {"cpu": {"quota": 50000, "period": 100000}},
        "cgroupsPath": f"/nri-build/{plugin}",
        "annotations": {"io.kubernetes.cri.container-name": "nri-build"},
    }
    state = states[0] if states else "create"
    value = {"version": "0.1", "state": state, "id": "nri-build", "sandboxID": "nri-build-pod", "spec": spec}
    return Request.from_json(gojson.dumps(value | ({} if conf is None else {"conf": conf})))


def check_version(executable: str, plugin: str) -> str:
    """Return the stamp of the build that an executable was made from.

    :raises BuildError: when it does not answer, or has another type than its source.
    """
    about = _json(executable, plugin, "version")
    if not isinstance(about, dict) or about.get("type") != plugin:
        raise BuildError(f"{plugin} version: found {gojson.describe(about)}, expected type {plugin!r}")
    return str(about.get("build", "unknown"))


def check_schema(plugin: str, schema: Any) -> None:
    """Check that a plugin's schema is one.

    :raises BuildError: when it is not.
    """
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = "".join([f"/{part}" for part in error.absolute_path]) or "its top"
        message = gojson.shorten(error.message, 200)
        raise BuildError(f"{plugin} schema: no JSON Schema: at {where}: {message}; correct conf_schema") from error


def check_answers(executable: str, plugin: str) -> None:
    """Check ``schema``, and that a request which is no JSON is refused with a message.

    :raises BuildError: when an answer is wrong.
    """
    check_schema(plugin, _json(executable, plugin, "schema"))
    output, lines = _run(executable, plugin, "invoke", b"garbage")
    _find_missing(plugin, "invoke", lines)
    if output.status != 1:
        found = f"{output.ending or 'exit status 0'} ({' '.join(lines[-1:])})"
        raise BuildError(f"{plugin} invoke: for a request that is no JSON found {found}, expected exit status 1")


def check_resident(executable: str, plugin: str) -> None:
    """Start a plugin that opts in as a host does that keeps it running.

    :raises BuildError: when it does not become ready.
    """
    if why := try_resident(executable, plugin):
        raise BuildError(f"{plugin} serve: {why}; change what it does when it is loaded, or remove resident = True")


def check_invoke(executable: str, plugin: str, request: Request) -> str:
    """Send one request; return the error in the plugin's result, or "".

    :raises BuildError: when there is no result, or a module is missing.
    """
    output, lines = _run(executable, plugin, "invoke", request.to_json())
    return read_answer(plugin, output, lines)


def read_answer(plugin: str, output: Output, lines: list[str]) -> str:
    """Return the error in a plugin's result, or "".

    :raises BuildError: when there is no result, or a module is missing.
    """
    _find_missing(plugin, "invoke", lines)
    try:
        result = Result.from_json(output.stdout)
    except ValueError as error:
        said = f"; it wrote to stderr: {lines[-1]}" if lines else ""
        raise BuildError(f"{plugin} invoke: {output.ending or 'no result'}: {error}{said}") from error
    if result.error.startswith(_NO_MODULE):
        raise BuildError(f"{plugin} invoke: {result.error}: the executable lacks it; {_HIDE}")
    return result.error


def _json(executable: str, plugin: str, verb: str) -> Any:
    output, lines = _run(executable, plugin, verb, b"")
    _find_missing(plugin, verb, lines)
    try:
        return gojson.loads(output.stdout)
    except ValueError as error:
        said = f" ({lines[-1]})" if lines else ""
        raise BuildError(f"{plugin} {verb}: found {output.ending or 'no JSON'}{said}, expected JSON") from error


def _run(executable: str, plugin: str, verb: str, stdin: bytes) -> tuple[Output, list[str]]:
    lines: list[str] = []
    try:
        output = launch(executable, [plugin, verb], stdin, time.monotonic() + ANSWER_WITHIN, log=lines.append)
    except OSError as error:
        raise BuildError(f"{executable} can't be started: {error.strerror}") from error
    if output.stopped:
        why = f"no answer within {ANSWER_WITHIN:g} s" if output.stopped == "deadline" else "it wrote too much"
        raise BuildError(f"{plugin} {verb}: killed: {why}")
    return output, lines


def _find_missing(plugin: str, verb: str, lines: list[str]) -> None:
    for line in lines:
        if line.startswith(_NO_MODULE[0]):
            raise BuildError(f"{plugin} {verb}: {line}: the executable lacks it; {_HIDE}")
