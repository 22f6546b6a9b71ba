"""A host whose plugins are preforked, and do what a test tells them to."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.config.entries import PluginEntry
from nri.prefork.pool.pool import Pool
from tests.support.host import request
from tests.support.processes import has_zombie, is_running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.host import Host

SOURCE = str(Path(__file__).parents[3])

PLUGIN = """#!PYTHON
import sys
sys.path.insert(0, SOURCE)
import os, signal, time
from nri import skel

VERSION = 1
COUNT = 0
FILES = []

def facts():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {
        "argv": sys.argv[1:],
        "environment": sorted(f"{k}={v}" for k, v in os.environ.items()),
        "cwd": os.getcwd(),
        "umask": int(status["Umask"], 8),
        "ignored": status["SigIgn"], "blocked": status["SigBlk"], "caught": status["SigCgt"],
        "leads its group": os.getpgid(0) == os.getpid(),
        "same session": os.getsid(0) == os.getsid(os.getppid()),
        "inheritable": [fd for fd in range(64) if os.path.exists(f"/proc/self/fd/{fd}") and os.get_inheritable(fd)],
        "kinds": [os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in range(3)],
        "stdout is stderr": os.readlink("/proc/self/fd/1") == os.readlink("/proc/self/fd/2"),
        "threads": len(os.listdir("/proc/self/task")),
        "handler": str(signal.getsignal(signal.SIGINT)),
        "main": __name__,
    }

def spread(path, prepare=lambda: None):
    ready, done = os.pipe()
    if os.fork() == 0:
        prepare()
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        os.close(ready); os.close(done)
        time.sleep(1000)
    os.close(done)
    os.read(ready, 1)

class Scripted(skel.Plugin):
    type = "TYPE"

    def invoke(self, request):
        global COUNT
        COUNT += 1
        result = request.new_result(self.type, metadata={"version": str(VERSION)})
        result.extra["id"] = {"pid": os.getpid(), "parent": os.getppid(), "count": COUNT}
        exec((request.conf or {}).get("do", ""), globals(), {"request": request, "result": result, "plugin": self})
        return result

if __name__ == "__main__":
    skel.main(Scripted())
"""


class PreforkHost:
    """A host with such plugins, and the pool of their servers."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.pool = Pool()
        self.lines: list[str] = []

    def text(self, type_: str = "noop", **changes: str) -> str:
        text = PLUGIN.replace("PYTHON", sys.executable).replace("SOURCE", repr(SOURCE)).replace("TYPE", type_)
        for old, new in changes.items():
            text = text.replace(f"{old} = ", f"{old} = {new}  # ", 1)
        return text

    def install(self, type_: str = "noop", *, loads: str = "", **changes: str) -> Path:
        """Install the plugin; replace an earlier one in one step.

        :param loads: what it does when it is loaded.
        """
        text = self.text(type_, **changes)
        part = self.host.script(f"{type_}.part", text.replace("COUNT = 0", f"COUNT = 0\n{loads}", 1))
        return part.rename(part.with_suffix(""))

    def run(self, do: str = "", type_: str = "noop", *, prefork: bool = True, **options: Any) -> Any:
        labels, on_step = options.pop("labels", {}), options.pop("on_step", None)
        if prefork:
            options["pool"] = self.pool
        options.setdefault("log", lambda name, line: self.lines.append(f"{name}: {line}"))
        client = self.host.client(PluginEntry(type=type_, conf={"do": do}), **options)
        (result,) = client.invoke(request(labels=labels), "create", on_step=on_step)
        return result

    def is_preforked(self, type_: str = "noop") -> bool:
        return bool(self.run(type_=type_).extra["id"]["parent"] != os.getpid())

    def wait_for_server(self, type_: str = "noop") -> None:
        assert wait_until(lambda: self.is_preforked(type_))
        self.lines.clear()

    def wait_until_settled(self) -> None:
        """Have the plugin loaded ahead, and wait for the outcome."""
        self.run()
        assert wait_until(is_pool_idle)

    def preforked(self, do: str, type_: str = "noop", **options: Any) -> Any:
        """Return the result of a preforked process; on a busy machine a request may start a new one, so try again."""
        results: list[Any] = []

        def is_preforked() -> bool:
            results.append(self.run(do, type_, **options))
            return bool(results[-1].extra["id"]["parent"] != os.getpid())

        assert wait_until(is_preforked)
        return results[-1]

    def server(self, type_: str = "noop") -> int:
        return int(self.preforked("", type_).extra["id"]["parent"])

    def workers(self, server: int) -> list[int]:
        """Return the workers of a server that run."""
        with open(f"/proc/{server}/task/{server}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split() if is_running(int(pid))]

    def failure(self, do: str, **options: Any) -> str:
        with pytest.raises(ChainError) as caught:
            self.run(do, **options)
        return str(caught.value)

    def close(self) -> None:
        self.pool.close()
        nothing_is_left(self.host)


def nothing_is_left(host: Host) -> None:
    """Wait until no process of the host's plugins and no thread of a closed pool is left."""
    assert wait_until(lambda: not host.processes())
    assert wait_until(is_pool_idle)
    assert wait_until(lambda: not has_zombie())


def is_pool_idle() -> bool:
    """Return whether no thread starts or ends a server."""
    return not any(thread.name == "prefork" for thread in threading.enumerate())


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged reasons why plugins are started for each request."""
    return [text for record in caplog.records if "for each request" in (text := record.getMessage())]
