"""In which order plugins are forked for: the next one while one runs, and none that is not expected."""

from __future__ import annotations

import errno
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import DirectInvoker, PluginError, forking
from nri.process.afresh import LoadedProgram
from tests.unit.client.fake_invoker import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.process.launch import Output


class Story:
    """What the invoker does: the plugins ``a``, ``b`` and ``c`` are of this build, ``missing`` is not found.

    :ivar refused: the plugin for which no process can be forked.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[str] = []
        self.refused = ""
        self.invoker = forking.ForkingInvoker()
        story = self

        class Forked:
            def __init__(self, program: LoadedProgram, deadline: float) -> None:
                self.name = program.argv[0]
                if self.name == story.refused:
                    raise BlockingIOError(errno.EAGAIN, "no process is left")
                story.did.append(f"fork {self.name}")

            def converse(self, stdin: bytes, deadline: float, *, meanwhile: Callable[[], None], **_: Any) -> Output:
                story.did.append(f"ask {self.name} {stdin.decode()}")
                meanwhile()
                return output()

            def end(self) -> None:
                story.did.append(f"end {self.name}")

        def program(path: str, argv: list[str]) -> LoadedProgram | None:
            options: Any = {"path": path, "executable": path, "argv": argv, "environment": {}}
            return LoadedProgram(print, ModuleType("x"), **options) if argv[0] in ("a", "b", "c") else None

        def find(_self: object, plugin: str) -> str:
            if plugin == "missing":
                raise PluginError(plugin, "not found")
            return f"/bin/{plugin}"

        def start(_self: object, path: str, plugin: str, request: bytes, deadline: float, **_: Any) -> Output:
            story.did.append(f"start {plugin} {request.decode()}")
            return output()

        monkeypatch.setattr(forking, "ForkedProgram", Forked)
        monkeypatch.setattr(forking, "find_program", program)
        monkeypatch.setattr(DirectInvoker, "find", find)
        monkeypatch.setattr(DirectInvoker, "run", start)

    def run(self, *plugins: str, folder: str = "/bin") -> list[str]:
        for number, plugin in enumerate(plugins):
            self.invoker.run(
                f"{folder}/{plugin}", plugin, str(number).encode(), 0.0, max_output=1, log=lambda _line: None
            )
        return self.did


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(monkeypatch)


@pytest.mark.parametrize(
    ("expected", "run", "did"),
    [
        ("a b", "a b", "fork a, ask a 0, fork b, ask b 1"),
        ("x a y b z", "x a y b z", "start x 0, fork a, ask a 1, fork b, start y 2, ask b 3, start z 4"),
        ("a a", "a a", "fork a, ask a 0, fork a, ask a 1"),
        ("", "a", "start a 0"),
        ("missing a", "a", "fork a, ask a 0"),
        ("a b c", "c", "fork c, ask c 0"),
    ],
    ids=["next", "other builds", "twice", "unexpected", "missing", "skipped"],
)
def test_next_expected_plugin_is_forked_while_one_runs_and_others_are_started(
    story: Story, expected: str, run: str, did: str
) -> None:
    story.invoker.expect(expected.split())
    assert story.did == []
    assert story.run(*run.split()) == did.split(", ")


def test_waiting_process_is_ended_when_no_plugin_is_expected_any_more(story: Story) -> None:
    story.invoker.expect(["a", "b", "c"])
    story.run("a")
    story.invoker.dismiss()
    story.invoker.dismiss()
    assert story.did == ["fork a", "ask a 0", "fork b", "end b"]
    assert story.run("c")[4:] == ["start c 0"]


def test_file_of_another_folder_is_started(story: Story) -> None:
    story.invoker.expect(["a"])
    assert story.run("a", folder="/other") == ["start a 0"]


def test_failed_fork_is_tried_again_for_the_request_and_then_reported(story: Story) -> None:
    story.invoker.expect(["a", "b"])
    story.refused = "b"
    story.run("a")
    with pytest.raises(BlockingIOError):
        story.run("b")
    assert story.did == ["fork a", "ask a 0"]
