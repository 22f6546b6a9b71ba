"""The executable ``konfine``."""

from nri import skel
from nri.plugins.konfine import Konfine


def main() -> None:
    """Run the plugin as this process."""
    skel.main(Konfine())


if __name__ == "__main__":
    main()
