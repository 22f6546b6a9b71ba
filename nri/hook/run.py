"""What the hook does: the runtime's state and the bundle's configuration become one request for the chain.

The OCI specification (runtime.md, "Lifecycle"; config.md, "POSIX-platform Hooks"): the state is on stdin; when a
hook that runs before the container's process exits with another status than 0, the runtime must stop and destroy
the container; a poststop hook's failure is logged. Runtimes show a failed hook's stderr, so it is kept short.
"""

from __future__ import annotations

import errno
import os

from nri import config, ownership
from nri.client import Client, Sandbox, Task, read_config, spec_from_oci
from nri.client.spawn import settle
from nri.errors import NRIError, printable
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.message import integer, mismatch, string, string_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from nri.hook.arguments import Arguments

MAX_STATE = 1024 * 1024
"""Bytes of the runtime's state; a real one has some thousands."""

SANDBOX_ID_KEYS = (
    "io.kubernetes.cri.sandbox-id",  # containerd
    "io.kubernetes.cri-o.SandboxID",  # CRI-O
)
"""The annotations that tell which pod sandbox a container belongs to, by runtime."""


def run(arguments: Arguments, stdin: BinaryIO | None, stderr: TextIO) -> int:
    """Run the chain for the container on ``stdin``; returns the exit status: 0, or 1 with the reason on ``stderr``.

    This is the last thing that the process does: its working directory and umask are changed.
    """
    name = log = ""

    def say(line: str) -> None:
        _say(stderr, log, line)

    if not arguments.check_owner:
        say(f"nri: warning: {ownership.UNCHECKED} (--no-check-owner)")
    try:
        log = _absolute(arguments.log_file) if arguments.log_file else ""
        bin_dirs = [_absolute(directory) for directory in arguments.bin_dirs]
        configuration = config.load(arguments.conf_dir, arguments.conf_file, check_owner=arguments.check_owner)
        client = Client(
            configuration,
            bin_dirs=bin_dirs,
            timeout=arguments.timeout,
            check_owner=arguments.check_owner,
            log=lambda plugin, line: say(f"nri: {plugin}: {line}"),
        )
        state = _State(_read(stdin) if stdin is not None else b"")
        name = f" {state.id}"
        if not client.chain(arguments.state):
            return 0
        spec = spec_from_oci(read_config(os.path.join(state.bundle, "config.json")))
        spec.annotations.update(state.annotations)
        settle()
        client.invoke(Task(state.id, state.pid, spec), arguments.state, _sandbox(spec.annotations))
    except (NRIError, OSError) as error:
        # One line for each fault of a configuration; what else has a newline in it is somebody's text.
        faults = error.faults if isinstance(error, config.ConfigError) else (error,)
        where = f"nri hook {arguments.state}{name}: "
        for fault in faults:
            say(f"{where}{fault}")
            where = ""
        return 1
    return 0


class _State:
    """The container's state as the runtime writes it (OCI runtime specification, "State")."""

    def __init__(self, document: bytes) -> None:
        try:
            if len(document) > MAX_STATE:
                raise DecodeError(f"found more than {MAX_STATE} bytes")
            value = gojson.loads(document)
            if not isinstance(value, dict):
                raise mismatch(value, "the state", "an object")
            self.id = string(value.get("id"), "id")
            self.pid = integer(value.get("pid"), "pid")
            self.bundle = string(value.get("bundle"), "bundle")
            self.annotations = string_map(value.get("annotations"), "annotations")
            for key in ("id", "bundle"):
                if not value.get(key):
                    raise DecodeError(f"{key}: found nothing, expected the container's")
            if not self.bundle.startswith("/"):
                raise DecodeError(f"bundle: found {self.bundle!r}, expected an absolute path")
        except DecodeError as error:
            raise DecodeError(
                f"the container's state on stdin: {error}; expected what an OCI runtime writes"
            ) from None


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError as error:
        reason = f"the current directory, from which it counts, is gone: {error.strerror}"
        raise NRIError(f"{path}: {reason}; expected an absolute path") from None


def _read(stdin: BinaryIO) -> bytes:
    try:
        document = stdin.read(MAX_STATE + 1)
        if document is None:  # a descriptor that is not to be waited for has nothing yet
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    except OSError as error:
        reason = f"the container's state on stdin: cannot be read: {error.strerror}"
        raise DecodeError(f"{reason}; expected what an OCI runtime writes") from None
    return document


def _sandbox(annotations: dict[str, str]) -> Sandbox | None:
    for key in SANDBOX_ID_KEYS:
        if annotations.get(key):
            return Sandbox(annotations[key])
    return None


def _say(stderr: TextIO, log: str, line: str) -> None:
    # Where neither can be written, nobody is left to be told; the exit status says it too.
    line = printable(line)
    if log:
        import time

        try:
            with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "a") as file:
                file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")
        except OSError as error:
            line += "\n" + printable(f"nri hook: the log file {log} cannot be written: {error.strerror}")
    try:
        stderr.write(line + "\n")
        stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
