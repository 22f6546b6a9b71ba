"""The executable ``ulimit-adjuster``."""

from nri import skel
from nri.plugins.ulimit_adjuster import UlimitAdjuster


def main() -> None:
    """Run the plugin as this process."""
    skel.main(UlimitAdjuster())


if __name__ == "__main__":
    main()
