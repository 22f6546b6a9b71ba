"""Where the executable ``v1bridge`` starts: as a runtime launches it, or with the arguments of ``nri bridge``.

Launched by a runtime it has no command line, and does not pay for a library that reads one: it stays in memory.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the bridge."""
    if len(sys.argv) > 1:
        from nri.cli.bridge import bridge

        bridge(prog_name="v1bridge", help_option_names=["-h", "--help"])
    from nri.process import watchdog

    watchdog.start(make_session=True)
    from nri.errors import NRIError, escape
    from nri.v1bridge import serve

    try:
        serve()
    except NRIError as error:
        sys.exit(escape(f"v1bridge: {error}"))


if __name__ == "__main__":
    main()
