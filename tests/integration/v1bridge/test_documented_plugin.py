"""The plugin of docs/writing-a-plugin.md, built as the page says, on a bridge that an embedded runtime launches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri import adaptation
from nri.config.entries import PluginEntry
from tests.integration.v1bridge.site import launched
from tests.support.host import Host
from tests.support.pods import container, pod
from tests.support.waiting import wait_until

SOURCE = Path(__file__).parents[3]


def build(place: Path) -> Path:
    """Write the plugin of docs/writing-a-plugin.md, and build it with the page's command; return the executable."""
    text = (SOURCE / "docs/writing-a-plugin.md").read_text()
    (content,) = re.findall(r"^```python batch\.py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (place / "batch.py").write_text(content)
    command = re.findall(r"^\$ (nri build batch\.py .*)$", text, re.MULTILINE)[0]
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    environment = {"PATH": path, "PYTHONPATH": str(SOURCE), "HOME": str(place), "LANG": "C.UTF-8"}
    subprocess.run(command, shell=True, cwd=place, env=environment, check=True, capture_output=True)
    return place / "dist/batch/batch"


def processes(executable: Path) -> set[int]:
    """The living processes of an executable."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/exe") == str(executable):
                found.add(int(name))
        except OSError:
            pass  # it has ended, or is a zombie
    return found


@contextmanager
def bridged(host: Host, executable: Path) -> Iterator[tuple[adaptation.Runtime, Callable[[], str]]]:
    """A runtime that has launched a bridge with this plugin; and the bridge's log."""
    (host.bin / executable.name).symlink_to(executable)
    host.configure(PluginEntry(type=executable.name, conf={"cpus": "2-3"}))
    log = host.root / "bridge.log"
    start = f"import sys\nsys.path.insert(0, {str(SOURCE)!r})\nfrom nri.cli.bridge_entry import main\nmain()\n"
    with launched(host, f"#!{sys.executable}\n{start}", log_file=str(log), log_level="debug") as runtime:
        yield runtime, log.read_text
    assert wait_until(lambda: processes(executable) == set())


def has_refused(runtime: adaptation.Runtime) -> bool:
    """Return whether a container is refused with the plugin's own words."""
    try:
        runtime.start_container(pod(), container(annotations={"class.example.com": "batch"}))
    except adaptation.EventError as error:
        return "plugin batch: no cpuset cgroup for " in str(error)
    return False


def test_documented_plugin_is_a_resident(host: Host, tmp_path: Path) -> None:
    executable = build(tmp_path)
    with bridged(host, executable) as (runtime, log):

        def is_taken(before: int) -> bool:
            """Start a container; return whether the resident answered. It may not be ready yet."""
            runtime.start_container(pod(), container())
            return log().count("batch: its resident answers this request") > before

        assert wait_until(lambda: len(processes(executable)) == 1), log()
        (resident,) = processes(executable)
        for taken in range(3):
            assert wait_until(lambda: is_taken(taken)), log()  # noqa: B023
        assert processes(executable) == {resident}
        assert has_refused(runtime)
        assert "for each request" not in log()


@pytest.mark.skipif("_socket" in sys.builtin_module_names, reason="needs a Python whose _socket is a library")
def test_executable_that_lacks_a_module_of_residents_is_started(host: Host, tmp_path: Path) -> None:
    executable = build(tmp_path)
    (library,) = executable.parent.rglob("_socket.*.so")
    library.unlink()
    with bridged(host, executable) as (runtime, log):
        why = "warning batch is started for each request: a module is missing in the executable: _socket\n"
        assert wait_until(lambda: why in log()), log()
        for _ in range(2):
            runtime.start_container(pod(), container())
        assert log().count("for each request") == 1
        assert log().count("batch: starting a process for this request") == 2
        assert wait_until(lambda: processes(executable) == set())
