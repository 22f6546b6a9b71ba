"""``nri hook`` as click knows it: its help, and what is wrong with a command line. See :mod:`nri.hook`."""

from __future__ import annotations

import sys

import click

from nri.cli import options


@click.command()
@click.argument("state", type=options.type_state)
@options.host
@options.timeout
@click.option(
    "--log-file",
    default="",
    metavar="FILE",
    type=click.Path(),
    help="Append there, too, what goes to stderr: crun discards that of a hook.",
)
def hook(
    state: str,
    conf_dir: str,
    conf_file: str,
    bin_dirs: tuple[str, ...],
    check_owner: bool,
    timeout: float,
    log_file: str,
) -> None:
    """Run the chain as a hook of an OCI runtime.

    Reads the container's state from stdin, as the runtime writes it, and the rest from the config.json of the
    bundle that it names. Exit status 1, with the reason on stderr, stops the container's start.

    \b
    In a config.json, or a file in a hooks.d directory (podman, CRI-O):
      "hooks": {
        "createRuntime": [{"path": "/usr/local/bin/nri", "args": ["nri", "hook", "create"]}],
        "poststop":      [{"path": "/usr/local/bin/nri", "args": ["nri", "hook", "delete"]}]
      }
    """
    from nri.hook import Arguments, run

    arguments = Arguments(state)
    arguments.conf_dir, arguments.conf_file, arguments.bin_dirs = conf_dir, conf_file, bin_dirs
    arguments.timeout, arguments.log_file, arguments.check_owner = timeout, log_file, check_owner
    stdin = sys.stdin.buffer if sys.stdin is not None else None
    raise click.exceptions.Exit(run(arguments, stdin, sys.stderr))
