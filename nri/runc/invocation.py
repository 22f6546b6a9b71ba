"""One call of the runtime: what its command needs, and what the commands have in common."""

from __future__ import annotations

import os
import time

from nri.client.oci import OCIState, request
from nri.errors import NRIError, escape
from nri.node.record import over
from nri.node.short_lived import Known, ShortHost
from nri.process.deadline import Deadline
from nri.runc.made import Made
from nri.types import gojson
from nri.types.v1 import Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.adjust import Changes
    from nri.process.conversation import Output
    from nri.runc.commandline import CommandLine
    from nri.runc.options import WrapperOptions
    from nri.runc.real import Real
    from nri.runc.report import Report
    from nri.types.v1 import Request

ANSWERS_WITHIN = 30.0
"""Seconds for a command of the real runtime that is a call of our own."""


class Invocation:
    """The command line, the real runtime, the options and the outlets of one call."""

    def __init__(
        self, line: CommandLine, real: Real, options: WrapperOptions, report: Report
    ) -> None:
        self.line = line
        self.real = real
        self.options = options
        self.report = report
        self.on_late: Callable[[str], None] = report.error
        """Called with the reason before the process ends because a time is over; by default it is reported."""

    def chains(self) -> HostChains:
        """Return the chains that are configured.

        :raises ConfigError: if the configuration is not valid.
        """
        return HostChains(self)

    def made(self, id_: str) -> Made:
        """Return the record of a container."""
        return Made(self.options.record_dir, self.real.root(self.line), id_)

    def container_id(self) -> str:
        """Return the container's id on the command line; without one, become the real runtime, which reports it.

        :raises NRIError: if it is not clear which word it is.
        """
        arguments = self.line.arguments
        if len(arguments) > 1 and not all(option.is_known for option in self.line.options):
            raise NRIError(
                f"found the words {' '.join(map(escape, arguments))}, expected one container id"
            )
        id_ = self.line.container
        if not id_:
            self.real.execute(self.line.words)
        self.report.about += f" {escape(id_)}"
        return id_

    @property
    def bundle(self) -> str:
        """The bundle's directory on the command line."""
        return self.line.value("bundle", ".")

    @property
    def pid_file(self) -> str:
        """The file that the real runtime writes the pid to, "" for none; for crun a relative one is in the bundle."""
        path = self.line.value("pid-file")
        if path and self.real.is_crun:
            return os.path.join(self.bundle, path)
        return path

    def changes(self, oci: dict[str, Any] | Callable[[], dict[str, Any]] = dict) -> Changes:
        """Return an empty collection of the changes that plugins ask for.

        :param oci: for ``setup``: the container's OCI configuration.
        """
        # Their tables take longer than the rest of a call.
        from nri.adjust import Changes, OCIAbilities

        return Changes(OCIAbilities(os.path.basename(self.real.path), self._oci_version), oci)

    def state(self, id_: str) -> OCIState | None:
        """Return what the real runtime says of a container; None if it fails, as where there is none of that id."""
        done = self.ask("state", *named(id_))
        if done.status == 0:
            return OCIState(done.stdout, f"of {escape(id_)}")
        return None

    def existing(self, id_: str) -> OCIState:
        """Return what the real runtime says of a container.

        :raises NRIError: there is none of that id.
        """
        state = self.state(id_)
        if state is None:
            raise NRIError("the container has no state; expected one that exists")
        return state

    def known(self, name: str, state: OCIState) -> Known:
        """Return a container that exists, for a request about it.

        Plugins see the spec in the container's record, or else its bundle's.

        :param name: the state of the request.
        :raises DecodeError: if its bundle has no configuration.
        """
        made = self.made(state.id)
        facts = made.facts(state.bundle)
        if facts.made is None:
            spec = state.spec()
        else:
            spec = Spec.from_value(facts.made["spec"], "spec")
        about = request(name, state.id, spec, max(0, state.pid))
        return Known(made.current, about, facts)

    def is_taken(self, made: Made, id_: str) -> bool:
        """Return whether there is a container of that id, where runc and crun keep theirs.

        The real runtime is asked only if there is a record, or a directory of that name: most calls do not need it.
        """
        may_be = made.is_kept or os.path.lexists(os.path.join(self.real.root(self.line), id_))
        return may_be and self.state(id_) is not None

    def ask(self, command: str, *words: str, stdin: bytes = b"") -> Output:
        """Run a command of the real runtime with the same options before it.

        :raises NRIError: if it cannot be run, or does not end.
        """
        done = self.real.ask(
            [*self.line.quiet_before, command, *words], time.monotonic() + ANSWERS_WITHIN, stdin
        )
        if done.stopped:
            reason = f"not done within {ANSWERS_WITHIN:g} s"
            if done.stopped == "output":
                from nri.process.conversation import MAX_OUTPUT

                reason = f"found more than {MAX_OUTPUT} bytes of output, expected fewer"
            raise NRIError(f"{self.real.path} {command}: {reason}")
        return done

    def apply_updates(self, chains: HostChains, changes: Changes) -> None:
        """Give other containers the resources that plugins have asked for; their ``update`` follows.

        :raises NRIError: if the real runtime refuses one, and ``ignoreFailure`` does not say that this is no fault.
        """
        for id_, update in changes.updates.items():
            document = gojson.dumps(update["resources"])
            done = self.ask("update", "--resources", "-", *named(id_), stdin=document)
            if done.status == 0:
                self._follow(chains, id_, update["resources"])
                continue
            wrong = f"updates: container {escape(id_)}: {done.stderr or done.ending}"
            if not update["ignoreFailure"]:
                raise NRIError(wrong)
            self.report.note(f"{wrong}; dropped (ignoreFailure)")

    def _follow(self, chains: HostChains, id_: str, resources: Any) -> None:
        """Run ``update`` for a container whose resources were written; what fails is noted: they are in force."""
        if not chains.wants(State.UPDATE):
            return
        try:
            state = self.existing(id_)
            container = self.known(State.UPDATE, state)
            self.written(container, resources, state.bundle)
            chains.run(container, State.UPDATE)
        except (NRIError, OSError) as error:
            self.report.note(f"update {escape(id_)}: {error}")

    def written(self, container: Known, resources: Any, bundle: str) -> None:
        """Have a container's record and requests show new resources; what is not given stays."""
        spec = container.spec
        container.show(spec.replace(resources=over(spec.resources, resources)))
        if container.facts.made is None:
            return
        made = self.made(container.name)
        if not made.write(container.path, container.facts, container.spec, bundle):
            id_ = escape(container.name)
            self.report.note(
                f"the new resources of {id_} cannot be kept: requests show the older ones"
            )

    def undo_unless_taken(self, made: Made, chains: HostChains, container: Known) -> None:
        """Do as ``undo_chain``, unless the id is that of a container that lives on."""
        id_ = container.name
        try:
            is_taken = self.state(id_) is not None
        except (NRIError, OSError) as error:
            self.report.note(
                f"no plugin gets a delete of {escape(id_)}, which may be another container: {error}"
            )
            is_taken = True
        if not is_taken:
            self.undo_chain(chains, container)
        if is_taken or made.is_left:
            made.abandon()
        else:
            made.remove()

    def undo_chain(
        self, chains: HostChains, container: Known, if_killed: Callable[[], object] | None = None
    ) -> None:
        """Run the chain for ``delete`` of a container that is refused. What fails is noted."""
        try:
            self.delete_chain(chains, container, if_killed)
        except (NRIError, OSError) as error:
            self.report.note(f"delete {escape(container.name)}: {error}")

    def delete_chain(
        self,
        chains: HostChains,
        container: Known,
        if_killed: Callable[[], object] | None = None,
    ) -> None:
        """Run the chain for ``delete``, and apply its updates, also those of a chain that has failed.

        :param if_killed: as for ``HostChains.run``.

        :raises NRIError: if the chain fails, or an update.
        """
        changes = self.changes()
        try:
            chains.run(container, State.DELETE, changes=changes, if_killed=if_killed)
        finally:
            self.apply_updates(chains, changes)

    def take_back(self, chains: HostChains, container: Known) -> None:
        """Undo a container that exists and is refused. Signals that would end this process wait until it is done."""
        import _signal  # type: ignore[import-not-found] # the signal module would import enum

        id_ = container.name
        mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)
        try:
            self.undo_chain(chains, container, lambda: self.destroy(id_))
            self.destroy(id_)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def destroy(self, id_: str) -> None:
        """Remove a container that was created, and its pid file, as the real runtime does where `create` fails."""
        try:
            done = self.ask("delete", "--force", *named(id_))
            if done.status:
                self.report.note(f"the container cannot be deleted: {done.stderr or done.ending}")
            else:
                self.made(id_).remove()
            os.unlink(self.pid_file)
        except FileNotFoundError:
            pass  # also where none is asked for: ""
        except (NRIError, OSError) as error:
            self.report.note(f"the container is not removed as a whole: {error}")

    def _oci_version(self) -> tuple[int, int]:
        """Return the version of the runtime specification that the real runtime implements."""
        try:
            value: Any = gojson.loads(self.ask("features").stdout)
            major, minor = str(value["ociVersionMax"]).split(".")[:2]
            return int(major), int(minor)
        # A runtime from before `features`, which came with version 1.1.
        except (NRIError, ValueError, LookupError, TypeError):
            return 1, 0


def named(id_: str) -> tuple[str, ...]:
    """Return the words that name a container to the real runtime: its id may look like an option."""
    return ("--", id_) if id_.startswith("-") else (id_,)


ENDING = (1, 2, 15)  # SIGHUP, SIGINT, SIGTERM


class HostChains(ShortHost):
    """The chains of the host configuration that the options name, for one command.

    The process becomes the real runtime afterwards, or starts it, so what plugins need otherwise (directory, umask,
    limits) is put back.

    :raises ConfigError: if it is not valid.
    """

    def __init__(self, call: Invocation) -> None:
        self._call = call
        deadline = Deadline(call.options.deadline)
        deadline.enforce(call.on_late)
        super().__init__(call.options.site, deadline, call.report.note, sends_setup=True)
        deadline.release()

    def wants(self, *states: str, asked: Request | None = None) -> bool:
        """Return whether a plugin runs for one of these states.

        :param asked: a request about the container, for the conditions of the plugins; without it, whether one may.
        """
        return any(self.client.chain(state, asked) for state in states)

    def run(
        self,
        container: Known,
        wish: str,
        *,
        changes: Changes | None = None,
        if_killed: Callable[[], object] | None = None,
    ) -> None:
        """Bring a container to a wish, with the parameters of ``reconcile``.

        :raises NRIError: if the chain fails, or cannot be run.
        :raises EndedError: a signal ends this process; no plugin runs any more, and such signals are blocked.
        """
        # Also what no plugin runs for may have missed something.
        is_new = wish in (State.SETUP, State.CREATE)
        if not is_new and not self.wants(wish, asked=container.request(wish)):
            return
        deadline = Deadline(self._call.options.deadline)
        with Ending(self._call.report.error):
            deadline.enforce(self._call.on_late)
            try:
                with Surroundings():
                    self.reconcile(container, wish, deadline, changes=changes, if_killed=if_killed)
            except OSError as error:
                raise NRIError(f"the plugins cannot be run: {error.strerror}") from error
            finally:
                deadline.release()


class Surroundings:
    """Puts back what ``prepare_process`` changes, and the real runtime inherits."""

    def __enter__(self) -> None:
        import resource

        self._directory = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._umask = os.umask(0o022)
        self._core = resource.getrlimit(resource.RLIMIT_CORE)

    def __exit__(self, *_: object) -> None:
        import resource

        os.fchdir(self._directory)
        os.close(self._directory)
        os.umask(self._umask)
        resource.setrlimit(resource.RLIMIT_CORE, self._core)


class EndedError(BaseException):
    """A signal ends this process while a chain runs: what was begun is undone first. Further ones wait.

    :ivar number: the signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number


class Ending:
    """In its ``with``, the signals that end this process raise EndedError, and are reported."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    def __enter__(self) -> None:
        import _signal

        self._before = {number: _signal.getsignal(number) for number in ENDING}
        for number, handler in self._before.items():
            if handler != _signal.SIG_IGN:
                _signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        import _signal

        for number, handler in self._before.items():
            _signal.signal(number, handler)

    def _handle(self, number: int, _frame: object) -> None:
        import _signal

        _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)
        ended = EndedError(number)
        self._report(str(ended))
        raise ended
