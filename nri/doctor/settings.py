"""What a runtime's configuration says about NRI, in the same form for containerd and CRI-O."""

from __future__ import annotations

from typing import Any, NamedTuple

from nri.doctor.engines import Engine
from nri.places import DEFAULT_SOCKET

PLUGIN_DIR, PLUGIN_CONF_DIR = "/opt/nri/plugins", "/etc/nri/conf.d"
"""Where every runtime looks for v2 plugins and for their configuration, unless it is told otherwise."""

NRI = "io.containerd.nri.v1.nri"
"""The name of NRI v2 among containerd's plugins."""


class Handler(NamedTuple):
    """An OCI runtime as an engine knows it.

    :ivar program: its path or name, "" for the engine's default.
    :ivar is_systemd: whether its cgroup driver is systemd's; None if the engine decides that elsewhere.
    """

    name: str
    program: str
    is_systemd: bool | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is ``nri-runc``, ``nri-crun`` and so on."""
        return self.program.rpartition("/")[2].startswith("nri-")


class Settings(NamedTuple):
    """The settings of one runtime.

    :ivar file: the file that sets whether NRI is on, else the one to write it to.
    :ivar main: the first file of its configuration.
    :ivar enabled: whether NRI v2 is on; None if it is not known, or the runtime has none.
    :ivar accepts: whether plugins may connect from outside.
    :ivar serves: whether Kubernetes uses it, so that there are events at all.
    :ivar required: plugins without which it refuses containers.
    :ivar section: the table with NRI's settings.
    :ivar is_disabled_as_plugin: containerd's ``disabled_plugins`` has NRI.
    """

    engine: Engine
    file: str
    enabled: bool | None = None
    accepts: bool = True
    socket: str = DEFAULT_SOCKET
    plugin_dir: str = PLUGIN_DIR
    conf_dir: str = PLUGIN_CONF_DIR
    timeout: str = ""
    required: tuple[str, ...] = ()
    serves: bool = True
    handlers: tuple[Handler, ...] = ()
    hook_dirs: tuple[str, ...] = ()
    section: str = ""
    is_disabled_as_plugin: bool = False
    main: str = ""

    @property
    def switch_on(self) -> str:
        """The line that mends NRI that is off."""
        if self.is_disabled_as_plugin:
            return f'take "{NRI}" out of disabled_plugins in {self.file}, then {self.restart}'
        line = "disable = false" if self.engine.name == "containerd" else "enable_nri = true"
        return self.setting(line)

    @property
    def let_in(self) -> str:
        """The line that mends a runtime that accepts no connection."""
        key = "disable_connections" if self.engine.name == "containerd" else "nri_disable_connections"
        return self.setting(f"{key} = false")

    def setting(self, line: str) -> str:
        """Return the sentence that tells where to write a line of the configuration."""
        return f"set {line} in {self.section} of {self.file}, then {self.restart}"

    @property
    def restart(self) -> str:
        """The command that restarts it."""
        return f"systemctl restart {self.service}"

    @property
    def service(self) -> str:
        """The name of its systemd service."""
        return self.engine.service or {"containerd": "containerd", "CRI-O": "crio"}[self.engine.name]

    @property
    def about(self) -> str:
        """Its name with its version, as far as that is known."""
        return " ".join([self.engine.name, ".".join(map(str, self.engine.version))]).strip()


def flag(value: object, default: bool) -> bool:
    """Return ``value`` if it is a boolean, else the default."""
    return value if isinstance(value, bool) else default


def duration(value: Any) -> str:
    """Return a duration as text: TOML has no type for it, and containerd takes strings, CRI-O also nanoseconds."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return f"{value / 1e9:g}s" if isinstance(value, int) else value[:20]
