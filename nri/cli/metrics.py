"""``nri metrics``: the bridge of this node for Prometheus, as a text, over HTTP, or in a file for node_exporter."""

from __future__ import annotations

import os
import signal

import click

from nri.cli import options
from nri.errors import NRIError, escape
from nri.places import DEFAULT_RECORD_FILE, beside

NAME = "nri.prom"
"""The name of the file; node_exporter reads ``*.prom``."""

LOOPBACK = "127.0.0.1"
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
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server, write_to_textfile

    from nri.metrics import BridgeCollector

    registry = CollectorRegistry()
    registry.register(BridgeCollector(socket, _report))
    if listen is None and textfile is None:
        click.echo(generate_latest(registry), nl=False)
        return
    until_ended = listen is not None or every is not None
    if until_ended:
        # Also in the threads to come; a signal before sigwait is kept for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    if listen is not None:
        host, port = _address(listen)
        try:
            server, _ = start_http_server(port, host, registry)
        except OSError as error:
            why = f"{error.strerror or error}; expected an address of this machine and a free port"
            raise NRIError(f"cannot listen on {host} port {port}: {why}") from None
        setattr(server, "handle_error", lambda *_: None)  # noqa: B010 - a peer that has gone would be a traceback
        _report(f"serving http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics")
        signal.sigwait(ENDING)
        return
    os.umask(0o022)  # node_exporter has a user of its own
    path = os.path.join(textfile or "", NAME)
    reported = ""
    while True:
        fault = ""
        try:
            write_to_textfile(path, registry)
        except OSError as error:
            fault = f"{path} cannot be written: {error.strerror}; expected an existing directory with room"
        if not until_ended:
            if fault:
                raise NRIError(fault)
            return
        if fault and fault != reported:
            _report(fault)
        reported = fault
        if signal.sigtimedwait(ENDING, every or 0) is not None:
            return


def _report(line: str) -> None:
    click.echo(escape(f"nri metrics: {line}"), err=True)


def _address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``, which is loopback."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise NRIError(f"{text}: found an IPv6 address without brackets, expected [ADDRESS]:PORT")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise NRIError(f"{text}: found the port {port!r}, expected HOST:PORT or :PORT, with a port up to 65535")
    return host or LOOPBACK, int(port)
