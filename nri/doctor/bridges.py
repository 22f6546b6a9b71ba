"""The bridges of a node: the one that a runtime launches, those that run from outside, their options and sockets."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node, Process
from nri.doctor.redaction import without_values
from nri.doctor.settings import PLUGIN_CONF_DIR, PLUGIN_DIR, Settings
from nri.errors import NRIError
from nri.places import DEFAULT_RECORD_FILE, DEFAULT_SOCKET
from nri.process import watchdog
from nri.v1bridge.options import BridgeOptions

SUBJECT = "bridge"

SERVICE = "nri-v1bridge.service"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{SERVICE}"
OUTSIDE_OPTIONS = "/etc/nri/v1bridge.json"
"""The options that the systemd unit of this project names."""

_NAME = re.compile(r"\d\d-.")
_LISTENS = 0x10000  # __SO_ACCEPTCON in the flags of /proc/net/unix


class Bridges(NamedTuple):
    """What was found of the bridge.

    :ivar launched: the executables of it that a runtime launches: each ``NN-v1bridge`` in a directory of plugins.
    :ivar outside: the processes that were started otherwise.
    :ivar is_enabled: whether the systemd service of this project is enabled.
    :ivar options: the options, the defaults if there are none.
    :ivar is_unseen: processes can't be seen, so there may be more.
    """

    launched: list[str]
    outside: list[Process]
    is_enabled: bool
    options: BridgeOptions
    is_unseen: bool = False

    @property
    def is_outside(self) -> bool:
        """Whether one runs from outside, or would after the next boot."""
        return bool(self.outside) or self.is_enabled

    @property
    def record_file(self) -> str:
        """The bridge's record, beside which its other files are."""
        return self.options.record_file or DEFAULT_RECORD_FILE


def look(node: Node, all_settings: list[Settings], processes: list[Process] | None) -> tuple[Bridges, Findings]:
    """Return the bridges, and the findings of this subject."""
    found = Findings(SUBJECT)
    directories = list(dict.fromkeys([settings.plugin_dir for settings in all_settings] or [PLUGIN_DIR]))
    launched = [path for directory in directories for path in _plugins(node, directory, found)]
    outside = [process for process in processes or [] if _is_outside(process)]
    options = _options(node, launched, outside, all_settings, found)
    is_enabled = node.is_link(WANTED) or node.exists(WANTED)
    bridges = Bridges(launched, outside, is_enabled, options, processes is None)
    for path in launched:
        found.ok("launched", f"{path} is launched by the runtime")
    for process in outside:
        found.ok("outside", f"process {process.pid} runs from outside")
    if is_enabled and not outside:
        found.ok("enabled", f"{SERVICE} is enabled")
    for settings in all_settings:
        _check_socket(node, settings, found)
        _check_wanted_socket(settings, outside, found)
    return bridges, found


def _plugins(node: Node, directory: str, found: Findings) -> list[str]:
    """Return the bridges in a directory of plugins; add what keeps a runtime from starting them."""
    try:
        names = node.names(directory)
    except LookError as error:
        found.unseen("plugins", str(error))
        return []
    launched = []
    for name in names:
        path = f"{directory}/{name}"
        is_link = node.is_link(path)
        try:
            mode = node.status(path).st_mode
        except LookError as error:
            if is_link and error.is_absent:
                text = f"{path} is a link to a file that does not exist: the runtime can't launch it"
                found.fault("dangling", text, f"install it again, or rm {path}")
            else:
                found.unseen("plugins", str(error))
            continue
        if stat.S_ISDIR(mode) and not is_link:
            continue
        if not mode & 0o111 or not stat.S_ISREG(mode):
            what = "is not executable" if stat.S_ISREG(mode) else "is no executable file"
            mend = f"chmod 0755 {path}" if stat.S_ISREG(mode) else f"move {path} away"
            if _NAME.match(name):
                found.fault("not-executable", f"{path} {what}: the runtime does not launch it", mend)
        elif not _NAME.match(name):
            text = f"{path}: a name without two digits and a dash in front keeps containerd from starting"
            found.fault("plugin-name", text, f"move {path} away")
        elif name[3:] == "v1bridge":
            launched.append(path)
        else:
            found.ok("other-plugin", f"{path}: another v2 plugin")
    return launched


def _is_outside(process: Process) -> bool:
    """Return whether a process is ``nri bridge``, or a ``v1bridge`` that a runtime did not launch as NN-v1bridge."""
    name = os.path.basename(process.arguments[0])
    words = [os.path.basename(word) for word in process.arguments[:6]]
    if process.name == watchdog.NAME:
        return False
    if "--help" in process.arguments:
        return False
    if name == "nri" or name.startswith("python"):
        return "nri" in words and "bridge" in words[words.index("nri") + 1 :][:1]
    return name == "v1bridge"


def _options(
    node: Node, launched: list[str], outside: list[Process], all_settings: list[Settings], found: Findings
) -> BridgeOptions:
    """Return the options of the bridge that runs, else of the one that would be launched."""
    here = [process for process in outside if process.is_here is not False]
    for process in [process for process in outside if process not in here]:
        text = f"the options of process {process.pid} are not seen: it sees other files than this command"
        found.unseen("options", text, f"nri doctor --root /proc/{process.pid}/root")
    if outside and not here:
        return BridgeOptions()
    given = next(filter(None, [process.option("--config") for process in here]), "")
    paths = [given] if given else []
    if not paths and launched:
        directory = next((each.conf_dir for each in all_settings), PLUGIN_CONF_DIR)
        name = os.path.basename(launched[0])
        paths = [f"{directory}/{name}.conf", f"{directory}/{name[3:]}.conf"]
    elif not paths:
        paths = [OUTSIDE_OPTIONS]
    for path in paths:
        try:
            document = node.read(path).decode()
        except LookError as error:
            if error.is_absent:
                continue
            level = found.unseen if error.is_denied else found.fault
            level("options", str(error), f"correct {path}")
            break
        except UnicodeDecodeError:
            found.fault("options", f"{path}: it is not UTF-8", f"correct {path}")
            break
        options, faults = BridgeOptions.read(document)
        for fault in faults:
            found.fault("options", f"{path}: {without_values(fault)}", f"correct {path}")
        if not faults:
            found.ok("options", f"{path} is valid")
        return options
    return BridgeOptions()


def _check_socket(node: Node, settings: Settings, found: Findings) -> None:
    """Add whether the runtime listens."""
    if not settings.enabled or not settings.accepts or settings.engine.process is None:
        return
    try:
        mode = node.status(settings.socket).st_mode
    except LookError as error:
        if error.is_absent:
            text = f"{settings.socket} does not exist, though {settings.about} has NRI on: it was not restarted since"
            found.fault("no-socket", text, settings.restart)
        else:
            found.unseen("socket", str(error))
        return
    if not stat.S_ISSOCK(mode):
        text = f"{settings.socket} is not a socket"
        found.fault("no-socket", text, f"rm {settings.socket}, then {settings.restart}")
    elif _is_listened_to(node, settings.socket) is False:
        found.note("silent-socket", f"no process of this network namespace listens on {settings.socket}")
    else:
        found.ok("socket", f"{settings.about} listens on {settings.socket}")


def _is_listened_to(node: Node, path: str) -> bool | None:
    """Return whether a process listens on a socket, by the kernel's table: to connect would disturb it."""
    try:
        real = node.real(path)
        for line in node.read("/proc/net/unix", 32 * 1024 * 1024).decode("utf-8", "replace").splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and int(fields[3], 16) & _LISTENS and node.real(fields[7]) == real:
                return True
    except (NRIError, ValueError):
        return None
    return False


def _check_wanted_socket(settings: Settings, outside: list[Process], found: Findings) -> None:
    """Add a fault if a bridge from outside looks for another socket than the runtime's."""
    for process in [process for process in outside if process.is_here is not False]:
        wanted = process.option("--socket") or DEFAULT_SOCKET
        if settings.enabled and _same(wanted) != _same(settings.socket):
            text = f"process {process.pid} connects to {wanted}, and {settings.about} listens on {settings.socket}"
            found.fault("other-socket", text, f"start the bridge with --socket {settings.socket}")


def _same(path: str) -> str:
    return os.path.normpath(path).replace("/var/run/", "/run/", 1)
