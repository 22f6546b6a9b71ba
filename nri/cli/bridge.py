"""``nri bridge``: the bridge, connected from outside."""

from __future__ import annotations

import click

from nri.build import describe
from nri.cli import options


@click.command()
@click.option(
    "--socket", "path", default="/var/run/nri/nri.sock", show_default=True, metavar="PATH", type=click.Path()
)
@click.option("--idx", "index", default="10", show_default=True, metavar="NN", help="The plugin's index, two digits.")
@click.option(
    "--config", "settings_file", default="", metavar="FILE", type=click.Path(), help="The bridge's settings."
)
@click.version_option(describe(), message="v1bridge %(version)s")
@options.plain_errors
def bridge(path: str, index: str, settings_file: str) -> None:
    """Run the plugins of v0.1 for a runtime that speaks NRI v2: containerd 1.7 and later, CRI-O.

    Connects to the runtime's socket, and again whenever the runtime comes back. Ends with SIGTERM, after the
    chains that are running.

    \b
    Examples:
      nri bridge
      nri bridge --idx 20 --config /etc/nri/v1bridge.json
    """
    from nri.process import watchdog

    watchdog.start(make_session=False)
    from nri.v1bridge import serve

    serve(path=path, index=index, options_file=settings_file)
