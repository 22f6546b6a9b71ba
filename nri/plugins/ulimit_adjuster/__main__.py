"""The executable ``ulimit-adjuster``."""

from nri import skel
from nri.plugins.ulimit_adjuster import UlimitAdjuster

if __name__ == "__main__":
    skel.main(UlimitAdjuster())
