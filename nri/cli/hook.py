"""``nri hook`` for click: its help and the errors of its command line. See :mod:`nri.hook`."""

from __future__ import annotations

import time

import click

from nri.cli import options
from nri.hook.arguments import DEFAULT_DEADLINE

STARTED = time.monotonic()


@click.command()
@click.argument("state", type=options.type_state)
@options.host
@options.timeout
@click.option(
    "--deadline",
    default=DEFAULT_DEADLINE,
    show_default=True,
    metavar="SECONDS",
    type=options.Seconds(),
    help="Time for the whole hook, from its start. Must be shorter than the runtime's own timeout for hooks.",
)
@click.option(
    "--log-file",
    default="",
    metavar="FILE",
    type=click.Path(),
    help="Append the lines of stderr to this file, too: crun discards the stderr of hooks.",
)
def hook(
    state: str,
    conf_dir: str,
    conf_file: str,
    bin_dirs: tuple[str, ...],
    check_owner: bool,
    timeout: float,
    deadline: float,
    log_file: str,
) -> None:
    """Run the chain as a hook of an OCI runtime.

    Reads the container's state from stdin, as the runtime writes it, and the config.json of the bundle that the
    state names. On an error it writes the reason to stderr and exits with status 1, which stops the container's
    start. A hook that exceeds its --deadline fails in the same way, and its plugin is killed.

    \b
    In a config.json, or a file in a hooks.d directory (podman, CRI-O):
      "hooks": {
        "createRuntime": [{"path": "/usr/local/bin/nri", "args": ["nri", "hook", "create"]}],
        "poststop":      [{"path": "/usr/local/bin/nri", "args": ["nri", "hook", "delete"]}]
      }
    """
    from nri.hook import Arguments, main

    arguments = Arguments(state)
    arguments.conf_dir, arguments.conf_file, arguments.bin_dirs = conf_dir, conf_file, bin_dirs
    arguments.timeout, arguments.deadline = timeout, deadline
    arguments.log_file, arguments.check_owner = log_file, check_owner
    raise click.exceptions.Exit(main(arguments, STARTED))
