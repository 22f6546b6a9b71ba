"""The faults of an invalid configuration are found in the background, and each is logged once."""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import SOON, wait_until
from tests.unit.v1bridge.configured import BROKEN, Node, diagnostics, logged, text

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("error", [ImportError("gone"), SystemExit("moved or deleted"), RecursionError()])
def test_what_cannot_be_explained_is_said_all_the_same(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(diagnostics, "diagnose", fail)
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    (node.directory / "10.conf").write_text(BROKEN)
    assert node.plugins == ["a"]
    lines = logged(caplog, logging.ERROR)
    assert f"{node.directory}/10.conf:1:1: (document): is not a valid configuration; `nri check` says" in lines[0]
    assert lines[1].endswith(f"it cannot be explained: {type(error).__name__}: {error}")


Slow = tuple[list[bytes], threading.Event]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Explaining takes until the event is set; the list has the documents that were begun."""
    begun: list[bytes] = []
    end = threading.Event()
    real = diagnostics.diagnose

    def diagnose(file: str, document: bytes, limit: int) -> Any:
        begun.append(document)
        assert end.wait(SOON)
        return real(file, document, limit)

    monkeypatch.setattr(diagnostics, "diagnose", diagnose)
    yield begun, end
    end.set()


def test_no_event_waits_for_an_explanation_and_the_newest_is_explained_next(
    node: Node, caplog: pytest.LogCaptureFixture, slow: Slow
) -> None:
    begun, end = slow
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    read = node.configuration.current
    for number in range(10):
        (node.directory / "10.conf").write_text(BROKEN + " " * number)
        assert [plugin.type for plugin in read().plugins] == ["a"]
        node.configuration.explain()
        assert wait_until(lambda: len(begun) == 1)
        assert len([each for each in threading.enumerate() if each.name == "explain"]) == 1
    assert logged(caplog, logging.ERROR) == []
    end.set()
    assert node.configuration.is_explained(SOON)
    assert [len(document) for document in begun] == [len(BROKEN), len(BROKEN) + 9]
    assert len(logged(caplog, logging.ERROR)) == 2


def test_threads_take_turns_as_before_when_a_configuration_has_been_explained(node: Node, slow: Slow) -> None:
    begun, end = slow
    before = sys.getswitchinterval()
    node.put("10.conf", "a")
    (node.directory / "10.conf").write_text(BROKEN)
    node.configuration.current()
    node.configuration.explain()
    assert wait_until(lambda: len(begun) == 1)
    assert sys.getswitchinterval() < before
    end.set()
    assert node.configuration.is_explained(SOON)
    assert wait_until(lambda: sys.getswitchinterval() == before)


def test_nothing_more_is_said_of_faults_that_were_mended_meanwhile(
    node: Node, caplog: pytest.LogCaptureFixture, slow: Slow
) -> None:
    begun, end = slow
    (node.directory / "10.conf").write_text(BROKEN)
    node.configuration.current()
    node.configuration.explain()
    assert wait_until(lambda: begun)
    node.put("10.conf", "a")
    node.configuration.current()
    end.set()
    assert node.plugins == ["a"]
    assert logged(caplog) == ["configuration: a"]


def test_where_no_thread_can_be_had_the_file_at_fault_is_named(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: object) -> None:
        raise RuntimeError("can't start new thread")

    (node.directory / "10.conf").write_text(BROKEN)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        assert node.plugins == []
    (line,) = logged(caplog)
    assert f"{node.directory}/10.conf:1:1: (document): is not a valid configuration" in line


HUGE = {
    "2,000 entries": text(*["a"] * 2_000, tpye=1),
    "2,000 entries, the last is wrong": text(*["a"] * 2_000)[:-2] + ', {"type": 1}]}',
    "8,000 keys that are given twice": '{"version": "0.1", "plugins": [], ' + ", ".join(['"x-a": 1'] * 8_000) + "}",
    "8,000 unknown keys": '{"version": "0.1", ' + ", ".join([f'"{number}": 1' for number in range(8_000)]) + "}",
    "100,000 levels": "[" * 100_000,
    "deep states": '{"version": "0.1", "plugins": [{"type": "a", "states": [' + "[" * 200 + "]" * 200 + "]}]}",
    "240,000 states": text("a", states=[[], {}] * 12_000),
    "one string": json.dumps({"version": "0.1", "plugins": "a" * 1_000_000}),
    "one key": json.dumps({"version": "0.1", "plugins": [], "a" * 1_000_000: 1}),
    "one type": text("a" * 1_000_000),
}


@pytest.mark.parametrize("content", HUGE.values(), ids=HUGE)
def test_a_huge_file_is_explained_with_a_hundred_lines_at_most(
    node: Node, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    (node.directory / "20.conf").write_text(content)
    assert node.plugins == ["a"]
    lines = logged(caplog)
    assert 1 <= len(lines) <= 101
    assert all(f"{node.directory}/20.conf:" in line for line in lines)
    assert all(len(line) < 1000 for line in lines)
    if len(lines) == 101:
        assert lines[-1].endswith("there are more faults; 100 are listed")


def test_nothing_of_a_huge_file_stays_in_memory(node: Node) -> None:
    (node.directory / "10.conf").write_text(HUGE["2,000 entries"])
    gc.disable()
    try:
        assert node.plugins == []
        assert [each for each in gc.get_objects() if type(each).__module__ == "nri.config.source_positions"] == []
    finally:
        gc.enable()


def test_a_hundred_files_with_faults_have_a_hundred_lines_too(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(150):
        (node.directory / f"{number:03}.conf").write_text(BROKEN)
    assert node.plugins == []
    assert len(logged(caplog)) == 101
