"""``nri hook`` for click: its help and the errors of its command line. See ``nri.hook``."""

from __future__ import annotations

import time
from typing import Any

import click

from nri.cli import options
from nri.config.entries import FAILURE_POLICIES
from nri.config.site import Site
from nri.hook import DEFAULT_DEADLINE

STARTED = time.monotonic()


@click.command()
@click.argument("state", type=options.type_state)
@options.host
@options.timeout
@click.option(
    "--failure-policy",
    type=click.Choice(FAILURE_POLICIES),
    default="fail",
    show_default=True,
    help="For a plugin without a failurePolicy of its own.",
)
@options.seconds(
    "--deadline",
    default=DEFAULT_DEADLINE,
    help="Time for the whole hook: less than the runtime's timeout for hooks.",
)
@options.path(
    "--log-file",
    default="",
    show_default=False,
    help="Also append the lines of stderr here: crun discards stderr.",
)
@click.option("--record", default="", hidden=True)
def hook(
    state: str, host: Site, deadline: float, log_file: str, record: str, **values: Any
) -> None:
    """Run the chain as a hook of an OCI runtime.

    Reads the container's state from stdin, as the runtime writes it, and the config.json of the bundle that the
    state names. On an error it writes the reason to stderr and exits with status 1, which stops the container's
    start. A hook that exceeds its --deadline fails in the same way, and its plugin is killed.

    \b
    In a config.json, or a file in a hooks.d directory (podman, CRI-O):
      "hooks": {
        "createRuntime": [{"path": "/opt/nri/lib/nri", "args": ["nri", "hook", "create"]}],
        "poststop":      [{"path": "/opt/nri/lib/nri", "args": ["nri", "hook", "delete"]}]
      }
    """
    from nri.hook import Arguments, main

    arguments = Arguments(state, record=record, log_file=log_file, deadline=deadline)
    arguments.site = host.replace(**values)
    raise click.exceptions.Exit(main(arguments, STARTED))
