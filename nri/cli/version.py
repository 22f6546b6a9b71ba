"""``nri version``: prints the version of this build."""

from __future__ import annotations

import click

from nri.cli import options, output
from nri.types.v1 import VERSION
from nri.version import build, describe


@click.command()
@options.as_json
def version(as_json: bool) -> None:
    """Print the version of this build, and its commit.

    \b
    Examples:
      nri version
      nri version -o json | jq -r .commit
    """
    if not as_json:
        click.echo(f"nri {describe()}, Node Resource Interface v{VERSION}")
        return
    output.print_json({**build(), "nri": VERSION})
