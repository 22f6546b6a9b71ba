"""The executable ``clearcfs``."""

from nri import skel
from nri.plugins.clearcfs import ClearCFS

if __name__ == "__main__":
    skel.main(ClearCFS())
