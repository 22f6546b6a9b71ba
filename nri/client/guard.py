"""The guard: a process that ends what a host was running, when something ends the host.

A host that is told to end sees to its plugins itself. One that is killed (SIGKILL, out of memory, a crash of the
interpreter) can not, and a plugin at work would go on without anybody who keeps its deadline. So a host that stays
forks the guard when it begins; it waits until the host is gone, kills what is left of the host's session, and ends.

A session is what tells a host's processes from others: they can't leave it unnoticed but with ``setsid``. A host that
is launched by a runtime makes a session of its own, for it has the runtime's; as a service it has one. One that
somebody runs in a shell shares the shell's, with whatever else runs there, and has no guard.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os

from nri.client import spawn

ROUNDS = 100
"""Times that what is left is looked for again: what is killed may just have made another."""

_IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)


def keep(*, make_session: bool) -> bool:
    """Fork the guard; whether there is one.

    To be called before there are threads; and before much is loaded, for the guard keeps a copy of it in memory.

    :param make_session: leave the session that this process is in, where it is another's.
    """
    session = os.getsid(0)
    if session != os.getpid():
        if not make_session:
            return False
        try:
            os.setsid()
        except PermissionError:  # it leads a process group: somebody has put it there, and looks after it
            return False
    host = os.getpid()
    waits, _ = spawn.pipe()  # the other is in no other process, and so closed when this one is gone
    pid = os.fork()
    if pid == 0:
        try:
            _guard(waits, host)
        finally:
            os._exit(0)
    os.close(waits)
    with spawn.starting:
        spawn.started.add(pid)  # nothing that a plugin has left
    return True


def _guard(waits: int, host: int) -> None:
    os.setsid()
    os.closerange(3, waits)  # above all the connection to the runtime, which has to see that the host is gone
    os.closerange(waits + 1, 1 << 20)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _rename()
    while os.read(waits, 1):
        pass
    for _ in range(ROUNDS):
        left = _of_session(host)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, _signal.SIGKILL)
            except OSError:
                pass  # it has ended


def _of_session(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session and fields[0] not in b"ZX":
            found.append(int(name))
    return found


def _rename() -> None:
    """Tell it from the host in a list of processes."""
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write("nri-guard")
    except OSError:
        pass  # it is a courtesy
