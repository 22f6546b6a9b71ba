"""The glibc that executables need, and so the distributions on which they run.

The version is the highest one of the symbols that the files import from glibc, as objdump (binutils) prints them. A
library that is neither glibc's nor in the folder is an error: then the executables would need more than glibc.
``tools/needed-libc`` and ``nri build --check-libc`` print it. Standard library only: the former runs with any Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from nri.authoring.distributions import RELEASES, distributions, number
from nri.authoring.rpaths import elf_files
from nri.errors import NRIError

_GLIBC = re.compile(r"lib(c|m|dl|pthread|rt|util|resolv)\.so\.\d|ld-linux[\w-]*\.so\.\d")
_NAMED_OTHERWISE = {"ABI_DT_RELR": "2.36"}  # versions that are not numbers, and the release that brought them


class LibcError(NRIError):
    """The version cannot be determined, or glibc is not all that the files need."""


def needed(folder: str) -> tuple[str, str]:
    """Return the highest version that a file of the folder needs, and this file's name.

    :raises LibcError: when there is none, or a library is missing.
    """
    highest = "0", ""
    for name, version in needed_by_file(folder).items():
        highest = max(highest, (version, name), key=lambda pair: number(pair[0]))
    return highest


def needed_by_file(folder: str) -> dict[str, str]:
    """Return the version that each executable and library of the folder needs; "0" if it needs none.

    :raises LibcError: as :func:`needed`.
    """
    objdump = shutil.which("objdump")
    if objdump is None:
        raise LibcError("objdump not found; install it (Debian: apt-get install binutils)")
    files = elf_files(folder)
    if not files:
        raise LibcError(f"no executable or library in {folder}, expected those of make binaries or nri build")
    present = {os.path.basename(path) for path in files}
    return {os.path.relpath(path, folder): _needed_by(objdump, path, folder, present) for path in files}


def describe(folder: str, names: tuple[str, ...] = tuple(RELEASES)) -> list[str]:
    """Return lines that say which glibc the files of the folder need, and where they run.

    :raises LibcError: as :func:`needed`.
    """
    version, name = needed(folder)
    first, last = distributions(version, names)
    lines = [
        f"needs glibc {version} or later, because of {name}",
        f"runs on {', '.join(first) or 'no release that is listed here'}, and later releases",
    ]
    return [*lines, f"does not run on {', '.join(last)}, and earlier releases"] if last else lines


def _needed_by(objdump: str, path: str, folder: str, present: set[str]) -> str:
    libraries, versions = _imports(objdump, path)
    name = os.path.relpath(path, folder)
    for library in sorted(libraries):
        if library not in present and not _GLIBC.match(library):
            raise LibcError(f"{name} needs {library}, expected a library of glibc or of {folder}")
    highest = "0"
    for version in versions:
        release = _NAMED_OTHERWISE.get(version, version)
        if not re.fullmatch(r"\d+(\.\d+)+", release):
            raise LibcError(f"{name} needs GLIBC_{version}, expected a version such as GLIBC_2.36")
        highest = max(highest, release, key=number)
    return highest


def _imports(objdump: str, path: str) -> tuple[set[str], set[str]]:
    """Return the libraries that a file needs, and the versions of glibc's symbols that it imports."""
    in_english = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run([objdump, "-p", path], capture_output=True, text=True, check=True, env=in_english)
    except subprocess.CalledProcessError as error:
        raise LibcError(f"{path}: objdump cannot read it: {error.stderr.strip()}") from error
    _, _, references = done.stdout.partition("\nVersion References:\n")
    versions = set(re.findall(r"^ .* GLIBC_(\S+)$", references, re.MULTILINE))
    return set(re.findall(r"^ +NEEDED +(\S+)$", done.stdout, re.MULTILINE)), versions
