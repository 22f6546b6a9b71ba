"""Log each request that comes, and what the plugins before it in the chain have asked for.

It changes nothing. Most of what is logged was written by a pod: whatever is in it, a document has a bounded size, and
is ASCII. The same plugin may be in a chain several times: each one logs what was asked for since the last. A log of
requests has what pods say about themselves, and with ``env`` also their secrets: only root can read it.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from nri import __version__, skel
from nri.errors import NRIError, escape
from nri.skel import Plugin
from nri.types import fields, gojson
from nri.types.conf import Conf
from nri.types.gojson import shorten
from nri.types.table import text, words
from nri.types.v1 import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request, Result

FIELDS = (
    "time",
    "state",
    "id",
    "sandboxID",
    "pid",
    "late",
    "changes",
    "labels",
    "spec",
    "results",
    "env",
)
"""What can be logged: ``changes`` is what plugins asked for, ``env`` the values of environment variables."""

_OF_A_CHANGE = ("plugin", "cgroupsPath", "adjust", "updates", "metadata")

DEFAULT_FIELDS = FIELDS[:9]

MAX_DOCUMENT = 64 * 1024
"""Bytes of a document in a file."""

MAX_LINE = 3072
"""Bytes of a document on stderr: hosts cut a line after 4096."""

_HIDDEN = _LEFT_OUT = "…"


class LoggerConf(Conf):
    """The plugin conf of ``logger``."""

    file: str | None = fields.value(
        text(
            2,
            4095,
            matches=fields.PATH.accepts,
            pattern=r"^/[^\u0000]*$",
            expected="an absolute path",
        ),
        "the log: appended to, created with mode 0600, no link; without it stderr, and so the "
        "host's log",
        default=None,
    )
    states: tuple[str, ...] = fields.array(
        words(*STATES),
        "states that are logged, of those in the entry's states",
        unique=True,
        default=[*map(str, STATES)],
    )
    fields: tuple[str, ...] = fields.array(
        words(*FIELDS),
        "parts that are logged",
        unique=True,
        default=list(DEFAULT_FIELDS),
    )


class Logger(Plugin):
    """The plugin ``logger``: writes each request as one document to a file, or to stderr."""

    type = "logger"
    version = __version__
    description = "Logs requests, and what the plugins before it have asked for."
    resident = True
    uses = ("nri.files",)
    acts_on = STATES
    conf_class = LoggerConf

    def invoke(self, request: Request, conf: LoggerConf) -> Result:
        """Write the document of a request."""
        if request.state in conf.states:
            _log(request, conf, self.type)
        return request.new_result(self.type)


def _log(request: Request, conf: LoggerConf, type_: str) -> None:
    document = _document(request, conf, type_)
    if conf.file is None:
        sys.stderr.write(render(document, MAX_LINE).decode())
    else:
        _append(conf.file, render(document, MAX_DOCUMENT))


def _document(request: Request, conf: LoggerConf, type_: str) -> dict[str, Any]:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    value = request.to_value()
    value["time"] = f"{stamp}.{int(now % 1 * 1000):03}Z"
    value["changes"] = [_change(result) for result in _since_last(request.results, type_)]
    if "env" not in conf.fields:
        value = _without_env(value)
    wanted = value.keys() & conf.fields
    return {key: value[key] for key in FIELDS if key in wanted}


def _since_last(results: tuple[Result, ...], type_: str) -> list[Result]:
    """Return the results of the plugins that ran since the last one of this type."""
    tail: list[Result] = []
    for result in results:
        tail = [] if result.plugin == type_ else [*tail, result]
    return tail


def _change(result: Result) -> dict[str, Any]:
    value = result.to_value()
    return {key: value[key] for key in _OF_A_CHANGE if key in value}


def _without_env(value: Any) -> Any:
    """Return a copy of a document in which environment variables of processes and hooks have no values."""
    if isinstance(value, list):
        return [_without_env(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {}
    for key, item in value.items():
        if key == "env":
            shown[key] = _names(item)
        else:
            shown[key] = _without_env(item)
    return shown


def _names(env: Any) -> Any:
    """Return variables without values; a string is not one of them, but a label or annotation that is called env."""
    if isinstance(env, dict):
        names = dict.fromkeys(env, _HIDDEN)
        names |= {name: None for name, value in env.items() if value is None}
        return names
    if isinstance(env, list):
        return [f"{str(variable).partition('=')[0]}={_HIDDEN}" for variable in env]
    return env


def _append(path: str, data: bytes) -> None:
    """Append a document to a file with one write, so that those of processes that run at once do not mix.

    :raises NRIError: it cannot be written, or only in part.
    """
    from nri.files import open_log

    shown = escape(shorten(path, 200))
    try:
        fd = open_log(path)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NRIError(
                    f"the log {shown} is not a regular file; expected one, or a path where one "
                    "can be made"
                )
            written = os.write(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        reason = f"{error.strerror}; expected a file, not a link, that root can append to"
        raise NRIError(f"the log {shown} cannot be written: {reason}") from error
    if written < len(data):
        raise NRIError(
            f"the log {shown} took {written} of {len(data)} bytes; expected room for all"
        )


def render(document: dict[str, Any], limit: int) -> bytes:
    """Return a document as JSON on a line of its own, of *limit* bytes at most.

    If it is longer, the largest of its values, and of those in ``spec``, are replaced by their sizes.
    """
    shown = dict(document)
    parts = [shown]
    if isinstance(spec := document.get("spec"), dict):
        parts.append(dict(spec))
        shown["spec"] = parts[1]
    sized = []
    for part in parts:
        for key in part:
            if part[key] is not parts[-1]:
                sized.append((len(_line(part[key])), part, key))

    left = len(_line(shown))
    for size, part, key in sorted(sized, key=lambda entry: -entry[0]):
        if left <= limit:
            break
        part[key] = f"{_LEFT_OUT} {size} bytes"
        left -= size - len(_line(part[key]))
    if left <= limit:
        return _line(shown)
    return _line({_LEFT_OUT: f"{left} bytes"})


def _line(value: Any) -> bytes:
    return gojson.dumps(value).replace(b"\x7f", b"\\u007f") + b"\n"


def main() -> None:
    """Run the plugin as this process."""
    skel.main(Logger())
