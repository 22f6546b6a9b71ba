"""``nri completion``: prints what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from nri.cli import options


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
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
    of_shell = get_completion_class(shell)
    if of_shell is None:
        raise click.UsageError(f"{shell}: click does not complete for it")
    root = context.find_root()
    click.echo(of_shell(root.command, {}, "nri", "_NRI_COMPLETE").source())
