"""``nri status --check`` and ``--alive``: a line and an exit status, for probes every few seconds on every node.

So it is parsed here, without click, and imports little. Only a valid command line is parsed; click, which has the
same options, handles all others.
"""

from __future__ import annotations

import json
import os

from nri.errors import NRIError
from nri.places import DEFAULT_RECORD_FILE, beside
from nri.status import client
from nri.status.judging import DEGRADED, NO_BRIDGE, THRESHOLDS, WELL, Thresholds, Verdict, judge, why_it_hangs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_OPTIONS = 64 * 1024  # bytes
_NUMBERS = {f"--{name.replace('_', '-')}": name for name in THRESHOLDS}


class Probe:
    """The arguments of a probe.

    :param socket: the socket's path.
    :param options_file: the file of the bridge options, for the socket's path.
    :param is_alive: whether it asks only that no bridge hangs: a restart helps against nothing else.
    """

    __slots__ = ("is_alive", "options_file", "socket", "thresholds")

    def __init__(
        self,
        socket: str = "",
        options_file: str = "",
        thresholds: Thresholds | None = None,
        *,
        is_alive: bool = False,
    ) -> None:
        self.socket, self.options_file = socket, options_file
        self.thresholds, self.is_alive = thresholds or Thresholds(), is_alive

    def run(self) -> int:
        """Print the verdict; return its code."""
        verdict = self.judge()
        try:  # not print: the status counts, whatever the encoding or the end of stdout
            os.write(1, verdict.line.encode("utf-8", "backslashreplace") + b"\n")
        except OSError:
            pass
        return verdict.code

    def judge(self) -> Verdict:
        """Ask the bridge, and return the verdict."""
        path = ""
        try:
            path = socket_path(self.socket, self.options_file)
            document = client.status(path)
            if self.is_alive:
                hangs = why_it_hangs(document)
                return Verdict(DEGRADED, [hangs]) if hangs else Verdict(WELL, ["the bridge answers"])
            return judge(document, self.thresholds)
        except client.NoBridgeError as error:
            return Verdict(WELL if self.is_alive else NO_BRIDGE, [str(error)])
        except client.AskError as error:
            return Verdict(NO_BRIDGE, [str(error)])
        except client.UNUSABLE as error:
            return Verdict(NO_BRIDGE, [str(client.unusable(path, error))])


def socket_path(socket: str, options_file: str) -> str:
    """Return the path of the status socket that the options name: itself, or through ``recordFile``.

    :raises AskError: the file of the options cannot be used.
    """
    if socket:
        return socket
    if not options_file:
        return client.DEFAULT_STATUS_SOCKET
    try:
        return beside(_record_file(options_file), ".sock")
    except (OSError, NRIError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise client.AskError(f"{options_file} cannot be used: {why}; expected the bridge options") from None


def _record_file(options_file: str) -> str:
    """Return the path of the record that a file of bridge options names, or the default.

    :raises OSError: the file cannot be read.
    :raises NRIError: it is not a JSON object, or its ``recordFile`` is not a string.
    """
    with open(options_file, "rb") as file:
        document = file.read(_MAX_OPTIONS)
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        raise NRIError("it is not JSON") from None
    if not isinstance(value, dict):
        raise NRIError("it is not a JSON object")
    path = value.get("recordFile") or DEFAULT_RECORD_FILE
    if not isinstance(path, str):
        raise NRIError(f"recordFile is {path!r}, expected an absolute path")
    return path


def parse(words: Sequence[str]) -> Probe | None:
    """Parse the words after ``nri status``; return None for any but a valid probe."""
    given: dict[str, str] = {}
    is_check = is_alive = False
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--check":
            is_check = True
        elif word == "--alive":
            is_alive = True
        elif name in ("--socket", "--config") or name in _NUMBERS:
            given[name] = value if equals else next(rest, "")
            if not given[name]:
                return None
        else:
            return None
    if is_check == is_alive or given.keys() >= {"--socket", "--config"}:
        return None
    bounds: dict[str, float | None] = {}
    for option, name in _NUMBERS.items():
        if option in given:
            bounds[name] = _number(given[option], THRESHOLDS[name][1])
            if bounds[name] is None:
                return None
    return Probe(given.get("--socket", ""), given.get("--config", ""), Thresholds(**bounds), is_alive=is_alive)


def _number(text: str, most: float) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= most else None
