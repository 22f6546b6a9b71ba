"""The process at the other end of a Unix socket, by what the kernel says of it (``SO_PEERCRED``, unix(7)).

Probes and ``nri-runc`` import this module: so ``_socket``, since ``socket`` would import ``enum``.
"""

from __future__ import annotations

import os
from _socket import SO_PEERCRED, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

_SIZE = 12  # of struct ucred: pid, uid and gid, 32 bits each


def credentials(connection: socket) -> tuple[int, int]:
    """Return the pid and the user of the process that has connected or, for a client, that listens.

    The pid is 0 if that process is in another pid namespace.

    :raises OSError: the kernel does not say.
    """
    pid, user, _ = memoryview(connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _SIZE)).cast("I")
    return pid, user


def is_trusted(user: int) -> bool:
    """Return whether a user is root or the user of this process."""
    return user in (0, os.geteuid())
