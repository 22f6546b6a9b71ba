"""Plugins and their drop-in files, as directories have them."""

from pathlib import Path

import pytest

from nri.adaptation import AdaptationError
from nri.adaptation.launched import configuration, discover


def test_executables_are_found_by_index_and_other_files_are_no_plugins(tmp_path: Path) -> None:
    for name, mode in (("20-b", 0o755), ("10-a", 0o700), ("README", 0o644)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    (tmp_path / "30-folder").mkdir()
    assert discover(str(tmp_path)) == [
        ("10", "a", f"{tmp_path}/10-a"),
        ("20", "b", f"{tmp_path}/20-b"),
    ]
    assert discover(f"{tmp_path}/gone") == discover(None) == []


def test_executable_with_another_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "logger").touch(0o755)
    with pytest.raises(
        AdaptationError, match=r"^found 'logger', expected a plugin's name such as 10-logger$"
    ):
        discover(str(tmp_path))


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("")
    with pytest.raises(AdaptationError, match=r"/plugins can't be read: Not a directory"):
        discover(f"{tmp_path}/plugins")


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"a\xff", "is not UTF-8 at byte 1"), (None, "can't be read: Is a directory")],
)
def test_a_drop_in_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "10-a.conf"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(AdaptationError) as caught:
        configuration(str(tmp_path), "10", "a")
    assert str(caught.value) == f"{file} {why}"
