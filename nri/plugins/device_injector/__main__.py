"""The executable ``device-injector``."""

from nri import skel
from nri.plugins.device_injector import DeviceInjector

if __name__ == "__main__":
    skel.main(DeviceInjector())
