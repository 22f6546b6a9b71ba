"""The host configuration as its files change: each event gets one whole configuration, the old or the new."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.v1bridge.configured import Configured, loading, text


def test_change_takes_effect_at_the_next_event_and_is_logged(node: Configured) -> None:
    assert [node.plugins, node.plugins] == [[], []]
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("05.conf", "c", "c2")
    assert node.plugins == ["c", "c2", "a"]
    (node.directory / "05.conf").rename(node.directory / "30.conf")
    assert node.plugins == ["a", "c", "c2"]
    assert [line.removeprefix("configuration: ") for line in node.logged()] == [
        "no plugins",
        "a",
        "c, c2, a",
        "a, c, c2",
    ]


def test_edit_that_changes_no_entry_is_no_new_configuration(node: Configured) -> None:
    node.start("a")
    before = node.configuration.describe()["hash"]
    node.spoil("10.conf", text("a") + "\n")
    assert node.plugins == ["a"]
    assert node.logged() == []
    assert node.configuration.describe()["hash"] == before


def test_any_part_of_a_chain_of_links_may_change(node: Configured) -> None:
    for name in ("one", "two"):
        (node.root / name).mkdir()
        (node.root / name / "10.conf").write_text(text(name))
    (node.root / "current").symlink_to("one")
    (node.directory / "10.conf").symlink_to("../current/10.conf")
    assert node.plugins == ["one"]
    (node.root / "new").symlink_to("two")
    (node.root / "new").rename(node.root / "current")
    assert node.plugins == ["two"]
    (node.root / "two/10.conf").write_text(text("changed"))
    assert node.plugins == ["changed"]


@pytest.mark.parametrize("is_middle", [False, True])
def test_untrusted_directory_in_a_chain_of_links_is_noticed(
    node: Configured, is_middle: bool
) -> None:
    """Its link may be given to anybody: nothing of the file itself changes with that."""
    (node.root / "user").mkdir()
    (node.root / "end").mkdir()
    (node.root / "end/10.conf").write_text(text("a"))
    if is_middle:
        node.directory.rmdir()
        (node.root / "user/cur").symlink_to("../end")
        node.directory.symlink_to("user/cur")
    else:
        (node.root / "user/cur").symlink_to("../end/10.conf")
        (node.directory / "10.conf").symlink_to("../user/cur")
    (node.root / "user").chmod(0o757)
    assert [node.plugins, node.plugins] == [[], []]
    (node.root / "user").chmod(0o755)
    assert node.plugins == ["a"]
    node.logged()
    (node.root / "user").chmod(0o757)  # alone: no file changes with it
    assert node.plugins == ["a"]
    (line,) = node.faults()
    assert f"{node.root}/user:1:1: (document): is writable by others (mode 0757" in line
    (node.root / "end/10.conf").write_text(text("b"))
    assert node.plugins == ["a"]
    (node.root / "user").chmod(0o755)
    assert node.plugins == ["b"]


# Files that change while they are read


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let something happen before the file of that name is read, the first *times* times."""
    real = loading.read

    def arrange(name: str, happen: Callable[[], object], times: int = 1) -> None:
        left = [times]

        def read(path: str, **options: Any) -> Any:
            if path.endswith(name) and left[0]:
                left[0] -= 1
                happen()
            return real(path, **options)

        monkeypatch.setattr(loading, "read", read)

    return arrange


def test_file_renamed_during_reading_is_not_lost(
    node: Configured, meanwhile: Callable[..., None]
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    meanwhile("10.conf", lambda: (node.directory / "10.conf").rename(node.directory / "20.conf"))
    assert node.plugins == ["a"]


def test_fault_fixed_during_reading_is_not_logged(
    node: Configured, meanwhile: Callable[..., None]
) -> None:
    node.spoil()
    node.put("20.conf", "b")
    meanwhile("20.conf", lambda: node.put("10.conf", "a"))
    assert node.plugins == ["a", "b"]
    assert node.logged() == ["configuration: a, b"]


def test_files_that_always_change_are_used_as_read_last(
    node: Configured, meanwhile: Callable[..., None], reads: list[Any]
) -> None:
    numbers = iter(range(1000))
    node.put("10.conf", "a")
    meanwhile("10.conf", lambda: node.put("20.conf", f"b{next(numbers)}"), times=loading.ATTEMPTS)
    last = ["a", f"b{loading.ATTEMPTS - 1}"]
    assert node.plugins == last
    assert len(reads) == loading.ATTEMPTS
    assert [node.plugins, node.plugins] == [last, last]
    assert len(reads) == loading.ATTEMPTS + 2
