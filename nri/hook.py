"""``nri hook STATE``: runs the chain as a hook of an OCI runtime.

The runtime (runc, crun, and their callers: podman, CRI-O) runs it as createRuntime hook with ``create`` and as
poststop hook with ``delete``, writes the container's state to its stdin, and waits. Every container's start waits for
the imports here, so click, jsonschema and ``json`` are imported only to report an error.

By the OCI specification (runtime.md, "Lifecycle"; config.md, "POSIX-platform Hooks") the state is on stdin. If a
hook that runs before the container's process exits with another status than 0, the runtime must stop and destroy the
container; the failure of a poststop hook is logged. Runtimes show a failed hook's stderr, so it is kept short.

A valid command line is parsed here, without click; click, which has the same options, handles ``--help`` and errors.
"""

from __future__ import annotations

import os
import select

from nri import config, files, trust
from nri.client.oci import EXPECTED, MAX_STATE, OCIState, request
from nri.config.entries import DEFAULT_TIMEOUT, FAILURE_POLICIES, MAX_TIMEOUT
from nri.config.site import Site
from nri.errors import NRIError
from nri.node.record import claim, forget_file
from nri.node.short_lived import Known, ShortHost, facts_in
from nri.places import in_record
from nri.process.deadline import Deadline, end_by_sigint
from nri.process.reporter import Reporter
from nri.types import DecodeError
from nri.types.v1 import STATES, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TextIO

DEFAULT_DEADLINE = 8.0
"""Seconds for the whole hook. Configurations of podman and CRI-O usually kill a hook after 10."""

_OPTIONS = {
    "--bin-dir": "bin_dirs",
    "--conf-dir": "conf_dir",
    "--conf-file": "conf_file",
    "--record-dir": "record_dir",
    "--record": "record",
    "--failure-policy": "failure_policy",
    "--log-file": "log_file",
    "--timeout": "timeout",
    "--deadline": "deadline",
}


class Arguments:
    """The arguments of ``nri hook``, with their defaults.

    :param record: the name of the container's file in the record, for a hook that ``nri-runc`` has added.
    :param deadline: seconds for the whole hook.
    :param site: the attributes of ``Site``.
    """

    def __init__(
        self,
        state: str,
        *,
        record: str = "",
        log_file: str = "",
        deadline: float = DEFAULT_DEADLINE,
        **site: Any,
    ) -> None:
        self.state = state
        self.record = record
        self.log_file = log_file
        self.deadline = deadline
        self.site = Site(**site)


def parse(argv: Sequence[str]) -> Arguments | None:
    """Parse the words after ``nri hook``; return None if they are not valid."""
    states: list[str] = []
    given: dict[str, Any] = {
        "timeout": DEFAULT_TIMEOUT,
        "deadline": DEFAULT_DEADLINE,
        "failure_policy": FAILURE_POLICIES[0],
    }
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--no-check-owner":
            given["check_owner"] = False
            continue
        if name not in _OPTIONS:
            states.append(word)
            continue
        if not equals:
            value = next(words, "")
        if not value:
            return None
        if name == "--bin-dir":
            given.setdefault("bin_dirs", []).append(value)
        else:
            given[_OPTIONS[name]] = value
    if len(states) != 1 or states[0] not in STATES:
        return None
    if given["failure_policy"] not in FAILURE_POLICIES:
        return None
    try:
        given["timeout"] = _seconds(given["timeout"])
        given["deadline"] = _seconds(given["deadline"])
    except ValueError:
        return None
    return Arguments(states[0], **given)


def _seconds(value: str | float) -> float:
    """Return the seconds in an option's value.

    :raises ValueError: it is not valid.
    """
    seconds = float(value)
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ValueError
    return seconds


def main(arguments: Arguments, started: float) -> int:
    """Run the hook in a process of its own, and return the exit status.

    Unlike ``run``, it ends in time even if something blocks, and a signal that ends it leaves no plugin running.

    :param started: when the process started, a time of ``time.monotonic``.
    """
    import sys

    end_by_sigint()
    stdin = 0
    if sys.stdin is None:  # the descriptor is closed, and may come to stand for another file
        stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    hook = _Hook(
        arguments, Reporter(sys.stderr, program="nri hook"), Deadline(arguments.deadline, started)
    )
    hook.deadline.enforce(hook.fail)
    return hook.run(stdin)


def run(arguments: Arguments, stdin: int, stderr: TextIO | None) -> int:
    """Run the chain for the container on ``stdin``; return the exit status: 0, or 1 with the reason on ``stderr``.

    :param stdin: a descriptor.

    This changes the working directory and umask of the process.
    """
    hook = _Hook(arguments, Reporter(stderr, program="nri hook"), Deadline(arguments.deadline))
    return hook.run(stdin)


class _Hook:
    def __init__(self, arguments: Arguments, reporter: Reporter, deadline: Deadline) -> None:
        self._arguments = arguments
        self._reporter = reporter
        self.deadline = deadline
        self._name = ""

    def run(self, stdin: int) -> int:
        """As ``run``."""
        if not self._arguments.site.check_owner:
            self._reporter.write(f"nri: warning: {trust.UNCHECKED} (--no-check-owner)")
        try:
            self._run(stdin)
        except config.ConfigError as error:
            self.fail(*map(str, error.faults))
            return 1
        except (NRIError, OSError) as error:
            self.fail(str(error))
            return 1
        return 0

    def fail(self, *reasons: str) -> None:
        """Report why the hook fails, one line for each reason."""
        prefix = f"nri hook {self._arguments.state}{self._name}: "
        for reason in reasons:
            self._reporter.write(f"{prefix}{reason}")
            prefix = ""

    def _run(self, stdin: int) -> None:
        arguments = self._arguments
        deadline = self.deadline
        if arguments.log_file:
            self._reporter.log_file = files.absolute(arguments.log_file)
        else:
            self._reporter.log_file = ""
        site = arguments.site.replace(bin_dirs=map(files.absolute, arguments.site.bin_dirs))
        host = ShortHost(
            site,
            deadline,
            lambda line: self._reporter.write(f"nri: {line}"),
            sends_setup=arguments.record != "",
        )
        if arguments.state == State.CREATE and not host.sends_setup:
            self._note_setup(host)
        deadline.doing = "it was reading the container's state on stdin"
        state = OCIState(read_state(stdin, deadline))
        self._name = f" {state.id}"
        name = arguments.record or f"{in_record('hook', state.id)}.json"
        path = f"{site.record_dir}/{name}"
        try:
            if host.client.chain(arguments.state):
                self._reconcile(host, state, name, path)
        finally:
            if arguments.state == State.DELETE:
                forget_file(path)

    def _note_setup(self, host: ShortHost) -> None:
        for plugin in host.client.config.plugins:
            if plugin.wants(State.SETUP):
                unsent = "which the bridge and nri-runc send, hooks never"
                self._reporter.write(f"nri: {plugin.type} wants setup, {unsent}")

    def _reconcile(self, host: ShortHost, state: OCIState, name: str, path: str) -> None:
        arguments = self._arguments
        deadline = self.deadline
        deadline.doing = f"it was reading {state.bundle}/config.json"
        about = request(arguments.state, state.id, state.spec(), state.pid)
        if not arguments.record:  # else nri-runc has the lock
            deadline.doing = "it was waiting for another hook of this container"
            claim(arguments.site.record_dir, name, waits=True)
        container = Known(path, about, facts_in(path, host.note))
        host.reconcile(container, arguments.state, deadline)


# The container's state on the hook's stdin, which is polled: it cannot block the hook beyond its deadline.


def read_state(fd: int, deadline: Deadline) -> bytes:
    """Return the bytes on a descriptor, at most a little more than a state may have.

    :raises NRIError: if it cannot be read, or is still open at the deadline.
    """
    try:
        return _read(fd, deadline)
    except OSError as error:
        reason = f"the container's state on stdin: cannot be read: {error.strerror}"
        raise DecodeError(f"{reason}; {EXPECTED}") from None


def _read(fd: int, deadline: Deadline) -> bytes:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    document = b""
    while len(document) <= MAX_STATE:
        left = deadline.left()
        if left == 0 or not poll.poll(left * 1000 + 1):
            fault = f"the container's state on stdin is incomplete after {len(document)} bytes"
            raise NRIError(deadline.passed(f"{fault}; {EXPECTED}"))
        try:
            piece = os.read(fd, 65536)
        except BlockingIOError:
            continue  # another process has read it
        if not piece:
            break
        document += piece
    return document
