"""``nri check``: is the node's configuration right, and is every plugin that it names there and able to run?"""

from __future__ import annotations

import time
from typing import Any

import click

from nri import config
from nri.cli import options, output
from nri.client import PluginError, find
from nri.client.ahead import try_ahead
from nri.client.launch import launch
from nri.config import Fault
from nri.config.conf import check_conf, fault_at
from nri.config.openness import openness_note
from nri.errors import printable
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.v1 import Plugin

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to say what it is."""


class Checked:
    """One entry of the configuration, and what was found out about it."""

    def __init__(self, plugin: Plugin, bin_dirs: tuple[str, ...], *, check_owner: bool) -> None:
        self.plugin = plugin
        self.binary: str | None = None
        self.version: str | None = None
        self.conf = "not checked"
        self.note = ""
        self.faults: tuple[Fault, ...] = ()
        try:
            self.binary = find(plugin.type, bin_dirs, check_owner=check_owner)
        except PluginError as error:
            self._fault(str(error))
            return
        about = self._ask("version")
        if not isinstance(about, dict) or not {"type", "nri"} <= about.keys():
            return  # not built with nri.skel, which alone knows these verbs; its conf is its own affair
        self.version = gojson.shorten(str(about.get("version") or "(none)"))
        if plugin.ahead != "never" and (why := try_ahead(self.binary, plugin.type)):
            self.note = f"{self.binary} is started for each request: {why}"
        if about["type"] != plugin.type:
            said = gojson.describe(about["type"])
            self._fault(f"{self.binary} says that it is {said}, expected {plugin.type!r}")
        schema = self._ask("schema")
        if schema is True:
            self.conf = "any"
            return
        wrong = check_conf(plugin, schema)
        self.faults += wrong
        self.conf = "wrong" if wrong else "right"
        if not wrong:
            self.note = openness_note(plugin, schema)

    def _fault(self, message: str) -> None:
        self.faults += (fault_at(self.plugin, "type", message),)

    def _ask(self, verb: str) -> object:
        """What the plugin says about itself; None when it does not know the verb or fails."""
        until = time.monotonic() + ANSWER_WITHIN
        try:
            said = launch(str(self.binary), [self.plugin.type, verb], b"", until, log=lambda _line: None)
        except OSError as error:
            self._fault(f"{self.binary} cannot be started: {error.strerror}")
            return None
        if said.stopped:
            why = f"gave no answer in {ANSWER_WITHIN:g} s" if said.stopped == "deadline" else "wrote without end"
            self._fault(f"{self.binary} {verb}: killed, it {why}")
            return None
        try:
            if said.status == 0:
                return gojson.loads(said.stdout)
        except DecodeError:
            pass
        # No fault: a plugin that was not built with nri.skel need not know the verb. But it may be broken as well.
        self.note = f"{self.binary} does not answer '{verb}' (exit status {said.status})"
        if said.stderr:
            self.note += f"; the end of its stderr: {said.stderr}"
        return None

    def to_value(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "type": self.plugin.type,
            "source": self.plugin.source,
            "binary": self.binary,
            "version": self.version,
            "conf": self.conf,
            "faults": [_fault_value(fault) for fault in self.faults],
            "note": self.note,
        }


@click.command()
@options.host
@options.as_json
def check(conf_dir: str, conf_file: str, bin_dirs: tuple[str, ...], check_owner: bool, as_json: bool) -> None:
    """Check the host configuration, and every plugin that it names.

    All faults of all files are listed, as FILE:LINE:COLUMN: PATH: what is wrong, what would be right. Plugins are
    looked for and asked for their version and the schema of their conf; those that were not built with this project
    may not know these questions, and then only their presence is checked. Exit status 1 if anything is wrong.

    \b
    Examples:
      nri check
      nri check --conf-dir ./resource.d --bin-dir ./dist/nri
      nri check --json | jq '.faults'
    """
    options.warn_unless(check_owner)
    try:
        plugins = config.load(conf_dir, conf_file, check_owner=check_owner).plugins
        faults: tuple[Fault, ...] = ()
    except config.ConfigError as error:
        plugins, faults = (), error.faults
    checked = [Checked(plugin, bin_dirs, check_owner=check_owner) for plugin in plugins]
    faults += tuple(fault for entry in checked for fault in entry.faults)
    if as_json:
        listed = [entry.to_value() for entry in checked]
        output.print_json({"ok": not faults, "faults": [_fault_value(fault) for fault in faults], "plugins": listed})
    else:
        _print(checked, faults, conf_dir, conf_file)
    raise click.exceptions.Exit(1 if faults else 0)


def _print(checked: list[Checked], faults: tuple[Fault, ...], conf_dir: str, conf_file: str) -> None:
    rows = [
        (c.plugin.type, c.version or "unknown", c.conf, c.binary or "not found", c.plugin.source) for c in checked
    ]
    output.print_table(("PLUGIN", "VERSION", "CONF", "BINARY", "CONFIGURED IN"), rows)
    for note in [entry.note for entry in checked if entry.note]:
        click.echo(printable(f"note: {note}"), err=True)
    for fault in faults:
        click.secho(str(fault), fg="red", err=True)
    if faults:
        click.echo(f"{len(faults)} fault{'s' if len(faults) > 1 else ''}", err=True)
    elif not checked:
        output.print_no_plugins(conf_dir, conf_file)
    else:
        click.secho("all is well", fg="green")


def _fault_value(fault: Fault) -> dict[str, Any]:
    return {name: getattr(fault, name) for name in ("file", "line", "column", "path", "message")}
