"""``nri metrics``: the bridge of this node for Prometheus, as a text, over HTTP, or in a file for node_exporter."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from nri.cli import options
from nri.errors import escape
from nri.places import DEFAULT_RECORD_FILE, beside

if TYPE_CHECKING:
    from nri.metrics.scraping import Scraper

MAX_EVERY = 24 * 3600
ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the command, with status 0."""


@click.command()
@click.option("--listen", metavar="ADDRESS", help="Serve at HOST:PORT, path /metrics. Without HOST: loopback only.")
@click.option("--textfile", metavar="DIR", type=click.Path(), help="Write DIR/nri.prom, for node_exporter.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=options.Seconds(1, MAX_EVERY),
    help="With --textfile: write again and again. Without: once.",
)
@options.path(
    "--socket", default=beside(DEFAULT_RECORD_FILE, ".sock"), metavar="PATH", help="The bridge's status socket."
)
@options.plain_errors
def metrics(listen: str | None, textfile: str | None, every: float | None, socket: str) -> None:
    """Print this node's bridge as series for Prometheus.

    A bridge that does not answer is `nri_v1bridge_up 0`, with the reason on stderr; that is no error. --listen and
    --every run until SIGTERM or SIGINT.

    \b
    Examples:
      nri metrics
      nri metrics --listen :10753
      nri metrics --textfile /var/lib/prometheus/node-exporter --every 30
    """
    if listen is not None and textfile is not None:
        raise click.UsageError("--listen and --textfile exclude each other.")
    if every is not None and textfile is None:
        raise click.UsageError("--every needs --textfile.")
    from nri.metrics.scraping import Scraper

    scraper = Scraper(socket, _report)
    if listen is not None:
        _serve(listen, scraper)
    elif textfile is not None:
        _write(textfile, every, scraper)
    else:
        click.echo(scraper.text(), nl=False)


def _report(line: str) -> None:
    click.echo(escape(f"nri metrics: {line}"), err=True)


def _serve(listen: str, scraper: Scraper) -> None:
    from nri.metrics.server import MetricsServer, parse_address

    address = parse_address(listen)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # also in the threads; a signal before sigwait is kept for it
    server = MetricsServer(address, scraper.text)
    server.start()
    others = "" if server.is_local else "; whoever can connect can read it"
    _report(f"serving {server.url}{others}")
    signal.sigwait(ENDING)


def _write(directory: str, every: float | None, scraper: Scraper) -> None:
    from nri.metrics import textfile

    if every is None:
        textfile.replace(directory, scraper.text())
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    reported = ""
    while True:
        fault = ""
        try:
            textfile.replace(directory, scraper.text())
        except textfile.TextfileError as error:
            fault = str(error)
        if fault and fault != reported:
            _report(fault)
        reported = fault
        if signal.sigtimedwait(ENDING, every) is not None:
            return
