"""The group of all commands. Each is loaded when it is run: ``nri --version`` needs none of them."""

from __future__ import annotations

import importlib
import os

import click

from nri.build import describe
from nri.types.v1 import VERSION

COMMANDS = {
    "bridge": "Run the plugins of v0.1 for a runtime that speaks NRI v2.",
    "check": "Check the host configuration, and every plugin that it names.",
    "completion": "Print the shell code that completes nri's commands and options.",
    "hook": "Run the chain as a hook of an OCI runtime.",
    "invoke": "Run the chain once, by hand.",
    "plugins": "List the plugins that would run, in order.",
    "simulate": "Try v2 plugins on the lives of made-up pods, without a container runtime.",
}
"""What ``nri --help`` shows; each is a module of this package with a click command of the same name."""


class Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, for help and completion."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"nri.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - a module of ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``nri --help``, without importing them all."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(describe(), message=f"nri %(version)s, Node Resource Interface v{VERSION}")
@click.pass_context
def nri(ctx: click.Context) -> None:
    """The Node Resource Interface v0.1: plugins that manage a container's resources.

    \b
    Examples:
      nri check                          is the node's configuration right?
      nri plugins                        what runs, in which order, from which file?
      nri invoke create --spec config.json --id test --pid 1234
      nri simulate --plugin ./10-logger  what does a v2 plugin do?
      nri hook create                    what an OCI runtime runs, its state on stdin

    Exit status: 0 when all is well, 1 when something is wrong, 2 for a wrong command line.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":  # https://no-color.org
        ctx.color = False
