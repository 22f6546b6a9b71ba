"""``nri new``: makes the folder of a new plugin."""

from __future__ import annotations

import os

import click

from nri.authoring.new import KINDS, make
from nri.cli import options


@click.command()
@click.argument("name")
@click.option(
    "--reads", type=click.Choice(["annotations"]), help="Start from one that reads annotations."
)
@click.option(
    "--writes", type=click.Choice(["cgroup"]), help="Start from one that writes to the cgroup."
)
@click.option(
    "--adjusts", type=click.Choice(["container"]), help="Start from one that changes containers."
)
@click.option("--v2", flag_value="v2", help="Start from a plugin for NRI v2.")
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    default=".",
    show_default=True,
    help="Make the folder in DIR.",
)
@options.plain_errors
def new(
    name: str,
    reads: str | None,
    writes: str | None,
    adjusts: str | None,
    v2: str | None,
    directory: str,
) -> None:
    """Make a folder with a new plugin.

    It has the plugin NAME, its test, a sample entry, a README of ten lines, pyproject.toml, and a workflow that tests
    and builds it.

    Without an option it is a bare one; --reads and --writes go together. What it makes works as it is: change it step
    by step.

    \b
    Examples:
      nri new pinner --reads annotations --writes cgroup
      cd pinner && python -m pytest && nri simulate --watch pinner.py
    """
    template = "-".join(filter(None, [reads, writes, adjusts, v2])) or "bare"
    if template not in KINDS:
        kinds = ", ".join(filter(None, [kind.option for kind in KINDS.values()]))
        raise click.UsageError(f"a plugin starts from one kind: expected one of {kinds}")
    names = make(name, template, directory)
    place = os.path.normpath(os.path.join(directory, name))
    click.echo(f"made {place}: {', '.join(names)}")
