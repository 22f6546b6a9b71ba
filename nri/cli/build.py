"""``nri build``: builds the executables of plugins, and tries them."""

from __future__ import annotations

import functools
import os
from typing import Any

import click

from nri.cli import options
from nri.errors import escape


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--output",
    "folder",
    metavar="DIR",
    default="dist",
    show_default=True,
    help="Folder of the result.",
)
@click.option(
    "--name",
    default="",
    help="Name of the result.  [default: the plugin's type; plugins for several]",
)
@options.conf(
    help="The conf of the requests that are tried; by default that of a *.conf beside the source."
)
@options.plain_errors
def build(paths: tuple[str, ...], folder: str, name: str, conf: Any) -> None:
    """Build executables of plugins, which need no Python on a node.

    PATH is a plugin's source file, or a folder with one plugin; by default this folder. Packs each plugin with the
    interpreter and what it imports into DIR/TYPE/TYPE, or several plugins into DIR/NAME around one folder of
    libraries. Then runs the result as a host would: a request for each state that the plugin acts on, for a container
    that does not exist. A v2 plugin is connected to the embedded runtime. An earlier result is replaced only if all
    of that succeeds.

    \b
    Examples:
      nri build
      nri build batch.py --conf '{"cpus": "2-3"}'
      nri build a.py b.py --name qos --output /tmp/dist
    """
    options.end_cleanly()
    from nri.authoring import building

    say = functools.partial(click.echo, err=True)
    made = building.build(
        paths or (".",), folder, lambda line: say(escape(line)), name=name, conf=conf
    )
    for path in made:
        click.echo(escape(f"built {os.path.relpath(path)}"))
