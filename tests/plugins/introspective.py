"""A program that writes all that it finds out about its own process to stdout, as JSON."""

import _signal  # type: ignore[import-not-found]
import json
import os
import sys

# Before there are others.
descriptors = sorted(
    int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
)


def signals(name: str) -> str:
    """A set of signals, without those that C libraries reserve: 32 to 34."""
    return f"{int(field(name), 16) & ~(7 << 31):x}"


def field(name: str) -> str:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(
            line.split(None, 1)[1].strip() for line in status if line.startswith(name + ":")
        )


with open("/proc/self/stat", encoding="ascii") as _file:
    _session = int(_file.read().rpartition(")")[2].split()[3])

found = {
    "argv": sys.argv,
    "environ": dict(os.environ),
    "environ of a child": sorted(os.popen("/usr/bin/env -0").read().split("\0")),
    "signals": [
        (number, str(_signal.getsignal(number)))
        for number in range(1, 65)
        if number not in (32, 33)
    ],
    "kernel's signals": [signals(name) for name in ("SigBlk", "SigIgn", "SigCgt")],
    "status": [field(name) for name in ("Umask", "Threads", "NoNewPrivs")],
    "pending": field("SigPnd"),
    "name": field("Name"),
    "leads a group": os.getpgrp() == os.getpid(),
    "descriptors": descriptors,
    "kinds": [os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in range(3)],
    "timer": _signal.getitimer(_signal.ITIMER_REAL),
    "cwd": os.getcwd(),
    "stdin's text": sys.stdin.read(),
}
own = {"session": _session == os.getpid()}
os.write(1, json.dumps({"found": found, "own": own}).encode())  # what is printed goes to stderr
