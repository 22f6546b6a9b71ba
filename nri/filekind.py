"""The kind of a file in words, for messages about a file that is not a regular one."""

import stat

_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a link",
}


def describe(mode: int) -> str:
    """Return the kind of a file with this ``st_mode``, for example ``a FIFO``."""
    return _KINDS.get(stat.S_IFMT(mode), "something that is no file")
