"""What a new process would get of its caller's, and shall not: descriptors, and what is done about signals.

For both kinds of plugins, and so outside of both wings. Nothing is imported that a hook would have to wait for.
"""

from __future__ import annotations

import os

SIGNALS = tuple([number for number in range(1, 65) if number not in (9, 19, 32, 33, 34)])
"""The signals to be set back for a new process: what is ignored stays so across exec. Python ignores SIGPIPE and
SIGXFSZ, and who knows what our caller did. All but SIGKILL and SIGSTOP, which can't be ignored, and 32 to 34, which C
libraries keep. (The signal module has a function for this, and would import enum.)"""


def inheritable() -> list[int]:
    """The descriptors above 2 that a child would get: those that our own caller left open to us."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            pass  # the descriptor of that very listing, or one that another thread has closed
    return found
