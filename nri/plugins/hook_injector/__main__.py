"""The executable ``hook-injector``."""

from nri import skel
from nri.plugins.hook_injector import HookInjector

if __name__ == "__main__":
    skel.main(HookInjector())
