"""`nri-runc` from its source around a runtime that writes down how it is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.host import OCI_CONFIG, Host, plugin
from tests.support.processes import MEASURED
from tests.support.waiting import wait_until

SOURCE = str(Path(__file__).parents[3])

REAL = """#!{python} -IS
import json, os, signal, sys, time

def status(key):
    with open("/proc/self/status") as file:
        return int(dict(line.split(":", 1) for line in file)[key], 16)

here = os.path.dirname(sys.argv[0])
words = sys.argv[1:]
call = {{
    "argv": sys.argv, "environment": dict(os.environ), "pid": os.getpid(), "parent": os.getppid(), "cwd": os.getcwd(),
    "ignored": status("SigIgn"), "blocked": status("SigBlk"), "umask": os.umask(0o22), "session": os.getsid(0),
    "group": os.getpgid(0), "core": __import__("resource").getrlimit(4)[0],
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)),
}}
with open(here + "/calls", "a") as file:
    file.write(json.dumps(call) + "\\n")
script = here + "/script.py"
command = next((word for word in words if not word.startswith("-")), "")
if "state" in words:
    try:
        print(open(here + "/state").read())
    except OSError:
        sys.exit("container does not exist")
elif os.path.exists(script):
    exec(open(script).read())
"""


class NriRunc:
    """The runtime `nri-real` on a host, and the calls of the real one."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.real = host.script(
            "real", REAL.format(python=sys.executable), into=host.folder("sbin")
        )
        self.options = host.root / "runtime.json"
        self.set_options()
        self.bundle = host.bundle(OCI_CONFIG)

    def set_options(self, **more: Any) -> None:
        root = self.host.root
        places = {
            "confDir": str(self.host.conf),
            "confFile": f"{root}/conf.json",
            "recordDir": f"{root}/record",
        }
        options = {"runtime": str(self.real), **places, "binDirs": [str(self.host.bin)], **more}
        self.options.write_text(json.dumps(options))

    def script(self, text: str) -> None:
        """What the real runtime does for a command other than `state`."""
        (self.real.parent / "script.py").write_text(text)

    def exists(self, **state: Any) -> None:
        """From now on there is a container `web`."""
        known = {"id": "web", "pid": 4711, "status": "running", "bundle": str(self.bundle), **state}
        (self.real.parent / "state").write_text(json.dumps(known))

    def command(self, *words: str, code: str = "") -> list[str]:
        program = (
            f"import sys\n{code}\nfrom nri.runc import entry\n"
            f"entry.end(entry.main(['nri-real', *sys.argv[1:]], {str(self.options)!r}))"
        )
        return [sys.executable, "-S", "-c", program, *words]

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": ":".join([SOURCE, *sys.path]), "HELLO": "there", **MEASURED}

    def run(self, *words: str, code: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
        options: dict[str, Any] = {
            "env": self.environment,
            "capture_output": True,
            "text": True,
            "input": "",
        }
        if "stdin" in more:
            del options["input"]
        return subprocess.run(
            self.command(*words, code=code), check=False, timeout=60, **options | more
        )

    @contextmanager
    def begun(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A call that runs, and after which a plugin or the real runtime has made the host's file `begun`."""
        command, quiet = self.command(*words), subprocess.DEVNULL
        with subprocess.Popen(
            command, env=self.environment, cwd=self.host.root, stdin=quiet, stderr=quiet
        ) as process:
            if not wait_until((self.host.root / "begun").exists):
                process.kill()  # or the block would wait for it
                pytest.fail("it has not begun")
            yield process

    def calls(self) -> list[dict[str, Any]]:
        file = self.real.parent / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def words(self) -> list[list[str]]:
        """The words of each call of the real runtime."""
        return [call["argv"][1:] for call in self.calls()]

    def configure(self, *do: list[Any], **more: Any) -> None:
        """Configure the scripted plugin."""
        self.host.install("noop")
        states = ["setup", "resize", "update", "pause", "resume"]
        self.host.configure(plugin("noop", *do, **{"states": states, **more}))

    def requests(self) -> list[dict[str, Any]]:
        file = self.host.root / "requests"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def keep(self, *do: list[Any], **more: Any) -> None:
        """Configure the scripted plugin to keep its requests."""
        self.configure(["keep", str(self.host.root / "requests")], *do, **more)

    def states(self) -> list[str]:
        return [request["state"] for request in self.requests()]


@pytest.fixture
def runtime(host: Host) -> NriRunc:
    os.chmod(host.root, 0o755)
    return NriRunc(host)
