"""The executable ``konfine``."""

import sys

from nri import skel
from nri.plugins.konfine import Konfine


def main() -> None:
    """Run the plugin as this process, or print who has which CPUs (``konfine show``)."""
    if sys.argv[1:2] == ["show"]:
        from nri.plugins.konfine import show

        sys.exit(show.main(sys.argv[2:]))
    skel.main(Konfine())


if __name__ == "__main__":
    main()
