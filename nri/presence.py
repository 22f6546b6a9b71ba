"""Presence: the small file in which the bridge of a node says whether it is connected, and the probe that reads it.

It has the process with its start time, so a file that a killed bridge has left is not believed. In a cluster a probe
runs every few seconds, so this module imports little.
"""

from __future__ import annotations

import json
import os
import time

from nri import trust
from nri.errors import NRIError, escape
from nri.filekind import describe
from nri.places import DEFAULT_RECORD_FILE, beside
from nri.process.wait import stat_fields

CONNECTED, CONNECTING = "connected", "connecting"
"""The states of a bridge: it has a runtime, or looks for one."""

MAX_SIZE = 64 * 1024
"""Bytes of a file that is read, and of a file of options."""

_START = 19  # field of /proc/PID/stat after the name: the start time in clock ticks since the boot
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def write(path: str, state: str, *, runtime: str = "", version: str = "") -> None:
    """Replace the file at ``path``: this process is a bridge in that state, now.

    :param runtime: the name of the runtime, with its ``version``.
    :raises OSError: when it cannot be written.
    """
    from nri.small_file import replace_file  # late, as a probe does not write

    pid = os.getpid()
    value = {
        "pid": pid,
        "started": int(stat_fields(pid)[_START]),
        "state": state,
        "runtime": runtime,
        "version": version,
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace_file(path, json.dumps(value).encode() + b"\n", part=f"{path}.part", mode=0o600)


def remove(path: str) -> None:
    """Remove the file if this process has written it; it is no error if that fails."""
    try:
        if _read(path).get("pid") == os.getpid():
            os.unlink(path)
    except (OSError, NRIError):
        pass


def judge(path: str) -> tuple[bool, str]:
    """Return whether the bridge of this node is connected, and a line that says so or why not."""
    try:
        value = _read(path)
    except FileNotFoundError:
        return False, f"not connected: no bridge runs here: {path} does not exist"
    except (OSError, NRIError) as error:
        reason = str(error) if isinstance(error, NRIError) else error.strerror or str(error)
        return False, f"not connected: {path} cannot be used: {reason}"
    pid, state = value.get("pid"), value.get("state")
    try:
        lives = isinstance(pid, int) and int(stat_fields(pid)[_START]) == value.get("started")
    except OSError:
        lives = False
    if not lives:
        return False, f"not connected: the bridge with pid {pid} has ended"
    since = f"since {value.get('since')}: pid {pid}"
    if state != CONNECTED:
        return False, f"not connected: the bridge looks for its runtime {since}"
    return True, f"connected to {value.get('runtime')} {value.get('version')} {since}"


def probe(options_file: str = "") -> int:
    """Print one line about the bridge of this node; return 0 if it is connected, else 1.

    :param options_file: the file of the bridge options, whose ``recordFile`` counts.
    """
    try:
        record = record_file(options_file) if options_file else DEFAULT_RECORD_FILE
    except (OSError, NRIError) as error:
        is_connected, line = False, f"not connected: {options_file} cannot be used: {error}"
    else:
        is_connected, line = judge(beside(record, ".state"))
    print(escape(line), flush=True)
    return 0 if is_connected else 1


def record_file(options_file: str) -> str:
    """Return the path of the record that a file of bridge options names, or the default.

    :raises OSError: the file cannot be read.
    :raises NRIError: it is not a JSON object, or its ``recordFile`` is not a string.
    """
    with open(options_file, "rb") as file:
        path = _object(file.read(MAX_SIZE)).get("recordFile") or DEFAULT_RECORD_FILE
    if not isinstance(path, str):
        raise NRIError(f"recordFile is {path!r}, expected an absolute path")
    return path


def _read(path: str) -> dict[str, object]:
    fd = os.open(path, _READ)
    try:
        status = os.fstat(fd)
        if status.st_mode & 0o170000 != 0o100000:
            raise NRIError(f"it is {describe(status.st_mode)}, expected a regular file")
        if wrong := trust.judge(status):
            raise NRIError(f"it {wrong}")
        return _object(os.read(fd, MAX_SIZE))
    finally:
        os.close(fd)


def _object(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise NRIError("it is not JSON") from None
    if not isinstance(value, dict):
        raise NRIError("it is not a JSON object")
    return value
