"""A host that forks for a program, as a process with one thread: `forking_host.py JOB`, for tests.

A job is JSON: `script` (its path), `type`, `stdin`, `seconds` (to the deadline), and `watchdog` (whether
there is one). Before it forks, the host makes itself different from a new process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from functools import partial
from typing import Any

from nri.client import forking
from nri.process import children, watchdog


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
    assert sys.__stderr__ is not None
    sys.__stderr__.reconfigure(line_buffering=False)
    sys.__stderr__.write("in the host's buffer")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; return what came of it."""
    lines: list[str] = []
    with open(job["script"], "rb") as file:
        code = compile(file.read(), job["script"], "exec")
    forking.own_plugin = lambda _path: partial(exec, code, {"__name__": "__main__"})  # type: ignore[assignment]
    deadline = time.monotonic() + job["seconds"]
    output = forking.ForkingInvoker().run(
        job["script"], job["type"], job["stdin"].encode(), deadline, lines.append
    )
    return {
        "stdout": output.stdout.decode(errors="backslashreplace"),
        "stderr": "\n".join(lines),
        "status": output.status,
        "stopped": output.stopped,
        "host": [
            signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN,
            len(signal.pthread_sigmask(0, [])),
        ],
        "children": len(children.started),
    }


def main() -> None:
    """Do the job on the command line."""
    job = json.loads(sys.argv[1])
    watcher = watchdog.start(forgets=True) if job.get("watchdog") else None
    be_different()
    done = run(job)
    if watcher is not None:
        watcher.end(sweeps=False)
    os.write(1, json.dumps(done).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
