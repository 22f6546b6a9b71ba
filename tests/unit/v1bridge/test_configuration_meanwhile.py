"""Files that change while they are read: every event gets one whole configuration."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from nri.v1bridge import configuration as module
from tests.unit.v1bridge.configured import BROKEN, Node, loading, logged, text

if TYPE_CHECKING:
    from collections.abc import Callable


class Meanwhile(Protocol):
    """Let something happen before the file of that name is read, the first *times* times."""

    def __call__(self, name: str, happen: Callable[[], object], times: int = 1) -> None: ...


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Return what makes something happen while the files are read."""
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


def test_a_directory_that_is_exchanged_while_it_is_read_gives_no_mixture(node: Node, meanwhile: Meanwhile) -> None:
    for name in ("old", "new"):
        (node.root / name).mkdir()
        for file in ("10", "20"):
            (node.root / name / f"{file}.conf").write_text(text(f"{name}{file}"))
    node.directory.rmdir()
    node.directory.symlink_to("old")

    def exchange() -> None:
        (node.root / "link").symlink_to("new")
        (node.root / "link").rename(node.directory)

    meanwhile("20.conf", exchange)
    assert node.plugins == ["new10", "new20"]


def test_a_file_that_gets_another_name_while_it_is_read_is_not_lost(node: Node, meanwhile: Meanwhile) -> None:
    node.put("10.conf", "a")
    meanwhile("10.conf", lambda: (node.directory / "10.conf").rename(node.directory / "20.conf"))
    assert node.plugins == ["a"]


def test_files_that_change_one_after_the_other_are_read_as_they_are_in_the_end(
    node: Node, meanwhile: Meanwhile
) -> None:
    node.put("10.conf", "a1")
    node.put("20.conf", "b1")

    def change() -> None:
        node.put("10.conf", "a2")
        node.put("20.conf", "b2")

    meanwhile("20.conf", change)
    assert node.plugins == ["a2", "b2"]


def test_a_fault_that_is_mended_while_the_files_are_read_is_not_said(
    node: Node, meanwhile: Meanwhile, caplog: pytest.LogCaptureFixture
) -> None:
    (node.directory / "10.conf").write_text(BROKEN)
    node.put("20.conf", "b")
    meanwhile("20.conf", lambda: node.put("10.conf", "a"))
    assert node.plugins == ["a", "b"]
    assert logged(caplog) == ["configuration: a, b"]


def test_files_that_never_rest_are_taken_as_they_were_read_last(
    node: Node, meanwhile: Meanwhile, reads: list[Any], old: None
) -> None:
    numbers = iter(range(1000))
    node.put("10.conf", "a")
    meanwhile("10.conf", lambda: node.put("20.conf", f"b{next(numbers)}"), times=module.ATTEMPTS)
    last = ["a", f"b{module.ATTEMPTS - 1}"]
    assert node.plugins == last
    assert len(reads) == module.ATTEMPTS
    assert [node.plugins, node.plugins] == [last, last]
    assert len(reads) == module.ATTEMPTS + 1


def test_of_a_thousand_changes_every_answer_is_one_whole_configuration(node: Node) -> None:
    """Each version has as many plugins as it has a number, all with that number, in a file that is replaced."""
    done = threading.Event()
    node.put("10.conf", "v1-0")

    def edit() -> None:
        try:
            for version in range(1000):
                number = version % 7 + 1
                node.put("10.conf", *[f"v{number}-{each}" for each in range(number)])
        finally:
            done.set()

    thread = threading.Thread(target=edit)
    thread.start()
    answers = 0
    while not done.is_set():
        found = node.plugins
        number = len(found)
        assert found == [f"v{number}-{each}" for each in range(number)]
        assert number
        answers += 1
    thread.join()
    last = 999 % 7 + 1
    assert node.plugins == [f"v{last}-{each}" for each in range(last)]
    assert answers > 10


def test_threads_that_ask_at_once_all_get_an_answer(node: Node) -> None:
    node.put("10.conf", "a")
    answers, threads = [], []
    for _ in range(8):
        threads.append(threading.Thread(target=lambda: answers.extend([node.plugins for _ in range(50)])))
        threads[-1].start()
    node.put("10.conf", "b")
    for thread in threads:
        thread.join()
    assert len(answers) == 400
    assert {tuple(each) for each in answers} <= {("a",), ("b",)}
    assert node.plugins == ["b"]
