"""Where the ``nri`` command starts: straight to the hook when it is one, else to click.

``nri hook`` is run at every container's start, and click would be most of its time.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command that ``sys.argv`` asks for, and exit."""
    if sys.argv[1:2] == ["hook"]:
        from nri import hook

        arguments = hook.parse(sys.argv[2:])
        if arguments is not None:
            stdin = sys.stdin.buffer if sys.stdin is not None else None
            sys.exit(hook.run(arguments, stdin, sys.stderr))
    from nri.cli.commands import nri

    nri(prog_name="nri")
    sys.exit(0)


if __name__ == "__main__":
    main()
