"""Files that a plugin is loaded from: when one is replaced, the very next request has the new one."""

from __future__ import annotations

import importlib.util
import io
import os
import py_compile
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.prefork.pool import pool, watched_files
from tests.integration.prefork.preforked import reasons
from tests.support.waiting import wait_until

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


def importing(node: PreforkHost, place: str) -> None:
    """Install a plugin that answers with the version of a module in ``place``, if it is not installed."""
    path = node.host.bin / "noop"
    if not path.exists():
        lines = f"sys.dont_write_bytecode = True; sys.path.insert(0, '{node.host.root}/{place}')"
        put(path, node.text().replace("VERSION = 1", f"{lines}\nfrom mine.part import VERSION"))


def module(node: PreforkHost, version: int) -> None:
    put(node.host.root / "lib/mine/part.py", f"VERSION = {version}")
    importing(node, "lib")


def module_in_archive(node: PreforkHost, version: int) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("mine/__init__.py", "")
        file.writestr("mine/part.py", f"VERSION = {version}")
    put(node.host.root / "lib/mine.zip", data.getvalue())
    importing(node, "lib/mine.zip")


def compiled_and_unchecked(node: PreforkHost, version: int) -> None:
    """Of a module whose compiled file is used without a look at its source, only that file is replaced."""
    place, source, part = (node.host.root / f"lib/{name}" for name in ("mine/part.py", "part.py", "part.pyc"))
    if not place.exists():
        put(place, "VERSION = 'of the source'")
    put(source, f"VERSION = {version}")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(part), doraise=True, invalidation_mode=mode)
    put(Path(importlib.util.cache_from_source(str(place))), part.read_bytes())
    importing(node, "lib")


def executed(node: PreforkHost, version: int) -> None:
    """No module has the name of the file, only its code."""
    path, mine = node.host.bin / "noop", node.host.root / "lib/mine.py"
    put(mine, node.text(VERSION=str(version)))
    if not path.exists():
        code = f"file = {str(mine)!r}\nexec(compile(open(file).read(), file, 'exec'))"
        put(path, f"#!{sys.executable}\n# a plugin of nri.skel\n{code}\n")


def libffi_keeps_a_file_open() -> bool:
    code = "import ctypes, os; print([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')[:-1]])"
    return "libffi" in subprocess.check_output([sys.executable, "-c", code], text=True)


def library(node: PreforkHost, version: int) -> None:
    """A library is code that nothing in Python knows of, so the version is said by a file that is read each time."""
    if libffi_keeps_a_file_open():
        pytest.skip("needs a libffi that keeps no file open: a plugin with one is started for each request")
    path, mine, told = (node.host.root / name for name in ("bin/noop", "lib/libmine.so", "version"))
    maps = Path("/proc/self/maps").read_text().splitlines()
    put(mine, Path(next(line.split()[-1] for line in maps if "/libm" in line)).read_bytes())
    told.write_text(str(version))
    if not path.exists():
        text = node.text().replace("COUNT = 0", f"COUNT = 0; import ctypes; LIB = ctypes.CDLL({str(mine)!r})")
        put(path, text.replace("str(VERSION)", f"open({str(told)!r}).read()"))


LAYOUTS = [module, module_in_archive, compiled_and_unchecked, executed, library]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_when_a_file_that_it_was_loaded_from_is_replaced_the_very_next_request_has_the_new_one(
    node: PreforkHost, layout: Callable[[PreforkHost, int], None]
) -> None:
    layout(node, 1)
    node.wait_for_server()
    assert node.run().metadata == {"version": "1"}
    layout(node, 2)
    assert node.run().metadata == {"version": "2"}
    node.wait_for_server()
    assert node.run().metadata == {"version": "2"}


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
    put(path, path.read_text().replace("COUNT = 0", wait))
    time.sleep(2 * watched_files.GRAIN / 1e9)  # the first version is not that young
    node.run()
    assert wait_until(loaded.exists)
    module(node, 2)
    go.touch()
    node.wait_for_server()
    assert {node.run().metadata["version"] for _ in range(5)} == {"2"}


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


def test_one_that_changes_its_own_files_is_said_once_and_tried_ever_more_rarely(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    module(node, 1)
    path, starts = node.host.bin / "noop", node.host.root / "starts"
    note = f"COUNT = 0\nif 'prefork' in sys.argv: open({str(starts)!r}, 'a').write('x')"
    put(path, path.read_text().replace("COUNT = 0", note))
    mine = str(node.host.root / "lib/mine/part.py")
    for _ in range(2 * watched_files.AT_ONCE):
        os.utime(mine)
        node.wait_until_settled()
    (line,) = reasons(caplog)
    assert line == f"noop is started for each request: its files change again and again: {mine}"
    assert len(starts.read_text()) <= 4 * watched_files.AT_ONCE


def test_one_that_has_failed_for_a_year_is_still_tried() -> None:
    known = pool._Known("noop", {"file": (0, 0, 0, 0)}, attempts=100_000).failed()
    assert pool.RETRY_AT_MOST - 1 < known.retry_at - time.monotonic() <= pool.RETRY_AT_MOST
