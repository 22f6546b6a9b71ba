"""The files that this process was loaded from, which a host watches to notice that a plugin was replaced.

The interpreter knows them from:

- modules, including ``__main__``: the source, the compiled file if there is no source, or the zip archive;
- the code of functions, also of a script that was run by ``runpy`` or ``exec`` and is not a module;
- executable mappings: the interpreter, extension modules, and the libraries that these load.

Python's standard library is left out, because it changes with the interpreter. So is the C library: after an upgrade
the host itself continues with the old one. A compiled plugin's modules are in its executable, which the host knows.
Files that a plugin reads by itself are not listed.
"""

from __future__ import annotations

import gc
import os
import sys

_FUNCTION = type(lambda: None)
_C_LIBRARY = ("ld-linux", "ld-musl", "libc.", "libdl.", "libm.", "libpthread.", "librt.", "libutil.")
_UNCHECKED = 0b01  # flags of a .pyc that is used without a check of its source; see PEP 552


def files() -> list[str]:
    """Return the paths of the files, sorted."""
    modules = list(sys.modules.values())
    functions = {each.__code__.co_filename for each in gc.get_objects() if type(each) is _FUNCTION}
    found = {_file(name) for name in functions if name.startswith("/")}
    found |= {_file(getattr(module, "__file__", None)) for module in modules}
    found |= {_unchecked(getattr(getattr(module, "__spec__", None), "cached", None)) for module in modules}
    for permissions, path in mappings():
        if permissions[2:3] == b"x" and path.startswith("/") and not os.path.basename(path).startswith(_C_LIBRARY):
            found.add(_file(path.removesuffix(" (deleted)")))  # a new process would load the file that replaced it
    return sorted(found - {""})


def mappings() -> list[tuple[bytes, str]]:
    """Return the permissions of each memory mapping of this process, and what is mapped: a path, a name or ""."""
    with open("/proc/self/maps", "rb") as file:
        lines = [line.rstrip(b"\n").split(None, 5) for line in file]
    return [(fields[1], os.fsdecode(b"".join(fields[5:]))) for fields in lines]


def _file(path: object) -> str:
    """Return the existing file of ``path``, which is the archive for a path in an archive, or "" without one."""
    if not isinstance(path, str) or not path:
        return ""
    path = os.path.abspath(path)
    if _is_of_the_interpreter(path):
        return ""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path if os.path.isfile(path) else ""


def _is_of_the_interpreter(path: str) -> bool:
    # PyInstaller puts the library into an archive beside the executable, as a part of the plugin.
    library = os.path.dirname(os.__file__) + "/"
    return path.startswith(library) and "/site-packages/" not in path and not hasattr(sys, "frozen")


def _unchecked(cached: object) -> str:
    """Return a module's compiled file if it is used without a check of the source, or ""."""
    if not isinstance(cached, str) or _is_of_the_interpreter(cached):
        return ""
    try:
        with open(cached, "rb") as file:
            flags = int.from_bytes(file.read(8)[4:], "little")
    except OSError:
        return ""
    return os.path.abspath(cached) if flags == _UNCHECKED else ""
