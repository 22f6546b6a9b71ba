"""Takes the place of ``pyimod03_ctypes``, which imports ctypes at every start to have it search the own folder."""


def install() -> None:
    """Do nothing: no library of the own folder is loaded with ctypes."""
