"""What ``nri status`` says of a node where no bridge runs: what ``nri check`` finds out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nri import config
from nri.cli.check import Checked
from nri.status import without_bridge

if TYPE_CHECKING:
    from nri.cli.options import Host


def look(host: Host) -> dict[str, Any]:
    """Return the status of a node without a bridge. Each plugin is run once or twice, for its version and schema."""
    invoker = host.invoker
    try:
        loaded = host.load()
        plugins, content = loaded.plugins, loaded.content_hash()
        faults: tuple[config.Fault, ...] = ()
    except config.ConfigError as error:
        plugins, content, faults = (), None, error.faults
    checked = [Checked(plugin, invoker, host.conf_file) for plugin in plugins]
    files = dict.fromkeys([plugin.source for plugin in plugins] + [fault.file for fault in faults])
    return without_bridge.document(
        time=time.time(),
        files=[*files],
        hash=content,
        faults=[str(fault) for fault in faults],
        plugins=[_plugin(each) for each in checked],
    )


def _plugin(checked: Checked) -> dict[str, Any]:
    plugin = checked.plugin
    return without_bridge.plugin(
        type=plugin.type,
        source=plugin.source,
        index=plugin.source_index,
        states=plugin.wanted_states,
        binary=checked.binary,
        problem="; ".join([fault.message.removeprefix(f"{plugin.type}: ") for fault in checked.faults]) or None,
        build=checked.version,
    )
