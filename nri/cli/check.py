"""``nri check``: checks the host configuration, and whether each of its plugins can run."""

from __future__ import annotations

import time
from typing import Any

import click

from nri import config
from nri.cli import options, output
from nri.cli.broken import TRACEBACK, is_broken
from nri.client import Invoker, PluginError
from nri.config import Fault
from nri.config.entries import PluginEntry
from nri.config.plugin_conf import check_conf, fault_at, openness_note
from nri.errors import escape
from nri.prefork.pool.eligibility import is_built_with_skel, try_prefork
from nri.process.launch import Output, launch
from nri.process.unstartable import NOT_RUN, WINDOWS, explain, has_windows_ends
from nri.types import gojson
from nri.types.errors import DecodeError

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to answer ``version`` or ``schema``."""


class Checked:
    """One entry of the configuration with the results of the check.

    ``faults`` must be fixed; ``notes`` are facts that an operator should know.
    """

    def __init__(self, plugin: PluginEntry, invoker: Invoker) -> None:
        self.plugin = plugin
        self.binary: str | None = None
        self.place = ""
        """For the table: the path of the binary, or why there is none."""
        self.version: str | None = None
        self.conf = "not checked"
        self.notes: list[str] = []
        self.faults: tuple[Fault, ...] = ()
        try:
            self.binary = invoker.find(plugin.type)
        except PluginError as error:
            self._fault(str(error))
            self.place = error.reason.partition(":")[0]  # "not found", or "not run"
            return
        self.place = self.binary
        about = self._about(self.binary)
        if about is None:
            return  # no schema to check its conf against
        self.version = gojson.shorten(str(about.get("version") or "(none)"))
        if plugin.prefork != "never" and (why := try_prefork(self.binary, plugin.type)):
            self.notes.append(f"{self.binary} is started for each request: {why}")
        if about["type"] != plugin.type:
            found = gojson.describe(about["type"])
            self._fault(f"{self.binary} version: type: found {found}, expected {plugin.type!r}")
        self._check_conf(self.binary)

    def _about(self, binary: str) -> dict[str, Any] | None:
        """Return the plugin's answer to 'version'; None if it was not built with nri.skel, or cannot run."""
        asked = self._ask(binary, "version")
        if asked is None:
            return None
        about, ran, stderr = asked
        if isinstance(about, dict) and {"type", "nri"} <= about.keys():
            return about
        wrote = f"; it wrote {gojson.shorten(repr(ran.stdout.decode(errors='replace')))}" if ran.stdout else ""
        problem = f"{binary} does not answer 'version' ({ran.ending or 'exit status 0'}{wrote})"
        if ran.stderr:  # the last line of a traceback is the error
            lines = [line for line in stderr if line.strip()]
            problem += f"; the end of its stderr: {lines[-1] if TRACEBACK in lines else ran.stderr}"
        if ran.status in NOT_RUN and has_windows_ends(binary):
            problem += f"; {WINDOWS}"
        if is_broken(ran, stderr) or _is_built_with_skel(binary):
            self._fault(problem)
        elif about is None:  # a plugin that writes JSON to any question is not worth a note
            self.notes.append(problem)
        return None

    def _check_conf(self, binary: str) -> None:
        asked = self._ask(binary, "schema")
        schema = asked[0] if asked is not None else None
        if schema is True:
            self.conf = "any"
            return
        wrong = check_conf(self.plugin, schema)
        self.faults += wrong
        self.conf = "wrong" if wrong else "right"
        if not wrong and (note := openness_note(self.plugin, schema)):
            self.notes.append(note)

    def _fault(self, message: str) -> None:
        self.faults += (fault_at(self.plugin, "type", message),)

    def _ask(self, binary: str, verb: str) -> tuple[object, Output, list[str]] | None:
        """Run ``TYPE VERB``; return the JSON that it wrote (or None), its output, and the lines of its stderr.

        Return None, with a fault, if it cannot be started or has to be killed.
        """
        stderr: list[str] = []
        until = time.monotonic() + ANSWER_WITHIN
        try:
            ran = launch(binary, [self.plugin.type, verb], b"", until, log=stderr.append)
        except OSError as error:
            self._fault(explain(binary, error))
            return None
        if ran.stopped:
            why = f"no answer within {ANSWER_WITHIN:g} s" if ran.stopped == "deadline" else "it wrote too much"
            self._fault(f"{binary} {verb}: killed: {why}")
            return None
        try:
            return gojson.loads(ran.stdout) if ran.status == 0 else None, ran, stderr
        except DecodeError:
            return None, ran, stderr

    def to_value(self) -> dict[str, Any]:
        """Return the entry as ``--json`` prints it."""
        return {
            "type": self.plugin.type,
            "source": self.plugin.source,
            "binary": self.binary,
            "version": self.version,
            "conf": self.conf,
            "faults": [_fault_value(fault) for fault in self.faults],
            "note": "; ".join(self.notes),
        }


@click.command()
@options.host
@options.as_json
def check(host: options.Host, as_json: bool) -> None:
    """Check the host configuration and its plugins.

    Lists all faults of all files as FILE:LINE:COLUMN: PATH: what was found, what was expected. Asks each plugin for
    its version and for the schema of its conf. A plugin that cannot run is a fault; a plugin that was not built with
    nri.skel and does not answer is only noted. The exit status is 1 if there is a fault.

    \b
    Examples:
      nri check
      nri check --conf-dir ./resource.d --bin-dir ./dist/nri
      nri check --json | jq '.faults'
    """
    try:
        plugins = host.load().plugins
        faults: tuple[Fault, ...] = ()
    except config.ConfigError as error:
        plugins, faults = (), error.faults
    checked = [Checked(plugin, host.invoker) for plugin in plugins]
    faults += tuple(fault for entry in checked for fault in entry.faults)
    if as_json:
        listed = [entry.to_value() for entry in checked]
        output.print_json({"ok": not faults, "faults": [_fault_value(fault) for fault in faults], "plugins": listed})
    else:
        _print(checked, faults, host)
    raise click.exceptions.Exit(1 if faults else 0)


def _print(checked: list[Checked], faults: tuple[Fault, ...], host: options.Host) -> None:
    rows = [(c.plugin.type, c.version or "unknown", c.conf, c.place, c.plugin.source) for c in checked]
    output.print_table(("PLUGIN", "VERSION", "CONF", "BINARY", "CONFIGURED IN"), rows)
    for note in [note for entry in checked for note in entry.notes]:
        click.echo(escape(f"note: {note}"), err=True)
    for fault in faults:
        click.secho(str(fault), fg="red", err=True)
    if faults:
        click.echo(f"{len(faults)} fault{'s' if len(faults) > 1 else ''}", err=True)
    elif not checked:
        output.print_no_plugins(host.conf_dir, host.conf_file)
    else:
        click.secho("all is well", fg="green")


def _is_built_with_skel(binary: str) -> bool:
    try:
        return is_built_with_skel(binary)
    except OSError:
        return False  # executable, but not readable


def _fault_value(fault: Fault) -> dict[str, Any]:
    return {name: getattr(fault, name) for name in ("file", "line", "column", "path", "message")}
