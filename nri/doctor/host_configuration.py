"""The host configuration: the faults that ``nri check`` finds, without the values that they quote."""

from __future__ import annotations

import stat
import time
from typing import TYPE_CHECKING, Protocol

from nri.config import ConfigError, Fault, load_files
from nri.config.loading import InvalidFile
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.redaction import without_values
from nri.doctor.ways import Plugins
from nri.places import RUNTIME_OPTIONS_FILE
from nri.runtime.options import load as load_runtime_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.config.entries import PluginEntry
    from nri.v1bridge.options import BridgeOptions

SUBJECT = "configuration"

CHECKED_WITHIN = 30.0
"""Seconds after which no further plugin is asked."""

_MEND = "correct the file; `nri check` shows what was found"
_OF_PLUGIN = ("; the end of its stderr:", "; it wrote ")  # before text that comes from a plugin


class PluginCheck(Protocol):
    """What ``nri check`` finds out about an entry."""

    @property
    def faults(self) -> Sequence[Fault]:
        """What must be mended."""

    @property
    def notes(self) -> Sequence[str]:
        """What is worth knowing."""

    @property
    def version(self) -> str | None:
        """The version that the plugin answers."""


def look(
    node: Node, options: BridgeOptions, check: Callable[[PluginEntry], PluginCheck] | None = None
) -> tuple[Plugins | None, Findings]:
    """Return the plugins that are configured, None if files are not valid, and the findings of this subject.

    :param check: asks a plugin. Without it only its file is looked at.
    """
    found = Findings(SUBJECT)
    directory, file = (_outside(node, path) for path in (options.conf_dir, options.conf_file))
    try:
        files = load_files(directory, file)
        alone = {file: files[file]} if file in files else load_files("", file)
    except ConfigError as error:
        _faults(node, error, found)
        return None, found
    in_file = tuple([plugin.type for plugins in alone.values() for plugin in plugins])
    entries = [plugin for plugins in files.values() for plugin in plugins]
    in_directory = () if list(files) == [file] else tuple([plugin.type for plugin in entries])
    _check(node, options, entries, check, found)
    _runtime_options(node, found)
    return Plugins(in_directory, in_file), found


def _outside(node: Node, path: str) -> str:
    try:
        return path if node.is_own else node.real(path)
    except LookError:
        return node.root + path


def _faults(node: Node, error: ConfigError, found: Findings) -> None:
    for fault in error.faults:
        for each in fault.explain(20):
            message = without_values(each.message) if isinstance(fault, InvalidFile) else each.message
            text = f"{node.inside(each.file)}:{each.line}:{each.column}: {each.path}: {message}"
            found.fault("invalid", text, _MEND)


def _check(
    node: Node,
    options: BridgeOptions,
    entries: list[PluginEntry],
    check: Callable[[PluginEntry], PluginCheck] | None,
    found: Findings,
) -> None:
    until = time.monotonic() + CHECKED_WITHIN
    for entry in entries:
        where = f"{entry.type} ({node.inside(entry.source or '')})"
        if check is None:
            _look_for(node, options, entry.type, where, found)
            continue
        if time.monotonic() > until:
            found.unseen("not-asked", f"{where}: not asked: {CHECKED_WITHIN:g} s are over", "nri check")
            continue
        checked = check(entry)
        for fault in checked.faults:
            found.fault("plugin", _of_plugin(fault), _MEND if ".conf" in fault.path else "nri check")
        for note in checked.notes:
            found.note("plugin", _without_plugins_text(note))
        if not checked.faults:
            found.ok("plugin", f"{where}: version {checked.version or 'unknown'}")


def _of_plugin(fault: Fault) -> str:
    message = _without_plugins_text(fault.message)
    if ".conf" in fault.path:
        message = without_values(message)
    return f"{fault.file}:{fault.line}:{fault.column}: {fault.path}: {message}"


def _without_plugins_text(message: str) -> str:
    for mark in _OF_PLUGIN:
        message = message.partition(mark)[0]
    return message


def _look_for(node: Node, options: BridgeOptions, plugin: str, where: str, found: Findings) -> None:
    """Add whether there is an executable of a plugin."""
    for directory in options.bin_dirs:
        try:
            mode = node.status(f"{directory}/{plugin}").st_mode
        except LookError as error:
            if not error.is_absent:
                found.unseen("plugin", f"{where}: {error}")
                return
            continue
        if stat.S_ISREG(mode) and mode & 0o111:
            found.ok("plugin", f"{where}: {directory}/{plugin}")
        else:
            text = f"{where}: {directory}/{plugin} is not an executable file"
            found.fault("plugin", text, f"chmod 0755 {directory}/{plugin}")
        return
    text = f"{where}: not found in {', '.join(options.bin_dirs)}"
    found.fault("plugin", text, f"install {plugin} there, or remove its entry")


def _runtime_options(node: Node, found: Findings) -> None:
    path = _outside(node, RUNTIME_OPTIONS_FILE)
    if fault := load_runtime_options(path).fault:
        text = without_values(fault.replace(path, RUNTIME_OPTIONS_FILE))
        found.fault("runtime-options", text, f"correct {RUNTIME_OPTIONS_FILE}")
