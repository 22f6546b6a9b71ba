"""containerd: its NRI settings, and faults of the configuration in which they are."""

from __future__ import annotations

from nri.config.faults import nearest
from nri.doctor import containerd_config
from nri.doctor.containerd_config import CRI, CRI_RUNTIME, ConfigFiles
from nri.doctor.documents import Table, strings, table, text_of
from nri.doctor.engines import Engine
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.settings import NRI, PLUGIN_CONF_DIR, PLUGIN_DIR, Handler, Settings, duration, flag
from nri.places import CONTAINERD_CONF_FILE, DEFAULT_SOCKET

SUBJECT = "containerd"

FIRST_WITH_V2, FIRST_ENABLED = (1, 7), (2, 0)
"""The first version with NRI v2, and the first in which it is on by default."""

KEYS = (
    "disable",
    "disable_connections",
    "plugin_path",
    "plugin_config_path",
    "plugin_registration_timeout",
    "plugin_request_timeout",
    "socket_path",
    "default_validator",
)
"""The keys of NRI's table."""

SECTION = f'[plugins."{NRI}"]'


def look(node: Node, engine: Engine) -> tuple[Settings, Findings]:
    """Return the settings of a containerd, and the findings about its configuration."""
    found = Findings(SUBJECT)
    main = containerd_config.file_of(engine)
    files = containerd_config.read_files(node, main, engine.version[0] if engine.version else 2)
    for error in files.unread:
        _unread(error, engine, found)
    whole: Table | None = None
    try:
        whole = containerd_config.dump(node, engine, main)
    except LookError as error:
        if "refuses it" in error.reason and not files.unread:
            found.fault("refused", str(error), f"correct {main}, then systemctl restart containerd")
        elif "refuses it" not in error.reason:
            found.unseen("dump", f"{error}; settings are read from the files")
    settings = _settings(engine, files, whole)
    if _has_v2(engine):
        _check_table(settings, files, found)
    _describe(settings, files, found)
    return settings, found


def _has_v2(engine: Engine) -> bool:
    return not engine.version or engine.version >= FIRST_WITH_V2


def _unread(error: LookError, engine: Engine, found: Findings) -> None:
    reason = str(error)
    if error.is_denied:
        found.unseen("unreadable", reason)
    elif error.is_absent and engine.version[:1] != (1,):
        found.note("import-missing", f"{reason}; a file that imports names")
    else:
        found.fault("unreadable", reason, f"correct {error.path}, then systemctl restart containerd")


def _settings(engine: Engine, files: ConfigFiles, whole: Table | None) -> Settings:
    plugins = files.plugins if whole is None else table(whole, "plugins")
    disabled = files.disabled if whole is None else strings(whole.get("disabled_plugins"))
    nri = table(plugins, NRI)
    enabled: bool | None = None
    if engine.version and not _has_v2(engine):
        enabled = None
    elif isinstance(nri.get("disable"), bool):
        enabled = not nri["disable"]
    elif engine.version:
        enabled = engine.version >= FIRST_ENABLED
    if NRI in disabled:
        enabled = False
    validator = table(nri, "default_validator")
    is_version_1 = files.version == 1 and engine.version[:1] == (1,) and bool(files.short)
    return Settings(
        engine,
        files.origin.get("disable", files.main),
        enabled,
        accepts=not flag(nri.get("disable_connections"), False),
        socket=text_of(nri.get("socket_path"), DEFAULT_SOCKET),
        plugin_dir=text_of(nri.get("plugin_path"), PLUGIN_DIR),
        conf_dir=text_of(nri.get("plugin_config_path"), PLUGIN_CONF_DIR),
        timeout=duration(nri.get("plugin_request_timeout")),
        required=strings(validator.get("required_plugins")) if flag(validator.get("enable"), False) else (),
        serves=not {CRI, "cri"} & set(disabled),
        handlers=_handlers(plugins, is_default=whole is None),
        section="[plugins.nri]" if is_version_1 else SECTION,
        is_disabled_as_plugin=NRI in disabled,
        main=files.main,
    )


def _handlers(plugins: Table, *, is_default: bool) -> tuple[Handler, ...]:
    """Return the runtimes of the CRI. The one that is called runc exists without a table, too."""
    runtimes: Table = {"runc": {}} if is_default else {}
    for name in (CRI, CRI_RUNTIME):
        runtimes |= table(plugins, name, "containerd", "runtimes")
    handlers = []
    for name, runtime in runtimes.items():
        options = table(runtime, "options")
        is_runc = text_of(table(runtime).get("runtime_type"), "io.containerd.runc.v2") == "io.containerd.runc.v2"
        is_systemd = flag(options.get("SystemdCgroup"), False) if is_runc else None
        handlers.append(Handler(name, text_of(options.get("BinaryName")), is_systemd))
    return tuple(handlers)


def _check_table(settings: Settings, files: ConfigFiles, found: Findings) -> None:
    """Add what is wrong with NRI's table in the files."""
    main, restart = files.main, settings.restart
    if files.ignored and files.version == 1 and settings.engine.version[:1] == (1,):
        if files.short:
            mend = f"rename {SECTION} to [plugins.nri], as in a file of version 1, then {restart}"
        else:
            mend = f"write version = 2 as the first line of {main}, then {restart}"
        found.fault("section-ignored", f"{main} has no version, so containerd 1.7 ignores {SECTION} in it", mend)
    elif files.ignored:
        text = f"containerd ignores [plugins.nri]: {main} is of version {files.version}"
        if files.version == 1:
            text = "containerd 2 ignores [plugins.nri]"
        found.fault("section-ignored", text, f"rename [plugins.nri] to {SECTION} in {main}, then {restart}")
    for key in files.nri:
        if key not in KEYS:
            file, near = files.origin.get(key, main), nearest(key, KEYS)
            name = key[:60]
            if near is not None:
                mend = f"rename it to {near}, then {restart}"
                found.fault("unknown-key", f"{file}: {SECTION} has {name}, which containerd does not know", mend)
            else:
                found.note("unknown-key", f"{file}: {SECTION} has {name}, a key that is not known here")


def _describe(settings: Settings, files: ConfigFiles, found: Findings) -> None:
    """Add the settings themselves."""
    if settings.engine.version and not _has_v2(settings.engine):
        text = f"{settings.about} has no NRI v2: it runs the plugins of {CONTAINERD_CONF_FILE} itself"
        found.ok("native", text)
        return
    if not settings.serves:
        found.note("no-cri", f"its CRI is off in {files.main}: it serves no Kubernetes, and sends no NRI events")
    if settings.enabled is None:
        found.unseen("enabled", f"NRI is off by default in 1.7 and on in 2.x; {files.main} does not say which")
    elif settings.enabled:
        found.ok("enabled", f"NRI is on; plugins of {settings.plugin_dir}, socket {settings.socket}")
    rest = []
    if settings.timeout:
        rest.append(f"plugin_request_timeout is {settings.timeout}")
    if settings.conf_dir != PLUGIN_CONF_DIR:
        rest.append(f"plugin_config_path is {settings.conf_dir}")
    if settings.required:
        rest.append(f"required_plugins: {', '.join(settings.required)}")
    if rest and settings.enabled:
        found.ok("settings", "; ".join(rest))
