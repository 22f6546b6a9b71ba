"""The executable ``clearcfs``."""

from nri import skel
from nri.plugins.clearcfs import ClearCFS


def main() -> None:
    """Run the plugin as this process."""
    skel.main(ClearCFS())


if __name__ == "__main__":
    main()
