"""Where the ``nri`` command starts: straight to the hook when it is one, else to click.

``nri hook`` is run at every container's start, and click would be most of its time.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command that ``sys.argv`` asks for, and exit."""
    started = time.monotonic()
    if sys.argv[1:2] == ["hook"]:
        from nri import hook

        arguments = hook.parse(sys.argv[2:])
        if arguments is not None:
            # The interpreter's own end would take some milliseconds, for nothing: everything is written.
            os._exit(hook.main(arguments, started))
    from nri.cli.commands import nri

    nri(prog_name="nri")
    sys.exit(0)


if __name__ == "__main__":
    main()
