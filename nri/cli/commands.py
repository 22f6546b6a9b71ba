"""The group of all commands. A command's module is imported when the command runs."""

from __future__ import annotations

import importlib
import os
from typing import Any

import click

from nri.types.v1 import VERSION
from nri.version import describe, install

COMMANDS = {
    "apply": "Replace the host configuration, if the plugins accept it.",
    "bridge": "Run v0.1 plugins for a runtime that speaks NRI v2.",
    "build": "Build executables of plugins.",
    "cgroup": "Print the directories of a container's cgroup.",
    "check": "Check the host configuration and its plugins.",
    "completion": "Print what a shell needs to complete commands.",
    "conformance": "Check that a plugin in any language keeps the contract.",
    "device-plugin": "Have the scheduler count the CPUs that konfine gives out.",
    "doctor": "Find what is wrong with this node.",
    "hook": "Run the chain as a hook of an OCI runtime.",
    "invoke": "Run the chain once, by hand.",
    "metrics": "Print this node's bridge as series for Prometheus.",
    "new": "Make a folder with a new plugin.",
    "reapply": "Bring running containers up to the configuration in use.",
    "simulate": "Try plugins on made-up pods, without a container runtime.",
    "status": "Print the state of this node's bridge and plugins.",
    "version": "Print the version of this build, and its commit.",
}
"""The commands with their texts in ``nri --help``. Each is a module here, with a click command."""

EXTRAS = {
    "grpc": "kubernetes",
    "lightkube": "kubernetes",
    "nri.cli.build": "binaries",
    "nri.cli.device_plugin": "kubernetes",
    "prometheus_client": "metrics",
}
"""The extras that have the libraries of single commands; a compiled ``nri`` lacks some of the commands."""


class Commands(click.Group):
    """A group that imports a command when it is used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # click completes the names, and tells which was probably meant.
        self.commands = dict.fromkeys(COMMANDS, click.Command("imported later"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        try:
            command: click.Command = getattr(importlib.import_module(f"nri.cli.{name}"), name)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            extra = install(EXTRAS[error.name])
            raise click.ClickException(
                f"{cmd_name} is not in this nri, which lacks {error.name}: {extra}"
            ) from None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of ``nri --help`` without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(describe(), message=f"nri %(version)s, Node Resource Interface v{VERSION}")
@click.pass_context
def nri(ctx: click.Context) -> None:
    """The Node Resource Interface v0.1: plugins that manage a container's resources.

    \b
    Examples:
      nri check                          check the node's configuration
      nri status                         the state of bridge and plugins
      nri invoke create --spec config.json --id test --pid 1234
      nri simulate plugin.py             try a plugin while writing it
      nri hook create                    run by an OCI runtime, state on stdin

    Exit status: 0 for success, 1 for a fault, 2 for an invalid command line.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":  # https://no-color.org
        ctx.color = False
