"""Removes the paths of libraries (RPATH and RUNPATH) that lead out of a folder of executables.

A library of the Python that builds may name that Python's own folder. On a node another user may put files there,
which every plugin would load as root. Standard library only, as :mod:`nri.authoring.packing`.
"""

from __future__ import annotations

import os
import subprocess

ELF = b"\x7fELF"
_ORIGIN = ("$ORIGIN", "${ORIGIN}")


def elf_files(folder: str) -> list[str]:
    """Return all ELF files in the folder that are no links."""
    found = []
    for place, _, names in os.walk(folder):
        for path in [os.path.join(place, name) for name in names]:
            if not os.path.islink(path) and os.path.isfile(path):
                with open(path, "rb") as file:
                    if file.read(len(ELF)) == ELF:
                        found.append(path)
    return sorted(found)


def remove_rpaths(folder: str, patchelf: str) -> None:
    """Remove each path that does not stay within the folder from the libraries in it.

    Executables at its top are PyInstaller's launcher with an archive, and have none.

    :param patchelf: the path of this program.
    :raises subprocess.CalledProcessError: when it fails.
    """
    for path in elf_files(folder):
        if os.path.dirname(path) == folder:
            continue
        before = _run(patchelf, "--print-rpath", path).strip()
        after = ":".join([each for each in before.split(":") if _stays_within(folder, path, each)])
        if after == before:
            continue
        if after:
            _run(patchelf, "--set-rpath", after, path)
        else:
            _run(patchelf, "--remove-rpath", path)


def _stays_within(folder: str, path: str, entry: str) -> bool:
    """Return whether an entry of a file's path of libraries names a place in the folder."""
    for origin in _ORIGIN:
        if entry == origin or entry.startswith(f"{origin}/"):
            named = os.path.normpath(os.path.dirname(path) + entry.removeprefix(origin))
            return (named + "/").startswith(os.path.normpath(folder) + "/")
    return False


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
