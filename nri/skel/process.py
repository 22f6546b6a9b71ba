"""The process of a plugin: ``TYPE invoke`` reads one request from stdin and writes one result to stdout.

Exit status: 0 if a result was written, even one with an error in it; 1 if the request cannot be read or the result
cannot be written; 2 for a wrong command line, and for ``version`` of a plugin that can't be invoked. An unknown verb
is answered with a result whose error is ``invalid arg X``, as Go's skel does.
"""

from __future__ import annotations

import os
import sys
from errno import EAGAIN

from nri.errors import NRIError, escape
from nri.skel.plugin import NO_INVOKE, Plugin, Refusal
from nri.types import DecodeError, EncodeError, gojson
from nri.types.v1 import CHECK, EXTENSIONS, MAX_REQUEST, STATES, VERSION, Request, Result, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_CHUNK = 65536


def main(plugin: Plugin) -> NoReturn:
    """Run ``plugin`` as this process, and exit.

    Other output to stdout, also from C code or a child process of the plugin, goes to stderr: descriptor 1 becomes a
    copy of stderr's, and the result is written to a descriptor of its own.
    """
    if "logging" in sys.modules:
        sys.modules["logging"].basicConfig(
            stream=sys.stderr, format="%(levelname)s: %(message)s", level="INFO"
        )
    if sys.argv[1:2] == ["serve"]:
        _serve(plugin)
    try:
        os.fstat(1)
        while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass  # keep it: the result's descriptor must not become stdin or stderr
        os.close(spare)
        # Unbuffered: the interpreter would report a buffer that cannot be written a second time at its end.
        stdout = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
    except OSError as error:
        _say(
            sys.stderr,
            f"{plugin.type}: stdout cannot be used: {error.strerror}; expected open descriptors "
            "0, 1, 2",
        )
        sys.exit(1)
    stdin = open(0, "rb", closefd=False)  # noqa: SIM115 - /dev/null if it was closed
    status, _ = _answer(plugin, stdin, stdout)
    stdout.close()
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # The interpreter would flush again, and exit with 120 although the result was written.
        sys.stdout = sys.stderr = None
    sys.exit(status)


def _serve(plugin: Plugin) -> NoReturn:
    """Run ``plugin`` as a resident, and exit."""
    reason = _why_not(plugin)
    if reason:
        _refuse_to_serve(plugin, reason)
    if not plugin.resident:
        _refuse_to_serve(plugin, f"class {type(plugin).__name__} is not resident")
    try:
        from nri.skel.resident import serve
    except ImportError as error:
        _refuse_to_serve(plugin, f"a module is missing in the executable: {error.name}")
    serve(plugin, _answer)


def _refuse_to_serve(plugin: Plugin, reason: str) -> NoReturn:
    _say(sys.stderr, f"{plugin.type} serve: {reason}")
    sys.exit(2)


def _answer(plugin: Plugin, stdin: Any, stdout: Any) -> tuple[int, bool]:
    """Run ``plugin`` once with the process's command line; its prints go to stderr.

    :returns: the exit status, and whether the process may go on: False after any exception but an ``NRIError``.
    """
    sys.stdout = sys.stderr
    unexpected: list[BaseException] = []
    try:
        return _run(plugin, sys.argv, stdin, stdout, sys.stderr, unexpected), not unexpected
    except KeyboardInterrupt:
        return 130, False


def run(plugin: Plugin, argv: Sequence[str], stdin: Any, stdout: Any, stderr: Any) -> int:
    """Run ``plugin`` once, as Go's ``skel.Run`` does, and return the exit status.

    :param argv: as ``sys.argv``: the program's name, then the verb.
    :param stdin: a binary or text file with the request.
    :param stdout: a binary or text file for the result.
    :param stderr: a text file for everything else.
    """
    return _run(plugin, argv, stdin, stdout, stderr, [])


def _run(
    plugin: Plugin,
    argv: Sequence[str],
    stdin: Any,
    stdout: Any,
    stderr: Any,
    unexpected: list[BaseException],
) -> int:
    if len(argv) < 2:
        _say(stderr, f"usage: {plugin.type} invoke < REQUEST.json (or --help, version, schema)")
        return 2
    verb = argv[1]
    reason = _why_not(plugin) if verb in ("version", "--version") else ""
    if reason:
        _say(stderr, f"{plugin.type}: {reason}")
        return 2
    if verb in ABOUT:
        return _write(plugin, ABOUT[verb](plugin).encode(), stdout, stderr)
    if verb == "check":
        return _check(plugin, stdin, stdout, stderr)
    try:
        document = _read(stdin)
        if len(document) > MAX_REQUEST:
            raise DecodeError(f"found more than {MAX_REQUEST} bytes, expected one request")
        # The plugin gets texts alone, and no lone surrogates, which Python can neither print nor open.
        request = Request.from_value(gojson.loads(document), "request")
    except DecodeError as error:
        _say(stderr, f"{plugin.type}: the request on stdin: {error}")
        return 1
    except OSError as error:
        _say(stderr, f"{plugin.type}: stdin cannot be read: {error.strerror}; expected a request")
        return 1
    try:
        answer = _invoke(plugin, request, verb, stderr, unexpected).to_json()
    except EncodeError as error:
        answer = _failure(plugin, request, f"its result: {error}").to_json()
    return _write(plugin, answer + b"\n", stdout, stderr)


def _check(plugin: Plugin, stdin: Any, stdout: Any, stderr: Any) -> int:
    """Write the verdict on the conf on stdin: what is wrong with it, and what an operator should know."""
    try:
        document = _read(stdin)
        conf = gojson.loads(document) if document.strip() else None
    except (DecodeError, OSError) as error:
        _say(stderr, f"{plugin.type}: the conf on stdin: {error}; expected JSON")
        return 1
    verdict = {
        "type": plugin.type,
        "checks": plugin.conf_class is not None,
        "faults": [],
        "notes": [],
    }
    if plugin.conf_class is not None:
        verdict |= _judged(plugin, plugin.conf_class, conf)
    return _write(plugin, gojson.dumps(verdict) + b"\n", stdout, stderr)


def _judged(plugin: Plugin, conf_class: Any, conf: Any) -> dict[str, Any]:
    """Return the faults and notes of a conf: ``path`` (keys and indices), ``message``, and ``atKey``."""
    from itertools import islice

    from nri.types.conf import MAX_FAULTS
    from nri.types.table_explained import faults

    value = {} if conf is None else conf
    found = [*islice(faults(conf_class.table, value), MAX_FAULTS)]
    if found:
        return {
            "faults": [
                {"path": path, "message": wrong, "atKey": at_key} for path, wrong, at_key in found
            ]
        }
    try:
        read = conf_class.from_value(conf)
        return {"faults": [*plugin.faults(read)], "notes": [*plugin.notes(read)]}
    except NRIError as error:
        return {"faults": [{"path": [], "message": str(error), "atKey": False}]}


def _invoke(
    plugin: Plugin, request: Request, verb: str, stderr: Any, unexpected: list[BaseException]
) -> Result:
    if verb != "invoke":
        return _failure(plugin, request, f"invalid arg {verb}")
    reason = _why_not(plugin)
    if reason:
        return _failure(plugin, request, reason)
    try:
        result = answer_of(plugin, request)
    except SystemExit as exit_:
        unexpected.append(exit_)
        return _failure(plugin, request, f"it tried to exit with {exit_.code!r}; expected a result")
    except Exception as error:
        if not isinstance(error, NRIError):
            unexpected.append(error)
            _say_traceback(error, stderr)
        return _failure(plugin, request, _message(error), refused=isinstance(error, Refusal))
    if not isinstance(result, Result):
        shown = gojson.describe(result)
        return _failure(
            plugin,
            request,
            f"invoke returned {shown}; expected request.new_result({plugin.type!r})",
        )
    if result.adjust and request.extensions.get("adjust", 0) < 1:
        return _failure(plugin, request, _why_not_adjusted(request, result.adjust))
    return result


def _message(error: Exception) -> str:
    """Return the error of a result: ``KeyError: 'max'``, not ``'max'``; of an NRIError its message."""
    name = type(error).__name__
    text = str(error)
    if not text:
        return name
    if isinstance(error, NRIError):
        return text
    return f"{name}: {text}"


def _say_traceback(error: Exception, stderr: Any) -> None:
    """Print the traceback of an error from the plugin's own line on."""
    import traceback

    place: Any = error.__traceback__
    while place.tb_next and place.tb_frame.f_globals is globals():
        place = place.tb_next
    for part in traceback.format_exception(type(error), error, place):
        # The message is foreign text, and must stay one line.
        is_ours = part.startswith(("Traceback", "  ", "\n"))
        for line in part.rstrip("\n").split("\n") if is_ours else [part.rstrip("\n")]:
            _say(stderr, line)


def _why_not_adjusted(request: Request, adjust: Any) -> str:
    """Return why changes of a container cannot be in answer to a request."""
    if request.state != State.SETUP:
        return f"found adjust in answer to {request.state}, expected it in answer to setup alone"
    if isinstance(adjust, dict):
        asked = gojson.shorten(", ".join(map(str, adjust)))
    else:
        asked = gojson.describe(adjust)
    return (
        "the request lacks the extension adjust: this host would drop what is asked for "
        f"({asked}); expected a host that applies changes"
    )


def answer_of(plugin: Plugin, request: Request) -> Any:
    """Return what the plugin returns; an empty result for a state that it does not act on, and from a plugin that
    grants something, if it is not known whether the condition of its entry holds.

    :param plugin: one that can handle requests.
    :raises DecodeError: its conf is wrong.
    """
    if not _is_for(plugin, request):
        if request.state == CHECK and plugin.conf_class is not None:
            plugin.conf_class.from_value(request.conf)
        return request.new_result(plugin.type)
    if request.state == State.SETUP:
        _check_extensions(plugin, request)
    if plugin.grants and request.undecided:
        reason = (
            f'"when": {request.undecided}; "unknown": "run" in it would let {plugin.type} work '
            "all the same"
        )
        return request.new_result(plugin.type, metadata={"ignored": reason})
    if plugin.conf_class is None:
        return plugin.invoke(request)
    return plugin.invoke(request, plugin.conf_class.from_value(request.conf))


def _is_for(plugin: Plugin, request: Request) -> bool:
    """Return whether a plugin acts on a request."""
    if not plugin.acts_on or request.state in plugin.acts_on:
        return True
    return request.release and plugin.releases


def _check_extensions(plugin: Plugin, request: Request) -> None:
    """Compare the extensions that a plugin needs with those of the request.

    :raises NRIError: the host lacks one.
    """
    for name in plugin.needs:
        if name not in request.extensions:
            expected = _EXPECTED_INSTEAD.get(name, "expected a host that has it")
            raise NRIError(f"the request lacks the extension {gojson.shorten(name)}: {expected}")


def schema_of(plugin: Plugin) -> Any:
    """Return the JSON Schema of the plugin conf; True, which accepts anything, for a plugin that declares none."""
    if plugin.conf_schema is not None:
        return plugin.conf_schema
    if plugin.conf_class is None:
        return True
    return plugin.conf_class.schema()


def _why_not(plugin: Plugin) -> str:
    """Return the reason why the plugin can't handle any request, or "" if it can."""
    if isinstance(plugin, type):
        return (
            f"found the class {plugin.__name__}, expected an object of it: "
            f"skel.main({plugin.__name__}())"
        )
    method = getattr(plugin, "invoke", None)
    if not callable(method) or getattr(method, "__func__", None) is Plugin.invoke:
        return f"class {type(plugin).__name__} {NO_INVOKE}"
    code = getattr(getattr(method, "__func__", None), "__code__", None)
    if code is None or code.co_flags & 0x0C:  # with *args or **kwargs
        return _wrong_attribute(plugin)
    given = 2
    expected = "has no conf_class; expected the method invoke(self, request)"
    if getattr(plugin, "conf_class", None) is not None:
        given = 3
        expected = "has a conf_class; expected the method invoke(self, request, conf)"
    needed = code.co_argcount - len(method.__defaults__ or ())
    if not needed <= given <= code.co_argcount:
        return f"class {type(plugin).__name__} {expected}"
    return _wrong_attribute(plugin)


_EXPECTED_INSTEAD = {
    "configuration": "this host shows a part of the OCI configuration; "
    "expected nri-runc, nri-crun or a host that has it"
}
"""What is right where a host lacks an extension, if that is more than another host."""


def _wrong_attribute(plugin: Plugin) -> str:
    some_states = f"some of {', '.join(STATES)}: acts_on = (State.CREATE,)"
    right = {
        "uses": f"modules: uses = ({plugin.uses!r},)",
        "needs": f"extensions: needs = ({plugin.needs!r},)",
        "acts_on": some_states,
    }
    where = f"class {type(plugin).__name__}"
    for name, items in right.items():
        value: Any = getattr(plugin, name)
        if isinstance(value, str):  # a text would be taken for its letters
            return f"{where}: {name}: found {str(value)!r}, expected a tuple of {items}"
    for state in plugin.acts_on or ():
        if state not in STATES:
            return f"{where}: acts_on: found {state!r}, expected a tuple of {some_states}"
    return ""


def _failure(plugin: Plugin, request: Request, message: str, *, refused: bool = False) -> Result:
    # containerd 1.6 prints a result's error unescaped.
    return Result(
        plugin=plugin.type, version=request.version, error=escape(message), refused=refused
    )


def _help(plugin: Plugin) -> str:
    lines = [
        f"{plugin.type} {plugin.version}".rstrip()
        + f", a plugin of the Node Resource Interface v{VERSION}"
    ]
    if plugin.description:
        lines += ["", plugin.description.strip()]
    lines += [
        "",
        f"usage: {plugin.type} invoke     read one request on stdin, write one result on stdout",
        f"       {plugin.type} version    its version and that of the contract, as JSON",
        f"       {plugin.type} schema     the JSON Schema of its conf",
        f"       {plugin.type} check      read a conf on stdin, write what is wrong with it, as JSON",
    ]
    from nri.skel.conf_help import lines_of

    lines += lines_of(schema_of(plugin))
    return "\n".join(lines) + "\n"


def _version(plugin: Plugin) -> str:
    from nri.types.serve import VERSION as SERVE_VERSION
    from nri.version import describe

    about: dict[str, Any] = {
        "type": plugin.type,
        "version": plugin.version,
        "nri": VERSION,
        "extensions": EXTENSIONS,
    }
    if plugin.acts_on:
        about["states"] = [*plugin.acts_on]
    for key, has_it in (
        ("releases", plugin.releases),
        ("createSuffices", plugin.create_suffices),
        ("grants", plugin.grants),
    ):
        if has_it:
            about[key] = True
    if plugin.resident:
        about["resident"] = SERVE_VERSION
    about["build"] = describe()
    return gojson.dumps(about).decode() + "\n"


def _schema(plugin: Plugin) -> str:
    return gojson.dumps(schema_of(plugin)).decode() + "\n"


ABOUT = {
    "-h": _help,
    "--help": _help,
    "help": _help,
    "version": _version,
    "--version": _version,
    "schema": _schema,
}
"""The verbs that need no request, and the functions that make their answers."""


def _read(stdin: Any) -> Any:
    """Return all of ``stdin``, or more than ``MAX_REQUEST`` bytes of it. Allocate only for what arrives."""
    pieces = []
    size = 0
    while size <= MAX_REQUEST:
        piece = stdin.read(_CHUNK)
        if piece is None:
            raise BlockingIOError(EAGAIN, "there is nothing yet, and it is not to be waited for")
        pieces.append(piece)
        size += len(piece)
        if not piece:
            break
    return piece[:0].join(pieces)


def _write(plugin: Plugin, answer: bytes, stdout: Any, stderr: Any) -> int:
    binary = getattr(stdout, "buffer", stdout)
    left = memoryview(answer)
    try:
        while left:
            try:
                written = binary.write(left)
            except TypeError:  # a text file, which writes everything
                stdout.write(answer.decode())
                break
            if not written:
                raise BlockingIOError(EAGAIN, "it takes no more, and is not to be waited for")
            left = left[written:]
        stdout.flush()
    except (OSError, ValueError) as error:
        _say(stderr, f"{plugin.type}: the result cannot be written to stdout: {error}")
        return 1
    return 0


def _say(stderr: Any, line: str) -> None:
    try:
        stderr.write(escape(line) + "\n")
        stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # there is no other place to report it
