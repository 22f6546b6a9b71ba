"""``nri-runc`` and OCI hooks: where docker, podman and CRI-O are told to run plugins without NRI v2.

Of docker's ``daemon.json`` and podman's ``containers.conf`` only the runtimes and the directories of hooks are looked
at. Sources: dockerd(8), containers.conf(5), oci-hooks(5), podman(1).
"""

from __future__ import annotations

from typing import NamedTuple

from nri.doctor.documents import Table, read_json, read_toml, strings, table, text_of
from nri.doctor.engines import Engines
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.settings import Handler

SUBJECT = "OCI runtimes and hooks"

DOCKER = "/etc/docker/daemon.json"
CONTAINERS = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
CONTAINERS_D = "/usr/share/containers/containers.conf.d", "/etc/containers/containers.conf.d"
HOOKS, OLD_HOOKS = "/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"

PODMAN_5 = (5, 0)
"""From this version on podman does not read :data:`OLD_HOOKS` by default."""

MAX_FILES = 200


class Configured(NamedTuple):
    """The OCI runtimes that an engine without NRI v2 knows, the one that it uses, and its directories of hooks."""

    engine: str
    file: str
    handlers: tuple[Handler, ...] = ()
    default: str = ""
    hook_dirs: tuple[str, ...] = ()

    @property
    def uses_ours(self) -> bool:
        """Whether its default runtime is ``nri-runc``."""
        return any(handler.is_ours for handler in self.handlers if handler.name == self.default)


def look(node: Node, engines: Engines) -> tuple[list[Configured], Findings]:
    """Return what docker and podman are told, and the findings of this subject."""
    found = Findings(SUBJECT)
    configured = []
    if engines.has("docker"):
        configured.append(_docker(node, found))
    if engines.has("podman"):
        version = next((engine.version for engine in engines.found if engine.name == "podman"), ())
        configured.append(_podman(node, version, found))
    for each in configured:
        for handler in [handler for handler in each.handlers if handler.is_ours]:
            how = "its default runtime" if handler.name == each.default else f"used with --runtime {handler.name}"
            found.ok("nri-runc", f"{each.engine}: {handler.program} is {how}: {each.file}")
            check_program(node, handler, each.file, found)
    return configured, found


def check_program(node: Node, handler: Handler, file: str, found: Findings) -> None:
    """Add a fault if the executable of a handler does not exist."""
    if handler.program.startswith("/") and not node.exists(handler.program):
        text = f"{handler.program}, which {file} names, does not exist: no container starts with it"
        found.fault("no-program", text, f"install it, or correct {file}")


def hooks(node: Node, directories: tuple[str, ...]) -> list[str]:
    """Return the files of OCI hooks that run ``nri hook``."""
    found = []
    for directory in directories:
        try:
            names = [name for name in node.names(directory) if name.endswith(".json")][:MAX_FILES]
        except LookError:
            continue
        for name in names:
            path = f"{directory}/{name}"
            try:
                hook = table(read_json(node, path), "hook")
            except LookError:
                continue  # the engine's own affair
            program, arguments = text_of(hook.get("path")), strings(hook.get("args"))
            if program.rpartition("/")[2] == "nri" and "hook" in arguments[:2]:
                found.append(path)
    return found


def _docker(node: Node, found: Findings) -> Configured:
    document = _read(node, DOCKER, "systemctl restart docker", found)
    handlers = [Handler(name, text_of(table(each).get("path"))) for name, each in table(document, "runtimes").items()]
    return Configured("docker", DOCKER, tuple(handlers), text_of(document.get("default-runtime"), "runc"))


def _podman(node: Node, version: tuple[int, ...], found: Findings) -> Configured:
    paths = []
    for main, directory in zip(CONTAINERS, CONTAINERS_D, strict=True):
        try:
            names = [name for name in node.names(directory) if name.endswith(".conf")][:MAX_FILES]
        except LookError as error:
            found.unseen("unreadable", str(error))
            names = []
        paths += [main, *[f"{directory}/{name}" for name in names]]
    engine: Table = {}
    programs: dict[str, str] = {}
    hook_dirs: tuple[str, ...] = (HOOKS,) if version >= PODMAN_5 else (HOOKS, OLD_HOOKS)
    file = CONTAINERS[1]
    for path in paths:
        part = table(_read(node, path, "", found), "engine")
        for name, places in table(part, "runtimes").items():
            existing = [place for place in strings(places) if node.exists(place)]
            programs[name] = (existing or [*strings(places), ""])[0]
            if programs[name].rpartition("/")[2].startswith("nri-"):
                file = path
        engine |= part
        hook_dirs = strings(part.get("hooks_dir")) or hook_dirs
    handlers = tuple([Handler(name, program) for name, program in programs.items()])
    return Configured("podman", file, handlers, text_of(engine.get("runtime")), hook_dirs)


def _read(node: Node, path: str, then: str, found: Findings) -> Table:
    try:
        return read_json(node, path) if path.endswith(".json") else read_toml(node, path)
    except LookError as error:
        if error.is_denied:
            found.unseen("unreadable", str(error))
        elif not error.is_absent:
            found.fault("unreadable", str(error), f"correct {path}{f', then {then}' if then else ''}")
    return {}
