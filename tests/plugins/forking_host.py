"""A host that forks for a program, as a process with one thread: `forking_host.py JOB`, for tests.

A job is JSON: `script` (the path of the program), `argv`, `stdin` (null: it is ended while it waits for one),
`seconds` (to the deadline), and `watchdog`: is one told of the children? Before that the host makes itself different
from a new process in every way it can.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from functools import partial
from types import ModuleType
from typing import Any

from nri.process import children, watchdog
from nri.process.afresh import LoadedProgram
from nri.process.forked import ForkedProgram
from nri.process.spawn import PLUGIN_ENVIRONMENT


def be_different() -> None:
    """Change all that a new process would not inherit."""
    os.environ["SECRET"] = "x"
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: os.write(2, b"a handler of the host ran\n"))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGCHLD])
    signal.setitimer(signal.ITIMER_REAL, 1000)
    os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 200)
    sys.excepthook = lambda *_: os.write(2, b"the host's excepthook\n")
    assert sys.__stderr__ is not None
    sys.__stderr__.reconfigure(line_buffering=False)
    sys.__stderr__.write("in the host's buffer")


def program(script: str, argv: list[str]) -> LoadedProgram:
    """The script as a program that is loaded."""
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    module = ModuleType("loaded")
    module.__file__ = script
    return LoadedProgram(
        partial(exec, code, module.__dict__),
        module,
        path=script,
        executable=sys.executable,
        argv=argv,
        environment=PLUGIN_ENVIRONMENT,
    )


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; return what came of it."""
    lines: list[str] = []
    deadline = time.monotonic() + job["seconds"]
    forked = ForkedProgram(program(job["script"], job["argv"]), deadline)
    try:
        os.write(1, f"{forked.pid}\n".encode())  # the test may look at it
        if job["stdin"] is None:
            forked.end()
            return {}
        output = forked.converse(job["stdin"].encode(), deadline, max_output=1 << 20, log=lines.append)
    finally:
        handlers = [signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN, len(signal.pthread_sigmask(0, []))]
    return {
        "stdout": output.stdout.decode(errors="backslashreplace"),
        "stderr": "\n".join(lines),
        "status": output.status,
        "stopped": output.stopped,
        "host": handlers,
        "children": len(children.started),
    }


def main() -> None:
    """Do the job on the command line."""
    job = json.loads(sys.argv[1])
    watcher = watchdog.start(make_session=False, shares_session=True) if job.get("watchdog") else None
    be_different()
    done = run(job)
    if watcher is not None:
        watcher.dismiss()
    os.write(1, json.dumps(done).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
