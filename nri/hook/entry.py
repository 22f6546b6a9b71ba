"""What the hook does: the runtime's state and the bundle's configuration become one request for the chain.

The OCI specification (runtime.md, "Lifecycle"; config.md, "POSIX-platform Hooks"): the state is on stdin; when a
hook that runs before the container's process exits with another status than 0, the runtime must stop and destroy
the container; a poststop hook's failure is logged. Runtimes show a failed hook's stderr, so it is kept short.

One deadline bounds all of it (:mod:`nri.hook.deadline`), and while plugins run a guard watches the process
(:mod:`nri.process.watchdog`): a hook that is killed leaves no plugin running.
"""

from __future__ import annotations

import os

from nri import config, trust
from nri.client import ChainError, Client, Sandbox, Task, read_config, spec_from_oci
from nri.errors import NRIError
from nri.hook.deadline import Deadline
from nri.hook.reporter import Outlet
from nri.hook.state import State, read
from nri.process import watchdog
from nri.process.inherit import prepare_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from nri.client import Exchange
    from nri.hook.arguments import Arguments

SANDBOX_ID_KEYS = (
    "io.kubernetes.cri.sandbox-id",  # containerd
    "io.kubernetes.cri-o.SandboxID",  # CRI-O
)
"""The annotations that tell which pod sandbox a container belongs to, by runtime."""


def main(arguments: Arguments, started: float) -> int:
    """Run the hook as the process that this is; returns the exit status.

    Beside what :func:`run` does, it ends in time whatever blocks it, and leaves no plugin if a signal ends it.

    :param started: when the process began, of :func:`time.monotonic`.
    """
    import _signal  # type: ignore[import-not-found] # the signal module would import enum
    import sys

    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    stdin = sys.stdin.buffer if sys.stdin is not None else None
    hook = _Hook(arguments, Outlet(sys.stderr), Deadline(arguments.deadline, started), is_guarded=True)
    hook.deadline.enforce(hook.fail)
    return hook.run(stdin)


def run(arguments: Arguments, stdin: BinaryIO | None, stderr: TextIO) -> int:
    """Run the chain for the container on ``stdin``; returns the exit status: 0, or 1 with the reason on ``stderr``.

    This is the last thing that the process does: its working directory and umask are changed.
    """
    return _Hook(arguments, Outlet(stderr), Deadline(arguments.deadline), is_guarded=False).run(stdin)


class _Hook:
    def __init__(self, arguments: Arguments, outlet: Outlet, deadline: Deadline, *, is_guarded: bool) -> None:
        self.deadline = deadline
        self._arguments = arguments
        self._outlet = outlet
        self._is_guarded = is_guarded
        self._name = ""
        self._has_failed = False

    def run(self, stdin: BinaryIO | None) -> int:
        """As :func:`run`."""
        if not self._arguments.check_owner:
            self._outlet.say(f"nri: warning: {trust.UNCHECKED} (--no-check-owner)")
        try:
            self._run(stdin)
        except config.ConfigError as error:  # one line for each of its faults
            self.fail(*map(str, error.faults))
            return 1
        except (NRIError, OSError) as error:
            is_late = isinstance(error, ChainError) and self.deadline.left() == 0
            self.fail(self.deadline.passed(str(error)) if is_late else str(error))
            return 1
        return 0

    def fail(self, *reasons: str) -> None:
        """Say why the hook fails. A newline in a reason is escaped: each reason is one line."""
        where = f"nri hook {self._arguments.state}{self._name}: "
        for reason in reasons:
            self._outlet.say(f"{where}{reason}")
            where = ""

    def _note(self, exchange: Exchange) -> None:
        self._has_failed = self._has_failed or exchange.error is not None

    def _run(self, stdin: BinaryIO | None) -> None:
        arguments, deadline = self._arguments, self.deadline
        self._outlet.log = _absolute(arguments.log_file) if arguments.log_file else ""
        bin_dirs = [_absolute(directory) for directory in arguments.bin_dirs]
        deadline.doing = f"it was reading the configuration, {arguments.conf_dir} or {arguments.conf_file}"
        client = Client(
            config.load(arguments.conf_dir, arguments.conf_file, check_owner=arguments.check_owner),
            bin_dirs=bin_dirs,
            timeout=arguments.timeout,
            check_owner=arguments.check_owner,
            log=lambda plugin, line: self._outlet.say(f"nri: {plugin}: {line}"),
            on_exchange=self._note,
        )
        deadline.doing = "it was reading the container's state on stdin"
        state = State(read(stdin, deadline) if stdin is not None else b"")
        self._name = f" {state.id}"
        if not client.chain(arguments.state):
            return
        path = os.path.join(state.bundle, "config.json")
        deadline.doing = f"it was reading {path}"
        spec = spec_from_oci(read_config(path, must_be_file=True))
        spec.annotations.update(state.annotations)
        deadline.doing = f"it was running {', '.join([plugin.type for plugin in client.chain(arguments.state)])}"
        prepare_process()
        keeper = _guard() if self._is_guarded else None
        try:
            task = Task(state.id, state.pid, spec)
            client.invoke(task, arguments.state, _sandbox(spec.annotations), deadline=deadline.at)
        finally:
            if keeper is not None:
                (keeper.sweep if self._has_failed else keeper.dismiss)()


def _guard() -> watchdog.Watchdog:
    try:
        return watchdog.start(make_session=True)
    except OSError as error:
        raise NRIError(f"the guard of the plugins cannot be started: {error.strerror}") from error


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError as error:
        reason = f"the current directory, from which it counts, is gone: {error.strerror}"
        raise NRIError(f"{path}: {reason}; expected an absolute path") from None


def _sandbox(annotations: dict[str, str]) -> Sandbox | None:
    for key in SANDBOX_ID_KEYS:
        if annotations.get(key):
            return Sandbox(annotations[key])
    return None
