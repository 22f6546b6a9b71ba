"""Entry point of the executable ``v1bridge``: launched by a runtime, or run with the options of ``nri bridge``.

A runtime launches it without arguments; then click is not imported, since the process keeps it in memory.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the bridge."""
    if len(sys.argv) > 1:
        from nri.cli.bridge import bridge

        bridge(prog_name="v1bridge", help_option_names=["-h", "--help"])
    from nri.process import watchdog

    watchdog.start_own()
    from nri.errors import NRIError, escape
    from nri.v1bridge import serve

    try:
        serve()
    except NRIError as error:
        sys.exit(escape(f"v1bridge: {error}"))


if __name__ == "__main__":
    main()
