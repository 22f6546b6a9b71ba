"""containerd's configuration: its files with their imports, or what ``containerd config dump`` makes of them.

Only the tables of NRI and of the CRI's runtimes are looked at, since the others may hold registry credentials.
Sources: docs/NRI.md, docs/man/containerd-config.toml.5.md and cmd/containerd/server/config of containerd 1.7 and 2.x.
"""

from __future__ import annotations

import fnmatch
import os

from nri.doctor.documents import Table, read_toml, strings, table, toml
from nri.doctor.engines import Engine
from nri.doctor.node import LookError, Node
from nri.doctor.settings import NRI

DEFAULT_FILE = "/etc/containerd/config.toml"

MAX_FILES = 100
"""Files that are read, imports included."""

CRI = "io.containerd.grpc.v1.cri"
CRI_RUNTIME = "io.containerd.cri.v1.runtime"
"""Names of plugins: the CRI as a whole, and the part of 2.x that has its runtimes."""

_SHORT = {"cri": CRI, "nri": NRI}  # names in a file of version 1


class ConfigFiles:
    """What containerd's files say.

    :ivar main: the first file.
    :ivar plugins: the tables of all plugins, by their full names; imports are merged as containerd does.
    :ivar disabled: ``disabled_plugins``.
    :ivar version: the version of the configuration, 1 if the file names none.
    :ivar short: plugins that are named in the short form of version 1.
    :ivar ignored: whether there is a table of NRI that containerd does not look at, because of the version.
    :ivar origin: by key of NRI's table, the file that sets it.
    :ivar unread: why files are not part of this.
    """

    def __init__(self, main: str) -> None:
        self.main = main
        self.plugins: Table = {}
        self.disabled: list[str] = []
        self.version = 1
        self.short: set[str] = set()
        self.ignored = False
        self.origin: dict[str, str] = {}
        self.unread: list[LookError] = []

    @property
    def nri(self) -> Table:
        """The table of NRI."""
        return table(self.plugins, NRI)


def file_of(engine: Engine) -> str:
    """Return the path of the main file."""
    given = engine.process.option("--config", "-c") if engine.process is not None else ""
    return os.path.join("/", given) if given else DEFAULT_FILE


def read_files(node: Node, main: str, generation: int) -> ConfigFiles:
    """Return what the files say.

    :param generation: the first number of containerd's version; it decides how tables are merged and named.
    """
    found, pending, seen = ConfigFiles(main), [main], set[str]()
    versions: list[int] = []
    while pending and len(seen) < MAX_FILES:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        try:
            document = read_toml(node, path)
        except LookError as error:
            if not (path == main and error.is_absent):
                found.unread.append(error)
            continue
        version = document.get("version")
        versions.append(version if isinstance(version, int) and version > 0 else 1)
        if path == main or generation < 2:
            found.version = max(versions)
        plugins = table(document, "plugins")
        found.short.update(name for name in plugins if "." not in name)
        found.origin.update(dict.fromkeys([*table(plugins, NRI), *table(plugins, "nri")], path))
        if generation >= 2:  # each file is migrated by itself
            plugins = _named(plugins, versions[-1], generation, found)
            _merge(found.plugins, plugins)
        else:
            found.plugins.update(plugins)  # the table of a plugin is replaced as a whole
        found.disabled += strings(document.get("disabled_plugins"))
        pending += _imports(node, path, strings(document.get("imports")))
    if generation < 2:
        found.plugins = _named(found.plugins, found.version, generation, found)
    return found


def dump(node: Node, engine: Engine, main: str) -> Table | None:
    """Return the configuration as containerd itself reads it; None if it has none to read.

    :raises LookError: it can't be asked, or refuses its own configuration.
    """
    if not node.runs or not engine.program:
        return None
    option = ("--config", main) if node.exists(main) else ()
    output = node.run(engine.program, *option, "config", "dump", name="containerd")
    if output.status:
        raise LookError(main, f"containerd refuses it (`{engine.program} --config {main} config dump` says why)")
    return toml(output.stdout, f"the output of {engine.program} config dump")


def _named(plugins: Table, version: int, generation: int, found: ConfigFiles) -> Table:
    """Return the tables by their full names, without those that containerd does not look at."""
    if version != 1:
        found.ignored = found.ignored or "nri" in plugins
        return {name: section for name, section in plugins.items() if "." in name}
    if generation >= 2:  # of the short names it knows those that version 1 had, and not NRI's
        found.ignored = found.ignored or "nri" in plugins
        return {CRI if name == "cri" else name: section for name, section in plugins.items() if name != "nri"}
    found.ignored = found.ignored or NRI in plugins
    return {_SHORT[name]: section for name, section in plugins.items() if name in _SHORT}


def _merge(into: Table, other: Table) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _imports(node: Node, path: str, imports: tuple[str, ...]) -> list[str]:
    """Return the files that a file imports; a pattern stands for the files that match it."""
    found: list[str] = []
    for name in imports:
        whole = os.path.normpath(os.path.join(os.path.dirname(path), name))
        if "*" not in whole:
            found.append(whole)
            continue
        directory, pattern = os.path.split(whole)
        try:
            found += [f"{directory}/{each}" for each in node.names(directory) if fnmatch.fnmatchcase(each, pattern)]
        except LookError:
            continue  # it matches nothing
    return found
