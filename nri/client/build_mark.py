"""The mark at the end of each executable of a build: the build, and the module that the executable runs.

The executables of one build share a folder, and ``nri hook`` may run the plugins of its own build without starting
them (``nri.client.forking``). After half an upgrade a folder may have executables of two builds, so each carries
its mark in itself. A program that rewrites an executable, such as ``strip``, drops it; then nothing is known of it.
"""

from __future__ import annotations

import os

OWN = "/proc/self/exe"
"""The executable of this process, also after it was replaced or deleted."""

SIZE = 128
"""Bytes of a mark, which are the last of its file."""

_BEGIN = b"\nnri-build 1 "
_BUILD = 32  # characters of a build's id
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_SET_ID = 0o6000
_PLUGINS = "nri.plugins."


def encode(build: str, module: str) -> bytes:
    """Return the mark of an executable.

    :param build: the id of the build, 32 hexadecimal digits.
    :param module: the module that it runs.
    :raises ValueError: if they are too long for a mark, or of another form.
    """
    mark = (_BEGIN + f"{build} {module}".encode("ascii")).ljust(SIZE - 1) + b"\n"
    if decode(mark) != (build, module):
        raise ValueError(
            f"found {build!r} and {module!r}, expected {_BUILD} digits and the name of a module"
        )
    return mark


def decode(mark: bytes) -> tuple[str, str]:
    """Return the build and the module of an executable from its last ``SIZE`` bytes; two "" if it has no mark."""
    if len(mark) != SIZE or not mark.startswith(_BEGIN) or not mark.endswith(b"\n"):
        return "", ""
    build, _, module = mark[len(_BEGIN) : -1].rstrip(b" ").decode("ascii", "replace").partition(" ")
    if len(build) != _BUILD or not build.isalnum() or not module.replace(".", "").isidentifier():
        return "", ""
    return build, module


def read(path: str) -> tuple[str, str, str]:
    """Return the real path of a file, and the build and module of its mark; three "" for a set-user-ID file.

    :raises OSError: if it cannot be read.
    """
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        if status.st_mode & _SET_ID:
            return "", "", ""
        mark = os.pread(fd, SIZE, max(0, status.st_size - SIZE))
        return (os.readlink(f"/proc/self/fd/{fd}"), *decode(mark))
    finally:
        os.close(fd)


def read_own_plugin(path: str) -> tuple[str, str]:
    """Return the real path of a plugin of the build that this process runs, and its module; else two "".

    :param path: its executable, or a link to it.
    """
    try:
        own, build, _ = read(OWN)
        executable, other, module = read(path)
    except OSError:
        return "", ""
    is_own = build and other == build and os.path.dirname(executable) == os.path.dirname(own)
    if is_own and module.startswith(_PLUGINS):
        return (executable, module)
    return ("", "")
