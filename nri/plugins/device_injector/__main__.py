"""The executable ``device-injector``."""

from nri import skel
from nri.plugins.device_injector import DeviceInjector


def main() -> None:
    """Run the plugin as this process."""
    skel.main(DeviceInjector())


if __name__ == "__main__":
    main()
