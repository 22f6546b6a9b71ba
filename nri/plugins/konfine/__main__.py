"""The executable ``konfine``."""

from nri import skel
from nri.plugins.konfine import Konfine

if __name__ == "__main__":
    skel.main(Konfine())
