"""``nri plugins``: lists the configured plugins with their states, binaries and files."""

from __future__ import annotations

from typing import Any

import click

from nri.cli import options, output
from nri.client import Invoker, PluginError
from nri.config.entries import PluginEntry
from nri.types.v1 import STATES


@click.command()
@options.host
@options.as_json
@options.plain_errors
def plugins(host: options.Host, as_json: bool) -> None:
    """List the configured plugins, in order.

    \b
    Examples:
      nri plugins
      nri plugins --json | jq -r '.[].binary'
    """
    listed = [_entry(plugin, host.invoker) for plugin in host.load().plugins]
    if as_json:
        output.print_json(listed)
        return
    if not listed:
        output.print_no_plugins(host.conf_dir, host.conf_file)
    rows = [(e["type"], ",".join(e["states"]), e["binary"] or e["error"], e["source"]) for e in listed]
    output.print_table(("PLUGIN", "STATES", "BINARY", "CONFIGURED IN"), rows)


def _entry(plugin: PluginEntry, invoker: Invoker) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": plugin.type,
        "states": [state for state in STATES if plugin.wants(state)],
        "source": plugin.source,
        "binary": None,
    }
    try:
        entry["binary"] = invoker.find(plugin.type)
    except PluginError as error:
        entry["error"] = error.reason
    return entry
