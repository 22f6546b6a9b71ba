"""The executable ``logger``."""

from nri import skel
from nri.plugins.logger import Logger


def main() -> None:
    """Run the plugin as this process."""
    skel.main(Logger())


if __name__ == "__main__":
    main()
