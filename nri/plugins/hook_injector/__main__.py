"""The executable ``hook-injector``."""

from nri import skel
from nri.plugins.hook_injector import HookInjector


def main() -> None:
    """Run the plugin as this process."""
    skel.main(HookInjector())


if __name__ == "__main__":
    main()
