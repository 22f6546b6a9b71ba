"""Entry point of the ``nri`` command.

``nri hook`` runs at every container's start, and importing click would take most of its time. So a valid command line
of the hook goes straight to :mod:`nri.hook`, everything else to click.
"""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    """Run the command in ``sys.argv``, and exit."""
    started = time.monotonic()
    if sys.argv[1:2] == ["hook"]:
        from nri import hook

        arguments = hook.parse(sys.argv[2:])
        if arguments is not None:
            # All output is written; the interpreter's shutdown would take some more milliseconds.
            os._exit(hook.main(arguments, started))
    if sys.argv[1:] == ["bridge", "--probe"]:  # it is run every few seconds
        from nri.presence import probe

        sys.exit(probe())
    from nri.cli.commands import nri

    nri(prog_name="nri")


if __name__ == "__main__":
    main()
