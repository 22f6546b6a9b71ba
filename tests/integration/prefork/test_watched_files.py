"""Files that a plugin is loaded from: when one is replaced, the very next request has the new one."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.prefork.pool import pool, watched_files
from tests.integration.prefork.preforked import is_pool_idle, reasons
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.prefork.preforked import PreforkHost


def put(path: Path, text: str | bytes) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("part-of-a-file")
    part.write_bytes(text.encode() if isinstance(text, str) else text)
    part.chmod(0o755)
    part.rename(path)


def wrapper(node: PreforkHost, command: str) -> None:
    """Have a shell script that runs this command be the plugin."""
    path = node.host.bin / "noop"
    if not path.exists():
        put(path, f'#!/bin/sh\n# runs a plugin of nri.skel\n{command} "$@"\n')


def importing(node: PreforkHost, place: Path) -> None:
    """Install a plugin that answers with the version of a module in ``place``."""
    path = node.host.bin / "noop"
    if not path.exists():
        lines = f"sys.dont_write_bytecode = True; sys.path.insert(0, {str(place)!r})\nfrom MODULE import VERSION"
        put(path, node.text().replace("VERSION = 1", lines))


def package(node: PreforkHost, version: int) -> None:
    put(node.host.root / "lib/mine/__main__.py", node.text(VERSION=str(version)))
    wrapper(node, f"PYTHONPATH={node.host.root}/lib exec {sys.executable} -B -m mine")


def script(node: PreforkHost, version: int) -> None:
    put(node.host.root / "lib/mine.py", node.text(VERSION=str(version)))
    wrapper(node, f"exec {sys.executable} {node.host.root}/lib/mine.py")


def wrapper_itself(node: PreforkHost, version: int) -> None:
    put(node.host.root / f"lib/mine{version}.py", node.text(VERSION=str(version)))
    (node.host.bin / "noop").unlink(missing_ok=True)
    wrapper(node, f"exec {sys.executable} {node.host.root}/lib/mine{version}.py")


def archive(node: PreforkHost, version: int) -> None:
    write_zip(node.host.root / "lib/mine.zip", "__main__.py", node.text(VERSION=str(version)))
    wrapper(node, f"exec {sys.executable} {node.host.root}/lib/mine.zip")


def module_in_archive(node: PreforkHost, version: int) -> None:
    write_zip(node.host.root / "lib/mine.zip", "mine/part.py", f"VERSION = {version}")
    importing(node, node.host.root / "lib/mine.zip")


def module(node: PreforkHost, version: int) -> None:
    put(node.host.root / "lib/mine/part.py", f"VERSION = {version}")
    put(node.host.root / "lib/mine/__init__.py", "")
    importing(node, node.host.root / "lib")


def module_with_counted_starts(node: PreforkHost) -> Path:
    """A plugin with a module; each start as a server adds a character to the file that is returned."""
    module(node, 1)
    path = node.host.bin / "noop"
    starts = node.host.root / "starts"
    note = f"COUNT = 0\nif 'prefork' in sys.argv: open({str(starts)!r}, 'a').write('x')"
    put(path, path.read_text().replace("MODULE", "mine.part").replace("COUNT = 0", note))
    return starts


def compiled_without_source(node: PreforkHost, version: int) -> None:
    put(node.host.root / "lib/part.py", f"VERSION = {version}")
    source = node.host.root / "lib/part.py"
    put(node.host.root / "lib/mine/part.pyc", compiled(source, py_compile.PycInvalidationMode.CHECKED_HASH))
    importing(node, node.host.root / "lib")


def compiled_and_unchecked(node: PreforkHost, version: int) -> None:
    """Of a module whose compiled file is used without a look at its source, only that file is replaced."""
    place = node.host.root / "lib/mine/part.py"
    if not place.exists():
        put(place, "VERSION = 'of the source'")
    source = node.host.root / "lib/part.py"
    put(source, f"VERSION = {version}")
    into = Path(importlib.util.cache_from_source(str(place)))
    put(into, compiled(source, py_compile.PycInvalidationMode.UNCHECKED_HASH))
    importing(node, node.host.root / "lib")


def executed(node: PreforkHost, version: int) -> None:
    """No module has the name of the file, only its code."""
    path, mine = node.host.bin / "noop", node.host.root / "lib/mine.py"
    put(mine, node.text(VERSION=str(version)))
    if not path.exists():
        code = f"file = {str(mine)!r}\nexec(compile(open(file).read(), file, 'exec'))"
        put(path, f"#!{sys.executable}\n# a plugin of nri.skel\n{code}\n")


def libffi_keeps_a_file_open() -> bool:
    code = "import ctypes, os; print([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')[:-1]])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return "libffi" in done.stdout


def library(node: PreforkHost, version: int) -> None:
    """A library is code that nothing in Python knows of, so the version is said by a file that is read each time."""
    if libffi_keeps_a_file_open():
        pytest.skip("needs a libffi that keeps no file open: a plugin with one is started for each request")
    maps = Path("/proc/self/maps").read_text().splitlines()
    put(
        node.host.root / "lib/libmine.so",
        Path(next(line.split()[-1] for line in maps if "/libm" in line)).read_bytes(),
    )
    (node.host.root / "version").write_text(str(version))
    path = node.host.bin / "noop"
    if not path.exists():
        load = f"import ctypes; LIB = ctypes.CDLL({str(node.host.root / 'lib/libmine.so')!r})"
        text = node.text().replace("COUNT = 0", f"COUNT = 0; {load}")
        put(path, text.replace("str(VERSION)", f"open({str(node.host.root / 'version')!r}).read()"))


def write_zip(path: Path, name: str, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name("part-of-a-zip")
    with zipfile.ZipFile(part, "w") as file:
        if "/" in name:
            file.writestr(os.path.dirname(name) + "/__init__.py", "")
        file.writestr(name, text)
    part.rename(path)


def compiled(source: Path, mode: py_compile.PycInvalidationMode) -> bytes:
    part = source.with_name("part-of-a-pyc")
    py_compile.compile(str(source), str(part), doraise=True, invalidation_mode=mode)
    return part.read_bytes()


LAYOUTS = [
    *(package, script, wrapper_itself, archive, module_in_archive, module),
    *(compiled_without_source, compiled_and_unchecked, executed, library),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_when_a_file_that_it_was_loaded_from_is_replaced_the_very_next_request_has_the_new_one(
    node: PreforkHost, layout: Callable[[PreforkHost, int], None]
) -> None:
    layout(node, 1)
    path = node.host.bin / "noop"
    if "MODULE" in path.read_text():
        put(path, path.read_text().replace("MODULE", "mine.part"))
    node.wait_for_server()
    assert node.run().metadata == {"version": "1"}
    for version in (2, 3):
        layout(node, version)
        found = node.run()
        assert found.metadata == {"version": str(version)}
        assert found.extra["id"]["parent"] == os.getpid()
        node.wait_for_server()
        assert node.run().metadata == {"version": str(version)}


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(node: PreforkHost) -> None:
    """Its first server has the old one loaded when the new one comes, and only then says what it has loaded."""
    node.host.folder("lib")
    loaded, go = node.host.root / "loaded", node.host.root / "go"
    module(node, 1)
    path = node.host.bin / "noop"
    wait = (
        f"if 'prefork' in sys.argv:\n    open({str(loaded)!r}, 'w').close()\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.01)\nCOUNT = 0"
    )
    put(path, path.read_text().replace("MODULE", "mine.part").replace("COUNT = 0", wait))
    time.sleep(2 * watched_files.GRAIN / 1e9)  # the first version is not that young
    node.run()
    assert wait_until(loaded.exists, SOON)
    module(node, 2)
    go.touch()
    node.wait_for_server()
    assert {node.run().metadata["version"] for _ in range(5)} == {"2"}


def test_a_clock_that_was_set_back_keeps_no_plugin_from_being_ready(
    node: PreforkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3_600_000_000_000)
    module(node, 1)
    put(node.host.bin / "noop", (node.host.bin / "noop").read_text().replace("MODULE", "mine.part"))
    node.wait_for_server()
    module(node, 2)
    assert node.run().metadata == {"version": "2"}
    node.wait_for_server()
    assert node.run().metadata == {"version": "2"}


def test_a_clock_that_is_set_back_while_a_plugin_is_loaded_hides_no_change(
    node: PreforkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(node, 1)
    files = {
        str(node.host.root / "lib/mine/part.py"): watched_files.identity(str(node.host.root / "lib/mine/part.py"))
    }
    time.sleep(2 * watched_files.GRAIN / 1e9)
    look = watched_files.Look(None)
    assert look.changed(files) == ""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3_600_000_000_000)
    assert look.changed(files).startswith("the clock was set while it was loaded")


def test_a_file_from_the_future_is_not_trusted_and_the_reason_says_so() -> None:
    """The clock may have been set back before the plugin was started: such a time does not show a change."""
    look = watched_files.Look(None)
    future = {"/a": (1, 2, 3, time.time_ns() + 3_600_000_000_000)}
    assert look.changed(future) == "a file has a time of change in the future: /a"


def test_files_that_never_come_to_rest_are_said_once_and_tried_ever_more_rarely(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    starts = module_with_counted_starts(node)
    over = threading.Event()

    def touch() -> None:
        while not over.wait(0.005):
            os.utime(node.host.root / "lib/mine/part.py")

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        until = time.monotonic() + 3 * pool.RETRY
        while time.monotonic() < until:
            assert node.run().metadata == {"version": "1"}
        assert wait_until(is_pool_idle, SOON)
        count = len(starts.read_text())
    finally:
        over.set()
        thread.join()
    (line,) = reasons(caplog)
    assert line.startswith("noop is started for each request: a file changes while it is loaded: ")
    assert line.endswith("/mine/part.py")
    assert count <= 3 * watched_files.AT_ONCE  # at the beginning, after one RETRY, and after two more
    node.wait_for_server()  # when they are at rest


def test_one_that_changes_its_own_files_is_said_once_and_tried_ever_more_rarely(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    starts = module_with_counted_starts(node)
    mine = str(node.host.root / "lib/mine/part.py")
    until = time.monotonic() + 2 * pool.RETRY
    while time.monotonic() < until:
        os.utime(mine)
        node.run()
        assert wait_until(is_pool_idle, SOON)
    (line,) = reasons(caplog)
    assert line == f"noop is started for each request: its files change again and again: {mine}"
    assert len(starts.read_text()) <= 4 * watched_files.AT_ONCE


def test_one_that_has_failed_for_a_year_is_still_tried() -> None:
    known = pool._Known("noop", {"file": (0, 0, 0, 0)}, attempts=100_000).failed()
    assert pool.RETRY_AT_MOST - 1 < known.retry_at - time.monotonic() <= pool.RETRY_AT_MOST
