"""``nri check``: checks the host configuration, and whether each of its plugins can run."""

from __future__ import annotations

import contextlib
import json

import click

from nri import config
from nri.cli import options, output
from nri.config import Fault, refused
from nri.config.entries import PluginEntry
from nri.config.loading import unread
from nri.config.site import Site
from nri.doctor.checking import Checked, check_host, fault_value
from nri.errors import escape
from nri.node.in_use import InUse, why_not
from nri.places import DEFAULT_CONF_DIR


@click.command()
@options.host
@options.as_json
@click.option(
    "--hash",
    "hash_only",
    is_flag=True,
    help="Print the hash of the configuration's content, and check no plugin.",
)
def check(host: Site, as_json: bool, hash_only: bool) -> None:
    """Check the host configuration and its plugins.

    Lists all faults of all files as FILE:LINE:COLUMN: PATH: what was found, what was expected. Asks each plugin for
    its version and for the schema of its conf. A plugin that does not know these must answer a request of an unknown
    state. The exit status is 1 if there is a fault.

    \b
    Examples:
      nri check
      nri check --conf-dir ./resource.d --bin-dir ./dist/nri
      nri check --json | jq '.faults'
      nri check --hash
    """
    if hash_only:
        with contextlib.suppress(config.ConfigError):  # its faults follow
            click.echo(host.load().content_hash())
            return
    checked, faults = check_host(host)
    in_use = InUse(host, writes=False)
    in_use.look()
    if in_use.config is not None or in_use.fault:
        notes = [*why_not(in_use)]
    else:
        notes = []
    for note, _ in unread(host.conf_dir, is_standard=host.conf_dir == DEFAULT_CONF_DIR):
        notes.append(note)

    notes += _twice([entry.plugin for entry in checked])
    if (last := refused.read(host.conf_dir)) is not None:
        if last.faults:
            fault = last.faults[0]
        else:
            fault = "its faults are not known"
        notes.append(
            f"what `nri apply {last.source}` was to bring in was refused, and is not in use: "
            f"{fault}"
        )
    if as_json:
        listed = [entry.to_value() for entry in checked]
        values = [fault_value(fault) for fault in faults]
        output.print_json({"ok": not faults, "faults": values, "notes": notes, "plugins": listed})
    else:
        _print(checked, faults, notes, host)
    raise click.exceptions.Exit(1 if faults else 0)


def _twice(entries: list[PluginEntry]) -> list[str]:
    """Return a note on each type that two entries without different conditions name: both run for a container."""
    first: dict[tuple[str, str], PluginEntry] = {}
    notes = []
    for entry in entries:
        key = entry.type, json.dumps(entry.when, sort_keys=True, default=str)
        other = first.setdefault(key, entry)
        if other is not entry:
            places = f"{other.place} and {entry.place}"
            notes.append(f"{entry.type} is configured twice, and runs twice: {places}")
    return notes


def _print(checked: list[Checked], faults: tuple[Fault, ...], notes: list[str], host: Site) -> None:
    rows = []
    for c in checked:
        rows.append((c.plugin.type, c.version or "unknown", c.conf, c.place, c.plugin.source))
        notes += c.notes

    output.print_table(("PLUGIN", "VERSION", "CONF", "BINARY", "CONFIGURED IN"), rows)
    for note in notes:
        click.echo(escape(f"note: {note}"), err=True)
    for fault in faults:
        click.secho(str(fault), fg="red", err=True)
    if faults:
        click.echo(output.counted(len(faults), "fault"), err=True)
    elif not checked:
        nothing = (
            f"no plugins: {host.conf_dir} holds no *.conf with plugins, and there is no "
            f"{host.conf_file}"
        )
        click.echo(escape(nothing))
    else:
        click.secho("all is well", fg="green")
