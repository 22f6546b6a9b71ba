"""The file for node_exporter: whole, readable by others, and as it was when it cannot be replaced."""

import os
import stat
from pathlib import Path

import pytest

from nri.metrics import textfile


def test_the_file_is_readable_by_others_and_alone(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        textfile.replace(str(tmp_path), b"a 1\n")
    finally:
        os.umask(before)

    assert [path.name for path in tmp_path.iterdir()] == ["nri.prom"]
    assert stat.S_IMODE((tmp_path / "nri.prom").stat().st_mode) == 0o644


def test_what_a_killed_process_has_left_is_removed_and_never_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    (tmp_path / ".nri.prom.part").symlink_to(victim)

    textfile.replace(str(tmp_path), b"a 1\n")
    with (tmp_path / "nri.prom").open("rb") as reader:
        textfile.replace(str(tmp_path), b"b 2\n")
        assert reader.read() == b"a 1\n"  # a reader of the file before has it whole

    assert (tmp_path / "nri.prom").read_bytes() == b"b 2\n"
    assert victim.read_bytes() == b"kept"
    assert not (tmp_path / "nri.prom").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"nri.prom", "victim"}


def test_a_disk_without_room_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    textfile.replace(str(tmp_path), b"a 1\n")

    def write(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nri.small_file.os.write", write)
    with pytest.raises(
        textfile.TextfileError, match=r"nri\.prom cannot be written: No space left on device; expected"
    ):
        textfile.replace(str(tmp_path), b"b 2\n")

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("nri.prom", b"a 1\n")]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(textfile.TextfileError, match=r"/none/nri\.prom cannot be written: No such file or directory"):
        textfile.replace(str(tmp_path / "none"), b"a 1\n")
