"""``nri build``: builds the executables of plugins, and tries them."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from nri.cli import options, output
from nri.errors import NRIError, escape

if TYPE_CHECKING:
    from nri.authoring.figures import Figures


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option("--output", "folder", metavar="DIR", default="dist", show_default=True, help="Folder of the result.")
@click.option("--name", help="Name of the result.  [default: the plugin's type; plugins for several]")
@options.conf(help="The conf of the request that is tried.")
@click.option("--request", "request_file", metavar="FILE", type=click.Path(), help="The request that is tried.")
@click.option("--check-libc", is_flag=True, help="Print on which distributions the result runs.")
@click.option("--verbose", is_flag=True, help="Print what is left out, and from what it is built.")
@options.plain_errors
def build(
    paths: tuple[str, ...],
    folder: str,
    name: str | None,
    conf: Any,
    request_file: str | None,
    check_libc: bool,
    verbose: bool,
) -> None:
    """Build executables of v0.1 plugins, which need no Python on a node.

    PATH is a plugin's source file, or a folder with one plugin; by default this folder. Packs each plugin with the
    interpreter and what it imports into DIR/TYPE/TYPE, or several plugins into DIR/NAME around one folder of
    libraries. Then runs the result as a host would. It replaces an earlier result only if all of that succeeds.

    Refuses a plugin that lacks a module. The plugin is run from its source, too, and the
    request that is tried is for a container that does not exist.

    \b
    Examples:
      nri build
      nri build batch.py --conf '{"cpus": "2-3"}' --check-libc
      nri build a.py b.py --name qos --output /tmp/dist
    """
    if getattr(sys, "frozen", False):
        raise NRIError("this nri is an executable without a Python to build with: pip install 'nri[binaries]'")
    # These remove what is half-made, as Ctrl-C does.
    ends = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(each, lambda number, _frame: sys.exit(128 + number)) for each in ends]
    try:
        from nri.authoring import building

        wanted = building.Options(
            paths=paths or (".",),
            output=folder,
            name=name,
            conf=conf,
            request=None if request_file is None else options.read_request(request_file),
            check_libc=check_libc,
            verbose=verbose,
        )
        built = building.build(wanted, lambda line: click.echo(escape(line), err=True))
    finally:
        for each, handler in zip(ends, before, strict=True):
            signal.signal(each, handler)
    _print(built.figures)
    for line in built.libc:
        click.echo(escape(line))


def _print(figures: list[Figures]) -> None:
    rows = []
    for each in figures:
        size = "" if each.size is None else f"{each.size / 1e6:.1f} MB"
        unknown = "" if each.size is None else "unknown"
        cold = unknown if each.cold is None else f"{each.cold:.1f} ms"
        rows.append((each.name, size, cold, f"{each.warm:.1f} ms"))
    output.print_table(("EXECUTABLE", "FOLDER", "COLD START", "WARM START"), rows)
