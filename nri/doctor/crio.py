"""CRI-O: its NRI settings, from ``crio.conf`` and the files of ``crio.conf.d``.

Sources: docs/crio.conf.5.md, internal/config/nri and pkg/config of CRI-O 1.36. NRI is on by default since 1.30.
"""

from __future__ import annotations

import stat

from nri.doctor.documents import Table, read_toml, strings, table, text_of
from nri.doctor.engines import Engine
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.settings import PLUGIN_CONF_DIR, PLUGIN_DIR, Handler, Settings, duration, flag
from nri.places import DEFAULT_SOCKET

SUBJECT = "CRI-O"

FIRST_ENABLED = (1, 30)
"""The first version in which NRI is on by default; 1.26 is the first that has it."""

MAIN, DROP_INS = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
OURS = f"{DROP_INS}/99-nri.conf"
"""The file that a mending line names if no file has the setting: the last one counts."""

HOOKS = "/usr/share/containers/oci/hooks.d"
"""Directory of OCI hooks by default."""

MAX_FILES, MAX_DEPTH = 200, 5


def look(node: Node, engine: Engine) -> tuple[Settings, Findings]:
    """Return the settings of a CRI-O, and the findings about its configuration."""
    found = Findings(SUBJECT)
    process = engine.process
    main = (process.option("--config", "-c") if process else "") or MAIN
    directory = (process.option("--config-dir", "-d") if process else "") or DROP_INS
    nri: Table = {}
    runtime: Table = {}
    handlers: Table = {}
    file = ""
    for path in [main, *_below(node, directory, MAX_DEPTH)][:MAX_FILES]:
        try:
            document = read_toml(node, path)
        except LookError as error:
            if error.is_denied:
                found.unseen("unreadable", str(error))
            elif path != main or not error.is_absent:
                found.fault("unreadable", str(error), f"correct {path}, then systemctl restart crio")
            continue
        crio = table(document, "crio")
        if "enable_nri" in table(crio, "nri"):
            file = path
        nri |= table(crio, "nri")
        runtime |= table(crio, "runtime")
        for name, each in table(crio, "runtime", "runtimes").items():
            handlers[name] = table(handlers, name) | table(each)
    settings = _settings(engine, nri, runtime, handlers, file or OURS)
    _describe(settings, found)
    return settings, found


def _below(node: Node, directory: str, depth: int) -> list[str]:
    """Return all files below a directory, whatever their names, in the order in which CRI-O reads them."""
    found: list[str] = []
    try:
        names = node.names(directory)
    except LookError:
        return found  # a file in the place of the directory: CRI-O reads it, too
    for name in names[:MAX_FILES]:
        path = f"{directory}/{name}"
        try:
            is_directory = stat.S_ISDIR(node.status(path).st_mode)
        except LookError:
            is_directory = False
        if not is_directory:
            found.append(path)
        elif depth and not node.is_link(path):
            found += _below(node, path, depth - 1)
    return found


def _settings(engine: Engine, nri: Table, runtime: Table, handlers: Table, file: str) -> Settings:
    enabled: bool | None = engine.version >= FIRST_ENABLED if engine.version else None
    if isinstance(nri.get("enable_nri"), bool):
        enabled = nri["enable_nri"]
    validator = table(nri, "default_validator")
    is_required = flag(validator.get("nri_enable_default_validator"), False)
    required = strings(validator.get("nri_validator_required_plugins")) if is_required else ()
    is_systemd = text_of(runtime.get("cgroup_manager"), "systemd") == "systemd"
    return Settings(
        engine,
        file,
        enabled,
        accepts=not flag(nri.get("nri_disable_connections"), False),
        socket=text_of(nri.get("nri_listen"), DEFAULT_SOCKET),
        plugin_dir=text_of(nri.get("nri_plugin_dir"), PLUGIN_DIR),
        conf_dir=text_of(nri.get("nri_plugin_config_dir"), PLUGIN_CONF_DIR),
        timeout=duration(nri.get("nri_plugin_request_timeout")),
        required=required,
        handlers=tuple(
            [Handler(name, text_of(table(each).get("runtime_path")), is_systemd) for name, each in handlers.items()]
        )
        or (Handler("crun", "", is_systemd),),
        hook_dirs=strings(runtime.get("hooks_dir")) or (HOOKS,),
        section="[crio.nri]",
        main=MAIN,
    )


def _describe(settings: Settings, found: Findings) -> None:
    if settings.enabled is None:
        found.unseen("enabled", "NRI is on by default since 1.30; its files do not say whether it is")
    elif settings.enabled:
        found.ok("enabled", f"NRI is on; plugins of {settings.plugin_dir}, socket {settings.socket}")
    if settings.timeout and settings.enabled:
        found.ok("settings", f"nri_plugin_request_timeout is {settings.timeout}")
