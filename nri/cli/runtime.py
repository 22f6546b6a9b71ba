"""``nri runtime`` for click: its help. :mod:`nri.cli.entry` passes every other command line to :mod:`nri.runtime`."""

from __future__ import annotations

import click


@click.command(options_metavar="", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, metavar="RUNTIME-ARGUMENTS...")
@click.pass_context
def runtime(context: click.Context, words: tuple[str, ...]) -> None:
    """Stand in for an OCI runtime, and run the chain around it.

    The link nri-runc to this program is the same. An engine calls it in place of runc or crun, with the same command
    line. It runs the plugins for create, run, restore, update, pause, resume and delete, and hands every command over
    to the real runtime, with the same arguments, streams, log and exit status.

    \b
    Which runtime is the real one follows from the name: nri-runc runs runc, nri-crun runs crun. Other options are in
    /etc/nri/runtime.json, all of them optional:
      {"runtime": "/usr/bin/crun", "deadline": 30, "logFile": "/var/log/nri-runc.log"}

    \b
    Examples:
      nri-runc run --bundle /srv/web web
      podman --runtime /opt/nri/sbin/nri-runc run alpine
      nri runtime features
    """
    click.echo(context.get_help())
