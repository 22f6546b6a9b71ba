"""``nri bridge``: runs the bridge as a plugin that connects to the runtime."""

from __future__ import annotations

import click

from nri.cli import options
from nri.places import DEFAULT_SOCKET
from nri.version import describe

HELP = """Run v0.1 plugins for a runtime that speaks NRI v2: containerd 1.7 and later, CRI-O.

Connects to the runtime's socket, and reconnects whenever the runtime restarts. SIGTERM ends it after the running
chains.

\b
Examples:
  nri bridge
  nri bridge --idx 20 --config /etc/nri/v1bridge.json
"""
"""The help of the command. ``v1bridge`` is compiled without docstrings, which a bridge would keep in its memory."""


@click.command(help=HELP)
@options.path(
    "--socket", "path", default=DEFAULT_SOCKET, metavar="PATH", help="The runtime's socket."
)
@click.option(
    "--idx",
    "index",
    default="10",
    show_default=True,
    metavar="NN",
    help="The plugin's index, two digits.",
)
@options.path(
    "--config", "options_file", default="", show_default=False, help="The bridge's options, JSON."
)
@click.version_option(describe(), message="v1bridge %(version)s")
@options.plain_errors
def bridge(path: str, index: str, options_file: str) -> None:
    """Run the bridge."""
    from nri.process import watchdog

    watchdog.start_own()
    from nri.v1bridge import serve

    serve(path=path, index=index, options_file=options_file)
