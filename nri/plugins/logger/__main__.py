"""The executable ``logger``."""

from nri import skel
from nri.plugins.logger import Logger

if __name__ == "__main__":
    skel.main(Logger())
