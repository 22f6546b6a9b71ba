"""A v0.1 plugin whose behaviour a test scripts, like CNI's ``noop``: real, and as rude as it is told to be.

The steps are ``conf.do`` of its request, each a verb and its arguments; or STEPS, which ``tests.support.host``
puts into a plugin's executable for one that must not read its stdin. Nothing of this project is used here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # typing is start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

STEPS: list[list[object]] | None = None


class Answer:
    """What is said at the end, unless a step says otherwise."""

    def __init__(self, request: dict[str, object]) -> None:
        self.request = request
        self.is_due = True
        name = os.path.basename(sys.argv[0])
        self.value: dict[str, object] = {
            "plugin": name,
            "version": "0.1",
            "error": "",
            "metadata": {},
        }

    # What it answers

    def error(self, message: str) -> None:
        self.value["error"] = message

    def put(self, key: str, value: object) -> None:
        self.value[key] = value

    def put_in(self, states: list[str], key: str, value: object) -> None:
        """Put it into answers to these states alone."""
        if self.request.get("state") in states:
            self.value[key] = value

    def answer(self) -> None:
        write(1, json.dumps(self.value).encode())
        self.is_due = False

    def nothing(self) -> None:
        self.is_due = False

    def write(self, text: str, times: int = 1) -> None:
        """Write that, again and again, with a call for each."""
        for _ in range(times):
            write(1, text.encode("latin-1"))

    def stderr(self, text: str, times: int = 1) -> None:
        write(2, text.encode("latin-1") * times)

    def enlarge(self, fd: int, size: int) -> None:
        """Make a pipe hold more; above /proc/sys/fs/pipe-max-size that is root's to do."""
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)

    def packets(self, fd: int) -> None:
        """Have each read of a pipe return one write."""
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)

    def flood(self, fd: int) -> None:
        while True:
            write(fd, b"x" * 65535 + b"\n")

    # What it finds

    def echo(self) -> None:
        """Say what it was given: not by Python's word, which prepares a few things, but by the kernel's."""
        with open("/proc/self/cmdline", "rb") as file:
            argv = file.read().decode().split("\0")[:-1]
        with open("/proc/self/environ", "rb") as file:
            environment = sorted(file.read().decode().split("\0")[:-1])
        with open("/proc/self/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        with open("/proc/self/limits", encoding="ascii") as file:
            (core,) = [line for line in file if line.startswith("Max core file size")]
        self.value["echo"] = {
            "argv": argv[argv.index("-IS") + 1 :],
            "environment": environment,
            "fds": [
                int(fd)
                for fd in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{fd}")
            ],
            "cwd": os.getcwd(),
            "umask": int(status["Umask"], 8),
            "ignored": int(status["SigIgn"], 16),
            "blocked": int(status["SigBlk"], 16),
            "parent": os.getppid(),
            "core": core.split()[4],
            "leads its group": os.getpgid(0) == os.getpid(),
            "request": self.request,
        }

    # How it ends, or does not

    def exit(self, status: int) -> None:
        os._exit(status)

    def ignore(self, name: str) -> None:
        signal.signal(signal.Signals[name], signal.SIG_IGN)

    def hang(self) -> None:
        time.sleep(1000)

    def close(self, fd: int) -> None:
        os.close(fd)

    # Who else it leaves behind

    def child(self, pid_file: str) -> None:
        """A child with the same pipes, in the same group."""
        spawn(pid_file, lambda: None)

    def daemon(self, pid_file: str) -> None:
        """The same, in a session of its own."""
        spawn(pid_file, os.setsid)

    # What it leaves for the test

    def keep(self, file: str) -> None:
        """The request."""
        self.note(file, json.dumps(self.request))

    def note(self, file: str, text: str) -> None:
        with open(file, "a", encoding="utf-8") as notes:
            notes.write(text + "\n")


def spawn(pid_file: str, prepare: Callable[[], None]) -> None:
    ready, done = os.pipe()
    if os.fork() == 0:
        prepare()
        with open(pid_file, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        os.close(ready)
        os.close(done)
        time.sleep(1000)
        os._exit(0)
    os.close(done)
    os.read(ready, 1)


def write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main() -> None:
    request = {} if STEPS is not None else json.loads(sys.stdin.buffer.read() or b"{}")
    steps = STEPS if STEPS is not None else (request.get("conf") or {}).get("do", [])
    answer = Answer(request)
    for verb, *arguments in steps:
        getattr(answer, str(verb))(*arguments)
    if answer.is_due:
        answer.answer()
    os._exit(0)


if __name__ == "__main__":
    main()
