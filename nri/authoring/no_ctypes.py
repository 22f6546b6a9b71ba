"""Takes the place of ``pyimod03_ctypes`` of PyInstaller's loader in the project's executables.

That one imports ctypes at every start, so that it searches the executable's folder, which takes 2 to 3 ms.
"""


def install() -> None:
    """Do nothing: no library of the folder is loaded with ctypes."""
