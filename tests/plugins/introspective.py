"""A program that writes all that it finds out about its own process to stdout, as JSON."""

import _signal  # type: ignore[import-not-found]
import gc
import json
import os
import sys
from typing import Any

descriptors = sorted(
    int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
)  # before there are others


def stream(file: Any) -> dict[str, object]:
    raw = file.buffer.raw
    return {
        "repr": repr(file),
        "buffer": repr(file.buffer),
        "raw": repr(raw),
        "errors": file.errors,
        "line_buffering": file.line_buffering,
        "write_through": file.write_through,
        "closefd": raw.closefd,
        "same": file in (sys.__stdin__, sys.__stdout__, sys.__stderr__),
    }


def signals(name: str) -> str:
    """A set of signals, without those that C libraries reserve: 32 to 34."""
    return f"{int(field(name), 16) & ~(7 << 31):x}"


def field(name: str) -> str:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(line.split(None, 1)[1].strip() for line in status if line.startswith(name + ":"))


with open("/proc/self/stat", encoding="ascii") as _file:
    _session = int(_file.read().rpartition(")")[2].split()[3])

found = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv[-2:],
    "environ": dict(os.environ),
    "environ of a child": sorted(os.popen("/usr/bin/env -0").read().split("\0")),
    "stdin": stream(sys.stdin),
    "stdout": stream(sys.stdout),
    "stderr": stream(sys.stderr),
    "signals": [(number, str(_signal.getsignal(number))) for number in range(1, 65) if number not in (32, 33)],
    "kernel's signals": [signals(name) for name in ("SigBlk", "SigIgn", "SigCgt")],
    "status": [field(name) for name in ("Umask", "Threads", "NoNewPrivs")],
    "pending": field("SigPnd"),
    "name": field("Name"),
    "leads a group": os.getpgrp() == os.getpid(),
    "descriptors": descriptors,
    "kinds": [os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in range(3)],
    "timer": _signal.getitimer(_signal.ITIMER_REAL),
    "cwd": os.getcwd(),
    "main": (__name__, sys.modules["__main__"].__name__, sys.modules["__main__"].__dict__ is globals()),
    "gc": (gc.isenabled(), gc.get_threshold()),
    "hooks": (sys.excepthook is sys.__excepthook__, sys.unraisablehook is sys.__unraisablehook__),
    "stdin's text": sys.stdin.read(),
}
own = {"session": _session == os.getpid()}
print(json.dumps({"found": found, "own": own}))
