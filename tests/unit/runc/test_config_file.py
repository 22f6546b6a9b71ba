"""The config.json of a bundle is replaced in one step, or not at all."""

import json
import os
from pathlib import Path

import pytest

from nri.errors import NRIError
from nri.runc.commands import ConfigFile

OLD = '{"ociVersion": "1.0.2",  "process": {}}'
KEPT = "/proc/nonexistent/kept"  # nothing can be kept
NEW = {"ociVersion": "1.0.2", "process": {"env": ["A=\u00e9"]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    file = tmp_path / "config.json"
    file.write_text(OLD)
    file.chmod(0o640)
    return file


def test_a_new_file_takes_the_place_with_owner_and_mode(path: Path) -> None:
    before = path.stat()
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
        before = path.stat()
    file = ConfigFile(str(path), KEPT)
    file.write(NEW)
    after = path.stat()
    assert json.loads(path.read_text()) == NEW
    assert file.config == NEW
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert after.st_ino != before.st_ino
    file.write({"more": 1})
    file.put_back()
    assert path.read_text() == OLD
    assert os.listdir(path.parent) == ["config.json"]


def test_the_same_configuration_is_not_written(path: Path) -> None:
    before = path.stat()
    file = ConfigFile(str(path), KEPT)
    file.write(json.loads(OLD))
    file.put_back()
    assert (path.read_text(), path.stat().st_ino) == (OLD, before.st_ino)


def test_a_file_that_another_program_has_changed_is_not_written(path: Path) -> None:
    file = ConfigFile(str(path), KEPT)
    changed = OLD.replace("1.0.2", "1.0.1")
    path.write_text(changed)
    with pytest.raises(
        NRIError, match="another program has changed it meanwhile, expected the file as it was"
    ):
        file.write(NEW)
    assert path.read_text() == changed
    assert os.listdir(path.parent) == ["config.json"]


def test_a_file_that_another_program_has_changed_is_not_put_back(path: Path) -> None:
    file = ConfigFile(str(path), KEPT)
    file.write(NEW)
    path.write_text("{}")
    with pytest.raises(NRIError, match="another program"):
        file.put_back()
    assert path.read_text() == "{}"


def test_target_of_a_link_is_replaced_if_the_link_is_trusted(path: Path, tmp_path: Path) -> None:
    safe = tmp_path / "bundle.json"
    safe.symlink_to("config.json")
    ConfigFile(str(safe), KEPT).write(NEW)
    assert safe.is_symlink()
    assert json.loads(path.read_text()) == NEW


def test_target_of_a_link_that_is_not_trusted_is_left_alone(path: Path, tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link = open_to_all / "config.json"
    link.symlink_to(path)
    with pytest.raises(NRIError, match=r"is a link and not replaced: .*open is writable by others"):
        ConfigFile(str(link), KEPT).write(NEW)
    assert path.read_text() == OLD


def test_a_wrong_or_unreadable_configuration_is_named(path: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    path.write_text("[]")
    for name, wrong in (
        ("config.json", "config.json: the document: found an array, expected an object"),
        ("missing", "missing: cannot be read: No such file"),
        ("fifo", "cannot be read: found a FIFO, expected a regular file"),
        ("\0", "cannot be read: .*embedded null"),
    ):
        with pytest.raises(NRIError, match=wrong):
            ConfigFile(str(tmp_path / name), KEPT)


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ConfigFile(str(path), KEPT)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchown", full)
    with pytest.raises(NRIError, match=r"config.json: cannot be replaced: No space left on device"):
        file.write(NEW)
    assert path.read_text() == OLD
    assert os.listdir(path.parent) == ["config.json"]


def test_what_a_killed_call_has_written_is_not_what_the_next_one_reads(path: Path) -> None:
    kept = path.parent / "record/kept"
    for number in range(3):
        file = ConfigFile(str(path), str(kept))
        assert file.config == json.loads(OLD)
        file.write(NEW | {"number": number})  # and is killed
        assert kept.exists()
    file = ConfigFile(str(path), str(kept))
    file.write(NEW)
    file.put_back()
    assert (path.read_text(), kept.exists()) == (OLD, False)


def test_what_another_program_has_written_since_counts(path: Path) -> None:
    kept = path.parent / "record/kept"
    ConfigFile(str(path), str(kept)).write(NEW)
    path.write_text('{"of": "another"}')
    assert ConfigFile(str(path), str(kept)).config == {"of": "another"}
    assert not kept.exists()
