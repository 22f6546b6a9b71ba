"""Process state that children inherit: descriptors, signal dispositions, directory, umask and the core limit.

:mod:`nri.process.spawn` closes descriptors and resets signals in the child. It cannot change the rest there, which a
process of our own sets for itself with :func:`prepare_process`.
"""

from __future__ import annotations

import os

SIGNALS = tuple([number for number in range(1, 65) if number not in (9, 19, 32, 33, 34)])
"""The signals that are reset to their defaults in a child, since an ignored signal stays ignored across exec.

Python ignores SIGPIPE and SIGXFSZ, and our caller may ignore any. SIGKILL and SIGSTOP cannot be ignored; C libraries
reserve 32 to 34. (``signal.valid_signals`` would import enum.)"""


def inheritable() -> list[int]:
    """Return the descriptors above 2 that a child would inherit: our caller left them open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            pass  # the descriptor of this listing, or one that another thread has closed
    return found


def prepare_process() -> None:
    """Prepare a process of our own whose children are plugins: directory, umask, no core dumps, open 0 to 2.

    A core dump would contain a request with all annotations of a pod. Where the caller ignores SIGCHLD, the kernel
    would keep no exit status of a child, so its default is restored.
    """
    import _signal  # type: ignore[import-not-found] # the signal module would import enum
    import resource

    if _signal.getsignal(_signal.SIGCHLD) == _signal.SIG_IGN:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)

    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    os.chdir("/")
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
