"""``nri completion``: prints code for a shell's start-up file."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell code that completes nri's commands and options.

    \b
    Examples:
      nri completion bash > /etc/bash_completion.d/nri
      nri completion fish > ~/.config/fish/completions/nri.fish
    """
    from click.shell_completion import get_completion_class

    from nri.cli.commands import nri

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(found(nri, {}, "nri", "_NRI_COMPLETE").source())
