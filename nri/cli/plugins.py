"""``nri plugins``: what would run, in order, from which file, which binary."""

from __future__ import annotations

import click

from nri import config
from nri.cli import options, output
from nri.client import PluginError, find
from nri.types.v1 import State


@click.command()
@options.host
@options.as_json
@options.plain_errors
def plugins(conf_dir: str, conf_file: str, bin_dirs: tuple[str, ...], as_json: bool) -> None:
    """List the plugins that would run, in order.

    \b
    Examples:
      nri plugins
      nri plugins --json | jq -r '.[].binary'
    """
    listed = []
    for plugin in config.load(conf_dir, conf_file).plugins:
        entry: dict[str, object] = {
            "type": plugin.type,
            "states": [State.CREATE, State.DELETE, *[s for s in plugin.states if s not in ("create", "delete")]],
            "source": plugin.source,
            "binary": None,
        }
        try:
            entry["binary"] = find(plugin.type, bin_dirs)
        except PluginError as error:
            entry["error"] = error.reason
        listed.append(entry)
    if as_json:
        output.print_json(listed)
        return
    if not listed:
        click.echo(f"no plugins: {conf_dir} holds no *.conf with plugins, and there is no {conf_file}")
    rows = [
        (
            str(entry["type"]),
            ",".join(map(str, entry["states"])),
            str(entry["binary"] or entry["error"]),
            str(entry["source"]),
        )  # type: ignore[call-overload]
        for entry in listed
    ]
    output.print_table(("PLUGIN", "STATES", "BINARY", "CONFIGURED IN"), rows)
