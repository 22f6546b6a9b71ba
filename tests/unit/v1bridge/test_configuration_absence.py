"""Missing configuration files, which stay in use for a second."""

from __future__ import annotations

import pytest

from tests.unit.v1bridge.configured import BROKEN, Node, logged, text


def test_files_that_are_gone_count_for_a_second_more_and_both_is_said_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.put("10.conf", "a", "b")
    assert node.plugins == ["a", "b"]
    caplog.clear()
    path = node.directory / "10.conf"
    path.unlink()
    assert [node.plugins, node.plugins] == [["a", "b"], ["a", "b"]]
    node.now += 0.9
    assert node.plugins == ["a", "b"]
    (line,) = logged(caplog)
    assert line == f"missing: {path}; still using the last valid configuration (a, b) for 1 s"
    node.now += 0.1
    assert [node.plugins, node.plugins] == [[], []]
    assert logged(caplog)[1:] == [f"configuration: no plugins; gone: {path}"]


def test_a_file_that_is_moved_away_and_written_anew_leaves_no_event_without_plugins(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.put("10.conf", "a")
    node.file.write_text(text("fallback"))
    assert node.plugins == ["a"]
    caplog.clear()
    for number in range(3):
        (node.directory / "10.conf").rename(node.directory / "10.conf.bak")
        assert node.plugins == ["a"] if number == 0 else [f"b{number - 1}"]
        with open(node.directory / "10.conf", "w", encoding="utf-8") as file:
            assert node.plugins[0] != "fallback"
            file.write(text(f"b{number}"))
        assert node.plugins == [f"b{number}"]
        node.now += 10
        assert node.plugins == [f"b{number}"]
    assert "no plugins" not in str(logged(caplog))
    assert "fallback" not in str(logged(caplog))


def test_a_directory_that_is_moved_aside_counts_until_the_new_one_is_there(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.put("10.conf", "a")
    node.file.write_text(text("fallback"))
    assert node.plugins == ["a"]
    node.directory.rename(node.root / "old.d")
    assert node.plugins == ["a"]
    node.directory.mkdir()
    assert node.plugins == ["a"]
    node.put("20.conf", "b")
    assert node.plugins == ["b"]
    assert logged(caplog)[-1] == f"configuration: b; gone: {node.directory}/10.conf"


def test_a_file_that_comes_back_as_it_was_is_said_and_has_a_second_of_its_own_the_next_time(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    for _ in range(2):
        caplog.clear()
        (node.directory / "10.conf").rename(node.root / "aside")
        assert node.plugins == ["a"]
        node.now += 0.9
        (node.root / "aside").rename(node.directory / "10.conf")
        assert node.plugins == ["a"]
        assert [line.partition(":")[0] for line in logged(caplog)] == ["missing", "configuration"]


def test_one_of_several_files_has_the_same_second_and_each_its_own(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abc":
        node.put(f"{name}.conf", name)
    assert node.plugins == ["a", "b", "c"]
    (node.directory / "a.conf").unlink()
    assert node.plugins == ["a", "b", "c"]
    node.now += 0.6
    (node.directory / "c.conf").unlink()
    assert node.plugins == ["a", "b", "c"]
    node.now += 0.5
    assert node.plugins == ["b", "c"]
    node.now += 0.5
    assert node.plugins == ["b"]
    assert [line.partition(";")[0].replace(f"{node.directory}/", "") for line in logged(caplog)] == [
        "configuration: a, b, c",
        "missing: a.conf",
        "missing: c.conf",
        "configuration: b, c",
        "configuration: b",
    ]


@pytest.mark.parametrize("change", ["a new file", "a file that has changed", "a new file without plugins"])
def test_with_anything_else_that_is_new_the_new_configuration_counts_at_once(node: Node, change: str) -> None:
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").unlink()
    match change:
        case "a new file":
            node.put("30.conf", "c")
            assert node.plugins == ["b", "c"]
        case "a file that has changed":
            node.put("20.conf", "c")
            assert node.plugins == ["c"]
        case "a new file without plugins":
            node.put("30.conf")
            assert node.plugins == ["b"]


def test_no_plugins_in_a_file_that_is_there_counts_at_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("10.conf")
    assert node.plugins == []
    (node.directory / "10.conf").unlink()
    node.file.write_text(text("fallback"))
    assert node.plugins == []
    node.wait()
    assert node.plugins == ["fallback"]
    assert logged(caplog) == ["configuration: a", "configuration: no plugins", "configuration: fallback"]


def test_a_file_that_is_gone_while_another_is_not_valid_counts_until_that_is_mended(node: Node) -> None:
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").unlink()
    (node.directory / "20.conf").write_text(BROKEN)
    for _ in range(3):
        node.wait()
        assert node.plugins == ["a", "b"]
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    node.wait()
    assert node.plugins == ["b"]


def test_a_file_that_was_missed_before_another_became_invalid_has_a_second_when_that_is_mended(node: Node) -> None:
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").unlink()
    assert node.plugins == ["a", "b"]
    (node.directory / "20.conf").write_text(BROKEN)
    node.wait()
    assert node.plugins == ["a", "b"]
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    node.wait()
    assert node.plugins == ["b"]


def test_the_file_that_stands_in_has_its_second_too(node: Node) -> None:
    node.file.write_text(text("a"))
    assert node.plugins == ["a"]
    node.file.unlink()
    assert node.plugins == ["a"]
    node.put("10.conf", "b")
    assert node.plugins == ["b"]
