"""The executable ``qos``."""

from nri import skel
from nri.plugins.qos import QoS


def main() -> None:
    """Run the plugin as this process."""
    skel.main(QoS())


if __name__ == "__main__":
    main()
