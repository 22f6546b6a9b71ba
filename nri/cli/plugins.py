"""``nri plugins``: lists the configured plugins with their states, binaries and files."""

from __future__ import annotations

from typing import Any

import click

from nri import config
from nri.cli import options, output
from nri.client import PluginError, find
from nri.config.entries import PluginEntry
from nri.types.v1 import STATES


@click.command()
@options.host
@options.as_json
@options.plain_errors
def plugins(conf_dir: str, conf_file: str, bin_dirs: tuple[str, ...], check_owner: bool, as_json: bool) -> None:
    """List the configured plugins, in order.

    \b
    Examples:
      nri plugins
      nri plugins --json | jq -r '.[].binary'
    """
    options.warn_unless(check_owner)
    configured = config.load(conf_dir, conf_file, check_owner=check_owner).plugins
    listed = [_entry(plugin, bin_dirs, check_owner=check_owner) for plugin in configured]
    if as_json:
        output.print_json(listed)
        return
    if not listed:
        output.print_no_plugins(conf_dir, conf_file)
    rows = [(e["type"], ",".join(e["states"]), e["binary"] or e["error"], e["source"]) for e in listed]
    output.print_table(("PLUGIN", "STATES", "BINARY", "CONFIGURED IN"), rows)


def _entry(plugin: PluginEntry, bin_dirs: tuple[str, ...], *, check_owner: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": plugin.type,
        "states": [state for state in STATES if plugin.wants(state)],
        "source": plugin.source,
        "binary": None,
    }
    try:
        entry["binary"] = find(plugin.type, bin_dirs, check_owner=check_owner)
    except PluginError as error:
        entry["error"] = error.reason
    return entry
