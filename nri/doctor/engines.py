"""The container engines and OCI runtimes of a node: where they are, which of them run, and their versions."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node, Process

SUBJECT = "runtimes"

_SERVICE = re.compile(r"/system\.slice/([\w.@-]{1,100})\.service$", re.MULTILINE)
_VERSION = re.compile(r"(?<![\w.])v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})[\w.~+-]{0,40}")


class EngineKind(NamedTuple):
    """A program that is looked for."""

    name: str
    programs: tuple[str, ...]  # the first that exists is asked for its version
    answers: str  # the beginning of its answer
    is_daemon: bool = False


KINDS = (
    EngineKind("containerd", ("containerd",), "containerd ", is_daemon=True),
    EngineKind("CRI-O", ("crio",), "crio version", is_daemon=True),
    EngineKind("docker", ("dockerd", "docker"), "Docker version", is_daemon=True),
    EngineKind("podman", ("podman",), "podman version"),
    EngineKind("runc", ("runc",), "runc version"),
    EngineKind("crun", ("crun",), "crun version"),
)
"""What is looked for, in the order of the report."""

SERVING = ("containerd", "CRI-O")
"""The engines with NRI."""


class Engine(NamedTuple):
    """An engine or OCI runtime of the node.

    :ivar program: the path of its executable, "" if only its process was found.
    :ivar version: three numbers, () if it is not known.
    :ivar process: the running daemon, if there is one and it can be seen.
    :ivar service: the systemd service that it runs in, "" if that is not known.
    """

    name: str
    program: str
    version: tuple[int, ...]
    process: Process | None = None
    service: str = ""


class Engines:
    """All that was found.

    :ivar found: the engines; a daemon that runs twice is there twice.
    :ivar processes: all processes, None if they can't be seen.
    """

    def __init__(self, found: list[Engine], processes: list[Process] | None) -> None:
        self.found, self.processes = found, processes

    def in_use(self, name: str) -> list[Engine]:
        """Return the daemons of this name that run; if neither containerd nor CRI-O runs, what is installed."""
        serving = [engine for engine in self.found if engine.name in SERVING]
        has_running = any(engine.process is not None for engine in serving)
        named = [engine for engine in serving if engine.name == name]
        return [engine for engine in named if engine.process is not None or not has_running]

    def has(self, name: str) -> bool:
        """Return whether an engine of this name is installed or runs."""
        return any(engine.name == name for engine in self.found)


def look(node: Node) -> tuple[Engines, Findings]:
    """Return the engines of the node, and the findings of this subject."""
    found = Findings(SUBJECT)
    processes: list[Process] | None
    try:
        processes = node.processes()
    except LookError as error:
        processes = None
        found.unseen("processes", f"{error}: what is installed counts as in use")
    engines = [engine for kind in KINDS for engine in _engines(node, kind, processes or [], found)]
    if not any(engine.name in ("containerd", "CRI-O", "docker", "podman") for engine in engines):
        found.note("no-engine", "found none of containerd, CRI-O, docker and podman")
    return Engines(engines, processes), found


def _engines(node: Node, kind: EngineKind, processes: list[Process], found: Findings) -> list[Engine]:
    running = [process for process in processes if kind.is_daemon and _is_daemon(process, kind.programs[0])]
    for each in [each for each in running if each.is_here is False]:
        text = f"{kind.name}, process {each.pid}: it sees other files than this command"
        mend = f"run this command on the host, or look at its files: nri doctor --root /proc/{each.pid}/root"
        found.unseen("elsewhere", text, mend)
    here = [each for each in running if each.is_here is not False]
    installed = next(filter(None, map(node.find, kind.programs)), "")
    if not here and not installed:
        return []
    engines = []
    daemons: list[Process | None] = [*here] or [None]
    for process in daemons:
        program = _program(process, found) or installed
        text, version = _version(node, kind, program, found)
        about = f"{kind.name} {text or 'of an unknown version'}"
        if process is not None:
            about += f", running as process {process.pid}"
        about = f"{about}: {program or 'its executable is not known'}"
        if process is None and kind.is_daemon and not running and not _are_unseen(found):
            found.note("not-running", f"{about}; it does not run")
        else:
            found.ok("found", about)
        engines.append(Engine(kind.name, program, version, process, _service(node, process)))
    return engines


def _are_unseen(found: Findings) -> bool:
    return any(finding.code == "processes" for finding in found)


def _is_daemon(process: Process, program: str) -> bool:
    """Return whether a process is the daemon, and not another command of its program, like ``containerd config``."""
    if os.path.basename(process.arguments[0]) != program:
        return False
    return not set(process.arguments[1:2]) & {"config", "publish", "oci-hook", "--version", "-v", "version", "status"}


def _program(process: Process | None, found: Findings) -> str:
    """Return the path of a process's executable, "" if it is not known or was replaced."""
    if process is None:
        return ""
    path, is_replaced, _ = process.executable.partition(" (deleted)")
    if is_replaced:
        text = f"process {process.pid} runs a {path} that has been replaced: another version may be running"
        found.note("replaced", text, f"systemctl restart {os.path.basename(path)}")
    return path


def _service(node: Node, process: Process | None) -> str:
    """Return the name of the service in whose cgroup a daemon is, as ``containerd``."""
    if process is None:
        return ""
    try:
        match = _SERVICE.search(node.read(f"/proc/{process.pid}/cgroup", 64 * 1024).decode("utf-8", "replace"))
    except LookError:
        return ""
    return match[1] if match is not None else ""


def _version(node: Node, kind: EngineKind, program: str, found: Findings) -> tuple[str, tuple[int, ...]]:
    """Return a program's version, as it prints it and as numbers; "" and () if it can't be asked."""
    if not program or not node.runs:
        return "", ()
    try:
        output = node.run(program, "--version", name=_called(kind, program))
    except LookError as error:
        found.unseen("version", str(error))
        return "", ()
    text = output.stdout.decode("utf-8", "replace")
    match = _VERSION.search(text)
    if match is None or not text.startswith(kind.answers):
        found.unseen("version", f"{program}: no version of {kind.name} in the output of --version")
        return "", ()
    return match[0], tuple(map(int, match.groups()))


def _called(kind: EngineKind, program: str) -> str:
    """Return the name to call a program by: some executables, as k3s, are several programs."""
    name = os.path.basename(program)
    return name if name in kind.programs else kind.programs[0]
