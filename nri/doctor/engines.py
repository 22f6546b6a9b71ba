"""The container engines of a node, and what their configuration says of NRI, hooks and ``nri-runc``.

Sources: docs/NRI.md and containerd-config.toml(5) of containerd 1.7 and 2.x; crio.conf(5) and pkg/config of CRI-O;
oci-hooks(5).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from nri.doctor.node import FAULT, NOTE, UNSEEN, Findings, Node, Process, reason, table, texts
from nri.places import DEFAULT_SOCKET

_Read = Callable[[Node, str, Process, Findings], "Engine"]

PLUGIN_DIR = "/opt/nri/plugins"
PLUGIN_CONF_DIR = "/etc/nri/conf.d"
"""Where every runtime looks for v2 plugins and for their configuration, unless its configuration names another."""

HOOKS = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
"""Directories of OCI hooks by default; podman from 5.0 on and CRI-O read only the first one."""

FIRST_WITH_V2 = (1, 7)
"""The first containerd with NRI v2."""

CONTAINERD_CONFIG = "/etc/containerd/config.toml"
DOCKER_CONFIG = "/etc/docker/daemon.json"
PODMAN_CONFIG = "/etc/containers/containers.conf"

_NRI = "io.containerd.nri.v1.nri"
_CRI = "io.containerd.grpc.v1.cri"
_CRI_RUNTIME = "io.containerd.cri.v1.runtime"
_SECTION = f'[plugins."{_NRI}"]'
ON_THE_HOST = "run this command on the host: nsenter -t 1 -m /opt/nri/lib/nri doctor"
_NO_PROCESS = Process(0, [], "", "", is_here=True)
"""Stands for the process of an engine that does not run."""

_OTHER_COMMANDS = {
    "config",
    "publish",
    "oci-hook",
    "--version",
    "-v",
    "version",
    "status",
    "--help",
}
_VERSION = re.compile(r"(?<![\w.])v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})")
# A line that begins with "# " has the default.
_CRIO_KEY = re.compile(r'^(?:# )?(enable_nri|nri_[a-z_]+) = "?([^"\n]*)"?$', re.MULTILINE)


class Engine(NamedTuple):
    """An engine that is in use.

    :ivar version: three numbers, () if it is not known.
    :ivar pid: of its daemon; 0 if it does not run, or has no daemon.
    :ivar nri: whether NRI v2 is on; None if it is not known, or it has none.
    :ivar accepts: whether plugins may connect from outside.
    :ivar serves: whether Kubernetes can use it: otherwise it has no NRI events.
    :ivar is_native: whether it is a containerd without NRI v2, which runs v0.1 plugins itself.
    :ivar reads_file: whether it runs the plugins of conf.json itself: for all containers (1.6) or sandboxes (2.x).
    :ivar switch_on: how NRI is switched on.
    :ivar file: the file to change.
    :ivar runtimes: executables of ``nri-runc`` and its kind that it uses.
    :ivar hooks: files of OCI hooks that run ``nri hook``.
    """

    name: str
    version: tuple[int, ...]
    pid: int = 0
    nri: bool | None = None
    accepts: bool = True
    serves: bool = False
    is_native: bool = False
    reads_file: bool = False
    socket: str = DEFAULT_SOCKET
    plugin_dir: str = PLUGIN_DIR
    conf_dir: str = PLUGIN_CONF_DIR
    switch_on: str = ""
    file: str = ""
    restart: str = ""
    runtimes: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """Its name with its version, as far as that is known."""
        return f"{self.name} {'.'.join(map(str, self.version))}".strip()

    @property
    def is_on(self) -> bool:
        """True if it runs with NRI v2."""
        return self.pid != 0 and self.nri is True

    @property
    def running(self) -> str:
        """The same with its process, if it has one."""
        return f"{self.about}, process {self.pid}" if self.pid else self.about

    @property
    def ways(self) -> list[str]:
        """The hosts that run plugins for its containers, other than a bridge; a phrase for each."""
        ways = []
        if self.runtimes:  # a container has one of them
            ways.append(f"nri-runc ({', '.join(self.runtimes)})")
        if self.hooks:
            ways.append(f"OCI hooks ({self.hooks[0]})")
        return ways


def look(node: Node, processes: list[Process], findings: Findings) -> list[Engine]:
    """Return the engines in use: what runs, podman and docker; if no runtime runs, what is installed."""
    engines: list[Engine] = []
    at_rest: list[tuple[_Read, str]] = []
    for name, program, read in (
        ("containerd", "containerd", _containerd),
        ("CRI-O", "crio", _crio),
    ):
        running = [process for process in processes if _is_daemon(process, program)]
        for process in running:
            if process.is_here:
                # "deleted": it was replaced.
                path = process.program.partition(" (deleted)")[0] or program
                engines.append(read(node, path, process, findings))
            else:
                text = f"{name}, process {process.pid}: it sees other files than this command"
                findings.add(UNSEEN, "elsewhere", text, ON_THE_HOST)
        path = node.find(program)
        if path and not running:
            findings.add(NOTE, "not-running", f"{name} is installed ({path}) and does not run")
            at_rest.append((read, path))
    if not any(engine.serves for engine in engines):
        for read_at_rest, path in at_rest:
            engines.append(read_at_rest(node, path, _NO_PROCESS, findings))
    if node.find("podman"):
        engines.append(_podman(node, findings))
    if node.find("dockerd"):
        engines.append(_docker(node, findings))
    return engines


def _is_daemon(process: Process, program: str) -> bool:
    name, *arguments = process.arguments
    return os.path.basename(name) == program and _OTHER_COMMANDS.isdisjoint(arguments)


def _said(node: Node, findings: Findings, name: str, program: str, *arguments: str) -> str:
    """Return what a program prints, "" if it cannot be run."""
    try:
        return node.run(name, program, *arguments)
    except OSError as error:
        findings.add(UNSEEN, "unseen", f"`{name} {arguments[0]}`: {reason(error)}")
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """Return the three numbers of the first version in a text, () without one."""
    match = _VERSION.search(text)
    if match is not None:
        return tuple(map(int, match.groups()))
    return ()


def _toml(path: str, text: str, findings: Findings) -> dict[str, Any]:
    """Return the table in a TOML text, {} if it is not TOML; findings quote nothing of it."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        findings.add(UNSEEN, "unseen", f"{path}: it is not TOML")
        return {}


def _containerd(node: Node, program: str, process: Process, findings: Findings) -> Engine:
    """Read ``containerd config dump``, which has all that the file imports, and the defaults."""
    version = _numbers(_said(node, findings, "containerd", program, "--version"))
    main = process.option("--config", "-c") or CONTAINERD_CONFIG
    restart = "systemctl restart containerd"
    document = _toml(main, _dump(node, program, main, restart, findings), findings)
    plugins = table(document, "plugins")
    disabled = texts(document.get("disabled_plugins"))
    nri = table(plugins, _NRI)
    is_off = nri.get("disable")
    serves = not {"cri", _CRI} & set(disabled)
    switch_on = f"set disable = false in {_SECTION} of {main}"
    if _NRI in disabled:
        is_off = True
        switch_on = f'take "{_NRI}" out of disabled_plugins in {main}'
    elif version < (2,):
        switch_on += ", whose first line must be version = 2"
    handlers = table(plugins, _CRI, "containerd", "runtimes")
    handlers |= table(plugins, _CRI_RUNTIME, "containerd", "runtimes")
    return Engine(
        "containerd",
        version,
        process.pid,
        not is_off if isinstance(is_off, bool) else None,
        accepts=nri.get("disable_connections") is not True,
        serves=serves,
        is_native=() < version < FIRST_WITH_V2,
        reads_file=serves and version[:2] not in ((), FIRST_WITH_V2),
        socket=_path(nri, "socket_path", DEFAULT_SOCKET),
        plugin_dir=_path(nri, "plugin_path", PLUGIN_DIR),
        conf_dir=_path(nri, "plugin_config_path", PLUGIN_CONF_DIR),
        switch_on=f"{switch_on}; {restart}",
        file=main,
        restart=restart,
        runtimes=_ours(handlers.values(), "options", "BinaryName"),
    )


def _dump(node: Node, program: str, main: str, restart: str, findings: Findings) -> str:
    """Return the settings of a containerd; "" if it refuses its file."""
    option = ("--config", main) if node.mode(main) else ()
    try:
        return node.run("containerd", program, *option, "config", "dump")
    except ChildProcessError:
        refusal = f"containerd refuses {main}: `{program} --config {main} config dump` says why"
        findings.add(FAULT, "refused", refusal, f"correct {main}; {restart}")
        return ""
    except OSError as error:
        findings.add(UNSEEN, "unseen", f"{reason(error)}; the settings are those in {main} alone")
    with contextlib.suppress(OSError):
        return node.read(main)
    return ""


def _path(settings: dict[str, Any], key: str, default: str) -> str:
    """Return the path that a setting names; no path has a NUL, and TOML may."""
    return str(settings.get(key) or default).replace("\0", "")


def _crio(node: Node, program: str, process: Process, findings: Findings) -> Engine:
    """Read ``crio config``, where a line of a setting that has its default is a comment."""
    file = "/etc/crio/crio.conf.d/99-nri.conf"
    restart = "systemctl restart crio"
    options: list[str] = []
    for long, short in (("--config", "-c"), ("--config-dir", "-d")):
        value = process.option(long, short)
        if value:
            options += [long, value]
    text = _said(node, findings, "crio", program, *options, "config")
    nri = dict(_CRIO_KEY.findall(text))
    runtime = table(_toml("crio config", text, findings), "crio", "runtime")
    return Engine(
        "CRI-O",
        _numbers(_said(node, findings, "crio", program, "--version")),
        process.pid,
        {"true": True, "false": False}.get(nri.get("enable_nri", "")),
        accepts=nri.get("nri_disable_connections") != "true",
        serves=True,
        socket=_path(nri, "nri_listen", DEFAULT_SOCKET),
        plugin_dir=_path(nri, "nri_plugin_dir", PLUGIN_DIR),
        conf_dir=_path(nri, "nri_plugin_config_dir", PLUGIN_CONF_DIR),
        switch_on=f"set enable_nri = true in [crio.nri] of {file}; {restart}",
        file=file,
        restart=restart,
        runtimes=_ours(table(runtime, "runtimes").values(), "runtime_path"),
        hooks=hook_files(node, texts(runtime.get("hooks_dir")) or [HOOKS[0]]),
    )


def _podman(node: Node, findings: Findings) -> Engine:
    info = _told(node, findings, "podman", "info", "--format", "json")
    version = _numbers(str(table(info, "version").get("Version")))
    directories = HOOKS[:1] if version >= (5,) else HOOKS
    hooks = hook_files(node, directories)
    used = _ours([table(info, "host", "ociRuntime")], "path")
    return Engine("podman", version, file=PODMAN_CONFIG, runtimes=used, hooks=hooks)


def _docker(node: Node, findings: Findings) -> Engine:
    info = _told(node, findings, "docker", "info", "--format", "{{json .}}")
    version = _numbers(str(info.get("ServerVersion")))
    default = table(info, "Runtimes", str(info.get("DefaultRuntime")))
    used = _ours([default], "path")
    return Engine("docker", version, file=DOCKER_CONFIG, runtimes=used)


def _told(node: Node, findings: Findings, *command: str) -> dict[str, Any]:
    """Return the JSON object that a program prints, {} if it does not."""
    said = _said(node, findings, command[0], *command)
    try:
        return table(json.loads(said or "{}"))
    except (ValueError, RecursionError):
        findings.add(UNSEEN, "unseen", f"`{' '.join(command[:2])}` prints no JSON")
        return {}


def _ours(handlers: Iterable[Any], *keys: str) -> tuple[str, ...]:
    """Return the programs of runtime handlers that are ``nri-runc``, ``nri-crun`` and so on, each once.

    :param keys: lead to the path of a handler's program.
    """
    ours = {}
    for handler in handlers:
        path = str(table(handler, *keys[:-1]).get(keys[-1]))
        if os.path.basename(path).startswith("nri-"):
            ours[path] = handler
    return tuple(ours)


def hook_files(node: Node, directories: Any) -> tuple[str, ...]:
    """Return the files of OCI hooks that run ``nri hook``."""
    files: list[str] = []
    for directory in directories:
        with contextlib.suppress(OSError):
            for name in node.names(directory):
                path = f"{directory}/{name}"
                if _runs_hook(node, path):
                    files.append(path)
    return tuple(files)


def _runs_hook(node: Node, path: str) -> bool:
    if not path.endswith(".json"):
        return False
    try:
        hook = table(json.loads(node.read(path)), "hook")
    except (OSError, ValueError, RecursionError):
        return False  # the engine's own affair
    program = os.path.basename(str(hook.get("path")))
    return program == "nri" and "hook" in texts(hook.get("args"))[:2]
