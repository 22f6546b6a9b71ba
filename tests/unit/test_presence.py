"""The state of the node's bridge: what a probe says about each file, and what it imports for that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from nri import presence
from nri.process.wait import stat_fields

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/nri/v1bridge.state"


def content(**changes: Any) -> str:
    pid = os.getpid()
    value = {"pid": pid, "started": int(stat_fields(pid)[19]), "state": "connected", "since": "2026-11-20T17:53:12Z"}
    return json.dumps({**value, "runtime": "containerd", "version": "v2.1.9", **changes})


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_connected_bridge_is_connected(path: Path) -> None:
    presence.write(str(path), presence.CONNECTED, runtime="containerd", version="v2.1.9")
    is_connected, line = presence.judge(str(path))
    assert is_connected
    assert line.startswith("connected to containerd v2.1.9 since 20")
    assert line.endswith(f"Z: pid {os.getpid()}")
    assert path.stat().st_mode & 0o7777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_one_that_looks_for_its_runtime_is_not(path: Path) -> None:
    presence.write(str(path), presence.CONNECTED, runtime="containerd", version="v2.1.9")
    presence.write(str(path), presence.CONNECTING)
    is_connected, line = presence.judge(str(path))
    assert not is_connected
    assert line.startswith("not connected: the bridge looks for its runtime since 20")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"started": 1}, f"the bridge with pid {os.getpid()} has ended"),
        ({"pid": 2**30}, f"the bridge with pid {2**30} has ended"),
        ({"pid": "1"}, "the bridge with pid 1 has ended"),
        ({"pid": None}, "the bridge with pid None has ended"),
        ({"state": "x"}, f"the bridge looks for its runtime since 2026-11-20T17:53:12Z: pid {os.getpid()}"),
    ],
    ids=range(5),
)
def test_what_a_bridge_has_left_is_not_believed(path: Path, changes: dict[str, Any], why: str) -> None:
    put(path, content(**changes))
    assert presence.judge(str(path)) == (False, f"not connected: {why}")


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "[" * 100_000])
def test_what_is_no_state_is_not_believed(path: Path, text: str) -> None:
    put(path, text)
    is_connected, line = presence.judge(str(path))
    assert not is_connected
    assert line.startswith(f"not connected: {path} cannot be used: it is not ")


@pytest.mark.parametrize("what", ["writable", "link", "directory", "FIFO"])
def test_what_others_can_write_or_is_no_file_is_not_believed(path: Path, tmp_path: Path, what: str) -> None:
    put(path, content())
    if what == "writable":
        path.chmod(0o666)
    else:
        path.rename(tmp_path / "target")
        if what == "link":
            path.symlink_to(tmp_path / "target")
        elif what == "directory":
            path.mkdir()
        else:
            os.mkfifo(path)
    is_connected, line = presence.judge(str(path))
    assert not is_connected
    assert line.startswith(f"not connected: {path} cannot be used: ")


def test_a_bridge_removes_its_own_state_only(path: Path) -> None:
    put(path, content(pid=1))
    presence.remove(str(path))
    assert path.exists()
    presence.write(str(path), presence.CONNECTING)
    presence.remove(str(path))
    assert not path.exists()
    presence.remove(str(path))


def test_what_cannot_be_written_is_an_error_that_leaves_nothing(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(OSError, match="Is a directory"):
        presence.write(str(path), presence.CONNECTED)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_probe_prints_one_line_and_its_status_says_it(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"recordFile": str(path.with_suffix(".record")), "logLevel": "info"}))
    assert presence.probe(str(options)) == 1
    presence.write(str(path), presence.CONNECTED, runtime="cri-o\n", version="1.34")
    assert presence.probe(str(options)) == 0
    put(options, '{"recordFile": 1}')
    assert presence.probe(str(options)) == 1
    assert presence.probe(str(tmp_path / "none.json")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"not connected: no bridge runs here: {path} does not exist"
    assert lines[1].startswith("connected to cri-o\\n 1.34 since ")
    assert lines[2] == f"not connected: {options} cannot be used: recordFile is 1, expected an absolute path"
    assert "No such file or directory" in lines[3]


@pytest.mark.parametrize("module", ["nri.cli.entry", "nri.cli.bridge_entry"])
def test_a_probe_imports_neither_click_nor_the_bridge(module: str) -> None:
    words = ["bridge", "--probe"] if module == "nri.cli.entry" else ["--probe"]
    code = (
        f"import sys; sys.argv[1:] = {words!r}\nfrom {module} import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*[name for name in ('click', 'logging', 'google.protobuf', 'nri.v1bridge') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [""]
