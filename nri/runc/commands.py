"""The commands of ``nri-runc`` that run chains.

``create``: plugins may change the container before the real runtime makes it, and refuse it before it starts. The
bundle's config.json has the changes while the real runtime reads it; ``nri.runc.made`` keeps what was made.

``run``: the container starts within one command of the real runtime. So the chain of ``create`` is a createRuntime
hook of the container (``nri hook``), which the real runtime runs between creating and starting it: the terminal, the
streams and the exit status stay the real runtime's. The bundle's config.json is put back at the end. ``restore`` has
no such point in all runtimes, and is refused where plugins are configured.

``update``: plugins may change the new resources (``resize``), and hear when they are in place (``update``). Engines
give the resources as a document, ``--resources``. The options for single values, such as ``--memory``, are refused
where plugins act on new resources.

``delete``: plugins hear of it before the container is gone, and cannot stop it. ``pause`` and ``resume``: they hear
of it when it is done.
"""

from __future__ import annotations

import os
import sys
from binascii import crc32

from nri import files, trust
from nri.client.oci import MAX_CONFIG, parse_config, request, spec_from_oci
from nri.errors import NRIError, escape, reason_of
from nri.node.record import Facts, forget_file, read_file, write_file
from nri.node.short_lived import Known
from nri.runc.commandline import RESOURCES
from nri.runc.invocation import EndedError, Ending, named
from nri.types import DecodeError, gojson
from nri.types.jsonobject import below, elements, mismatch
from nri.types.v1 import Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from nri.runc.invocation import HostChains, Invocation
    from nri.runc.made import Made

_LAST_PID = 1 << 22  # proc(5), pid_max


def create(call: Invocation) -> int:
    """Run ``setup``, the real runtime and ``create``; return the exit status. It may not return (exec)."""
    chains, id_, made, file = prepare(call, State.SETUP, State.CREATE)
    container = new(call, made, id_, file)
    wants_setup = chains.wants(State.SETUP, asked=container.request(State.SETUP))
    if wants_setup:
        set_up(call, made, chains, container, file)
    elif not chains.wants(State.CREATE, asked=container.request(State.CREATE)):
        make_without_plugins(call, made, id_)
    is_kept = made.begin(container.facts, container.spec, call.bundle)
    try:
        status = call.real.run(call.line.words)
    except NRIError:
        if wants_setup:
            call.undo_chain(chains, container)
        made.abandon()
        raise
    finally:
        if is_kept:  # otherwise the bundle alone says what the container was made with
            put_back(call, file)
    if status:
        if wants_setup:
            call.undo_unless_taken(made, chains, container)
        else:
            made.abandon()
        return status
    _run_create(call, made, chains, container)
    return 0


def start(call: Invocation) -> int:
    """Become the real runtime, for a container whose plugins have had their ``create``.

    What a killed call has left is refused. Where there is no record, nothing says that plugins have run: a call was
    killed, or they were configured since. Then they run now, as for a container that was created at this moment.
    """
    id_ = call.container_id()
    made = call.made(id_)
    if made.is_unfinished:
        raise NRIError(
            "its plugins' create has not ended; delete the container, and create it again"
        )
    chains = call.chains()
    if not chains.wants(State.SETUP, State.CREATE):
        call.real.execute(call.line.words)
    state = call.state(id_)
    if state is None or state.status != "created":
        call.real.execute(call.line.words)  # which reports it
    container = call.known(State.CREATE, state)
    chains.run(container, State.CREATE)
    call.real.execute(call.line.words)


def prepare(call: Invocation, *states: State) -> tuple[HostChains, str, Made, ConfigFile]:
    """Return the chains, and the id, the record and the configuration of the container that is made.

    It does not return if no plugin runs for one of these states, or the command line has no id (exec).
    """
    chains = call.chains()
    id_ = call.container_id()
    made = call.made(id_)
    if not chains.wants(*states):
        make_without_plugins(call, made, id_)
    return chains, id_, made, open_config(call, made, id_)


def make_without_plugins(call: Invocation, made: Made, id_: str) -> NoReturn:
    """Become the real runtime, for a container that needs no record."""
    if made.is_kept and not call.is_taken(made, id_):
        made.remove()  # of an earlier container
    call.real.execute(call.line.words)


def open_config(call: Invocation, made: Made, id_: str) -> ConfigFile:
    """Return the configuration of the bundle on the command line, which no other call uses from now on.

    If the id is taken, the real runtime refuses: this bundle says nothing about the container that has it.

    :raises NRIError: if it cannot be read, or another call makes a container of the bundle or the id.
    """
    if call.is_taken(made, id_):
        call.real.execute(call.line.words)
    name = call.line.value("config", "config.json")  # crun's option
    # For crun only this very name is in the bundle; any other counts from the directory of the call.
    if name == "config.json":
        path = os.path.join(call.bundle, name)
    else:
        path = name
    path = files.absolute(path)
    made.claim(path)
    return ConfigFile(
        path, f"{call.options.record_dir}/.config.{crc32(os.fsencode(os.path.realpath(path))):08x}"
    )


def put_back(call: Invocation, file: ConfigFile, config: dict[str, Any] | None = None) -> None:
    """Put the bundle's configuration back, since the real runtime has read it. A fault is noted.

    :param config: what it should say; by default what it said at first.
    """
    try:
        if config is None:
            file.put_back()
        else:
            file.write(config)
            file.keep()
    except NRIError as error:
        call.report.note(str(error))


def new(call: Invocation, made: Made, id_: str, file: ConfigFile) -> Known:
    """Return the container that is made of a configuration."""
    about = request(State.CREATE, id_, spec_from_oci(file.config))
    return Known(made.unfinished, about, Facts())


def set_up(
    call: Invocation, made: Made, chains: HostChains, container: Known, file: ConfigFile
) -> None:
    """Run the chain for ``setup``, and write what the plugins have changed to the container's configuration.

    :raises NRIError: if a plugin refuses it, or it cannot be written; the plugins have then got a ``delete``.
    """
    oci = file.config
    spec = container.spec
    changes = call.changes(oci)
    container.show(spec_from_oci(oci, adjustable=True))
    try:
        chains.run(container, State.SETUP, changes=changes)
        call.apply_updates(chains, changes)
        file.write(changes.config)
        container.show(spec_from_oci(file.config))
    except (NRIError, OSError, EndedError):
        # A plugin that has succeeded may have something to undo.
        container.show(spec)
        call.undo_unless_taken(made, chains, container)
        raise


def _run_create(call: Invocation, made: Made, chains: HostChains, container: Known) -> None:
    """Run the chain for ``create``; if it fails, take the container back.

    :raises NRIError: if it fails.
    """
    id_ = container.name
    try:
        with Ending(call.report.error):
            container.show_pid(pid_of(call, id_))
            chains.run(container, State.CREATE, if_killed=lambda: call.destroy(id_))
            made.finish()
    except (NRIError, OSError, EndedError):
        container.show_pid(0)
        call.take_back(chains, container)
        raise


def pid_of(call: Invocation, id_: str) -> int:
    """Return the pid of a container that was created.

    :raises NRIError: if it is not known.
    """
    try:
        with open(call.pid_file, "rb") as file:
            text = file.read(32).strip()
        if text.isdigit() and 0 < int(text) <= _LAST_PID:
            return int(text)
    except OSError:
        pass  # there is none; the state has it, too
    state = call.state(id_)
    if state is None or state.pid <= 0:
        raise DecodeError(
            f"the state of {escape(id_)} has no pid, although the container was created"
        )
    return state.pid


MARK = "NRI_RUNTIME=run"
"""A variable in the hook's environment: a hook of a call that was killed is known by it, and replaced."""

_MAX_SAID = 65536


def run(call: Invocation) -> int:
    """Run the container with its chains; return the real runtime's exit status, negative for a signal."""
    chains, id_, made, file = prepare(call, State.SETUP, State.CREATE, State.DELETE)
    is_detached = call.line.has("detach")
    container = new(call, made, id_, file)
    if chains.wants(State.SETUP, asked=container.request(State.SETUP)):
        set_up(call, made, chains, container, file)
    adjusted = file.config
    is_kept = made.begin(container.facts, container.spec, call.bundle)
    log = os.memfd_create("hook", os.MFD_CLOEXEC)  # in the bundle, a link could take its place
    os.fchmod(log, 0o600)
    try:
        if chains.wants(State.CREATE, asked=container.request(State.CREATE)):
            file.write(_with_hook(file.config, call, made, f"/proc/{os.getpid()}/fd/{log}"))
        status = call.real.run(call.line.words)
    except NRIError:
        call.undo_chain(chains, container)
        made.abandon()
        raise
    finally:
        adjusted_file = adjusted if is_detached and not is_kept else None
        put_back(call, file, adjusted_file)
        _report_hook(call, log)
    if made.is_unfinished:
        container.facts = made.facts(call.bundle)  # with what its hook has noted
    is_made = status == 0 and is_detached
    if is_made or not made.is_left:
        try:
            made.finish()  # its hook has run before it started
        except OSError:
            pass  # a `delete` has removed what was kept
    if not is_made:
        # It is taken if the container was kept, too.
        call.undo_unless_taken(made, chains, container)
    return status


def restore(call: Invocation) -> int:
    """Become the real runtime, unless plugins are configured: none can run before the processes do."""
    if call.chains().wants(State.SETUP, State.CREATE):
        fault = "plugins are configured, and the processes run on at once, before any plugin"
        raise NRIError(
            f"{fault}; expected a new container, or the real runtime, {call.real.path}, without them"
        )
    call.real.execute(call.line.words)


def _with_hook(config: dict[str, Any], call: Invocation, made: Made, log: str) -> dict[str, Any]:
    """Return the configuration with ``nri hook create`` as the last createRuntime hook."""
    hooks = below(dict(config), "hooks")
    listed = elements(hooks, "createRuntime", "hooks")
    kept = [
        hook for hook in listed if not (isinstance(hook, dict) and MARK in (hook.get("env") or []))
    ]
    options = call.options
    words = ["hook", "create", "--conf-dir", options.conf_dir, "--conf-file", options.conf_file]
    words += ["--record-dir", options.record_dir, "--record", os.path.basename(made.unfinished)]
    for directory in options.bin_dirs:
        words += ["--bin-dir", directory]
    words += ["--failure-policy", options.failure_policy, "--log-file", log]
    words += ["--timeout", repr(options.timeout), "--deadline", repr(options.deadline)]
    program, environment = _own_program()
    hook = {"path": program[0], "args": [*program[1], *words], "env": [MARK, *environment]}
    return config | {"hooks": hooks | {"createRuntime": [*kept, hook]}}


def _own_program() -> tuple[tuple[str, list[str]], list[str]]:
    """Return the executable and first arguments of the command ``nri``, and the variables that it needs."""
    if getattr(sys, "frozen", False):
        return (os.readlink("/proc/self/exe"), ["nri"]), []
    code = "from nri.cli.entry import main; main()"
    return (sys.executable, [sys.executable, "-c", code]), [
        f"PYTHONPATH={os.pathsep.join(sys.path)}"
    ]


def _report_hook(call: Invocation, log: int) -> None:
    """Report what the hook has written: runc shows a hook's stderr, crun discards it."""
    for line in os.pread(log, _MAX_SAID, 0).decode("utf-8", "replace").splitlines():
        text = line.partition(" ")[2]  # after the time
        if text.startswith("nri hook create"):
            call.report.error(text.partition(": ")[2])
        elif text:
            call.report.note(text.removeprefix("nri: "))


MAX_OTHERS = 16
"""Records of containers that are gone which one call removes."""

MAX_RESOURCES = 1024 * 1024
"""Bytes of a document of resources that are accepted; a real one has some hundreds."""


def update(call: Invocation) -> int:
    """Run ``resize``, the real runtime with the resources that plugins want, and ``update``; return the status."""
    chains = call.chains()
    id_ = call.container_id()
    if not chains.wants(State.RESIZE, State.UPDATE):
        call.real.execute(call.line.words)
    if given := [option.name for option in call.line.options if option.name in RESOURCES]:
        raise NRIError(
            f"found --{given[0]}, expected --resources FILE, since plugins act on new resources"
        )
    document = _read(call.line.value("resources"))
    asked = {} if document is None else _parse(document)
    state = call.existing(id_)
    container = call.known(State.RESIZE, state)
    spec = container.spec
    wanted = asked
    container.show(spec.replace(resources=asked))
    if chains.wants(State.RESIZE, asked=container.request(State.RESIZE)):
        changes = call.changes()
        chains.run(container, State.RESIZE, changes=changes)
        wanted = changes.resources(id_, asked)
        changes.updates.pop(id_, None)  # it is in what is wanted
        call.apply_updates(chains, changes)
    container.show(spec)
    if wanted != asked:
        document = gojson.dumps(wanted)
    if document is None:
        status = call.real.run(call.line.words)
    else:
        status = _update(call, id_, document)
    if status == 0:
        call.written(container, wanted, state.bundle)
        try:
            chains.run(container, State.UPDATE)
        except NRIError as error:  # the limits are in place already
            call.report.error(str(error))
    return status


def _read(path: str) -> bytes | None:
    """Return the document that ``--resources`` names; None if there is none."""
    if not path:
        return None
    try:
        place = 0 if path == "-" else path
        with open(place, "rb", closefd=place != 0) as file:
            document = file.read(MAX_RESOURCES + 1)
    except (OSError, ValueError) as error:
        raise DecodeError(
            f"--resources {escape(path)}: cannot be read: {reason_of(error)}"
        ) from error
    if len(document) > MAX_RESOURCES:
        raise DecodeError(
            f"--resources {escape(path)}: found more than {MAX_RESOURCES} bytes, expected resources"
        )
    return document


def _parse(document: bytes) -> dict[str, Any]:
    try:
        value = gojson.loads(document)
        if not isinstance(value, dict):
            raise mismatch(value, "the document", "an object")
    except DecodeError as error:
        raise DecodeError(f"--resources: {error}") from error
    return value


def _update(call: Invocation, id_: str, document: bytes) -> int:
    """Run the real update with a document on its stdin, and with the options that are no part of it."""
    others = []
    for option in call.line.options:
        if option.name != "resources":
            others += option.words

    stdin = os.memfd_create("resources", os.MFD_CLOEXEC)
    try:
        with open(stdin, "wb", closefd=False) as file:
            file.write(document)
        os.lseek(stdin, 0, os.SEEK_SET)
        return call.real.run(
            [*call.line.words_before, "update", *others, "--resources", "-", *named(id_)],
            stdin=stdin,
        )
    finally:
        os.close(stdin)


def delete(call: Invocation) -> int:
    """Run the chain for the container that will be deleted, then the real runtime; return its exit status.

    Neither a failure nor a plugin or file that blocks keeps the container.
    """

    def go_on(reason: str) -> None:
        import _signal  # type: ignore[import-not-found] # the signal module would import enum

        call.report.error(reason)
        _signal.setitimer(_signal.ITIMER_REAL, 0)  # it would outlive the exec
        call.real.execute(call.line.words)

    call.on_late = go_on
    try:
        chains = call.chains()
        if chains.wants(State.DELETE):
            if call.line.has("regex"):
                raise NRIError(
                    "no plugin gets a delete: found --regex, expected the id of one container"
                )
            _tell(call, chains, call.container_id())
    except (NRIError, OSError) as error:
        call.report.error(*str(error).split("\n"))
    made = call.made(call.line.container)
    if not made.is_kept:
        call.real.execute(call.line.words)
    status = call.real.run(call.line.words)
    if status == 0:
        made.remove()
        _remove_others(call, made)
    return status


def _remove_others(call: Invocation, made: Made) -> None:
    """Remove the records that a killed ``delete`` has left; what fails is left to the next call."""
    try:
        for id_ in made.others()[:MAX_OTHERS]:
            if call.state(id_) is None:
                call.made(id_).remove()
    except (NRIError, OSError):
        pass


def _tell(call: Invocation, chains: HostChains, id_: str) -> None:
    try:
        state = call.state(id_)
        if state is None or not (call.line.has("force") or state.status in ("created", "stopped")):
            return  # there is none, or the real runtime refuses
        try:
            container = call.known(State.DELETE, state)
        except DecodeError:  # its bundle may be gone
            about = request(
                State.DELETE, id_, Spec(annotations=state.annotations), max(0, state.pid)
            )
            container = Known(call.made(id_).current, about, Facts())
        call.delete_chain(chains, container)
    except (NRIError, OSError) as error:
        call.report.error(str(error))


def freeze(call: Invocation) -> int:
    """Pause or resume the container, then run the chain; return the real runtime's exit status.

    The container is paused, or runs again: the chain cannot undo that, so its failure is reported, and no more.
    """
    name = State(call.line.command)
    try:
        chains = call.chains()
        id_ = call.container_id()
    except NRIError as error:
        call.report.error(*str(error).split("\n"))
        call.real.execute(call.line.words)
    if not chains.wants(name):
        call.real.execute(call.line.words)
    status = call.real.run(call.line.words)
    if status:
        return status
    try:
        chains.run(call.known(name, call.existing(id_)), name)
    except (NRIError, OSError) as error:
        call.report.error(str(error))
    return 0


class ConfigFile:
    """The config.json of a bundle, as it was read when this was made; it is replaced in one step, or not at all.

    The new file is written beside the old one, with its owner and mode, and takes its name by a rename: the real
    runtime reads the one or the other. A file that another program has changed since it was read is left alone. The
    content is not synced: a bundle does not outlive the machine's containers.

    :param kept: a file of the record for what it said at first, while it says something else: a call that is killed
        leaves it, and the next one goes on with that.
    :ivar config: the OCI configuration in it.
    :raises DecodeError: if it cannot be read, or is no OCI configuration.
    """

    def __init__(self, path: str, kept: str) -> None:
        self.path = path
        self._kept = kept
        self._where = escape(path)
        try:
            self._document, self._status = self._read()
            self._take_up()
            self.config: dict[str, Any] = parse_config(self._document)
        except DecodeError as error:
            raise DecodeError(f"{self._where}: {error}") from error
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise DecodeError(f"{self._where}: cannot be read: {reason_of(error)}") from error
        self._original = self._document

    def _take_up(self) -> None:
        """Put back what a killed call has left, if the file says what that call wrote."""
        try:
            digest, _, original = read_file(self._kept).partition(b"\n")
        except (OSError, NRIError):
            return
        if digest == _digest(self._document):
            self._replace(original)
        forget_file(self._kept)

    def write(self, config: dict[str, Any]) -> None:
        """Replace the file by one with this configuration; do nothing if it is the same.

        :raises NRIError: if that cannot be done; then the file is as it was.
        """
        if config != self.config:
            document = gojson.dumps(config)
            try:
                write_file(self._kept, _digest(document) + b"\n" + self._original)
            except (OSError, NRIError):
                pass  # nothing can be kept
            self._replace(document)
            self.config = config

    def put_back(self) -> None:
        """Replace the file by one with the content that was read at first.

        :raises NRIError: if that cannot be done, or another program has changed the file.
        """
        if self._document != self._original:
            self._replace(self._original)
        forget_file(self._kept)

    def keep(self) -> None:
        """Leave the file as it is for good."""
        forget_file(self._kept)

    def _replace(self, document: bytes) -> None:
        try:
            files.replace(self._end_of_links(), document, self._finish)
        except OSError as error:
            raise NRIError(f"{self._where}: cannot be replaced: {error.strerror}") from error
        self._document = document

    def _end_of_links(self) -> str:
        """Return the path of the file itself, which must be safe to replace if a link leads to it."""
        if not os.path.islink(self.path):
            return self.path
        end = trust.follow(self.path)[0]
        if wrong := trust.judge_path(self.path, os.stat(end)):
            raise NRIError(f"{self._where}: is a link and not replaced: {escape(wrong)}")
        return end

    def _finish(self, fd: int) -> None:
        """Give the new file the owner and mode of the old one, if that is the one which was read."""
        os.fchown(fd, self._status.st_uid, self._status.st_gid)
        os.fchmod(fd, self._status.st_mode & 0o7777)
        if self._read()[0] != self._document:
            raise NRIError(
                f"{self._where}: another program has changed it meanwhile, expected the file as "
                "it was read"
            )

    def _read(self) -> tuple[bytes, os.stat_result]:
        return files.read_regular(self.path, MAX_CONFIG)


def _digest(document: bytes) -> bytes:
    return f"{len(document)} {crc32(document):08x}".encode()
