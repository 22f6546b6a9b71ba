"""``nri completion``: prints what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from nri.cli import options

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice([*_SHELLS]))
@click.pass_context
@options.plain_errors
def completion(context: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands and options.

    \b
    Examples:
      nri completion bash > /etc/bash_completion.d/nri
      nri completion zsh > "${fpath[1]}/_nri"
      nri completion fish > ~/.config/fish/completions/nri.fish
    """
    root = context.find_root()
    click.echo(_SHELLS[shell](root.command, {}, "nri", "_NRI_COMPLETE").source())
