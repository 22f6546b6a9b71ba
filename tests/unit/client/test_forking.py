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

OWN = ("a", "b", "c")


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the invoker does: the plugins ``a``, ``b`` and ``c`` are of this build, ``missing`` is none."""
    did: list[str] = []

    class Forked:
        def __init__(self, program: LoadedProgram, deadline: float) -> None:
            self.name = program.argv[0]
            did.append(f"fork {self.name}")

        def converse(self, stdin: bytes, deadline: float, *, meanwhile: Callable[[], None], **_: Any) -> Output:
            did.append(f"ask {self.name} {stdin.decode()}")
            meanwhile()
            return output()

        def end(self) -> None:
            did.append(f"end {self.name}")

    def program(path: str, argv: list[str]) -> LoadedProgram | None:
        options: Any = {"path": path, "executable": path, "argv": argv, "environment": {}}
        return LoadedProgram(print, ModuleType("x"), **options) if argv[0] in OWN else None

    def find(_self: object, plugin: str) -> str:
        if plugin == "missing":
            raise PluginError(plugin, "not found")
        return f"/bin/{plugin}"

    def start(_self: object, path: str, plugin: str, request: bytes, deadline: float, **_: Any) -> Output:
        did.append(f"start {plugin} {request.decode()}")
        return output()

    monkeypatch.setattr(forking, "ForkedProgram", Forked)
    monkeypatch.setattr(forking, "find_program", program)
    monkeypatch.setattr(DirectInvoker, "find", find)
    monkeypatch.setattr(DirectInvoker, "run", start)
    return did


def run(invoker: forking.ForkingInvoker, *plugins: str) -> None:
    for number, plugin in enumerate(plugins):
        invoker.run(f"/bin/{plugin}", plugin, str(number).encode(), 0.0, max_output=1, log=print)


def test_the_next_plugin_is_forked_for_while_one_runs(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["a", "b"])
    assert did == []
    run(invoker, "a", "b")
    assert did == ["fork a", "ask a 0", "fork b", "ask b 1"]


def test_another_builds_plugin_is_started_in_its_turn(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["x", "a", "y", "b", "z"])
    run(invoker, "x", "a", "y", "b", "z")
    assert did == ["start x 0", "fork a", "ask a 1", "fork b", "start y 2", "ask b 3", "start z 4"]


def test_the_same_plugin_twice_is_two_processes(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["a", "a"])
    run(invoker, "a", "a")
    assert did == ["fork a", "ask a 0", "fork a", "ask a 1"]


def test_a_process_whose_turn_never_comes_is_ended(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["a", "b", "c"])
    run(invoker, "a")
    invoker.dismiss()
    invoker.dismiss()
    assert did == ["fork a", "ask a 0", "fork b", "end b"]
    run(invoker, "c")
    assert did[4:] == ["start c 0"]


def test_what_is_not_expected_is_started(did: list[str]) -> None:
    run(forking.ForkingInvoker(), "a")
    assert did == ["start a 0"]


def test_a_plugin_that_is_missing_does_not_keep_the_others_away(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["missing", "a"])
    run(invoker, "a")
    assert did == ["fork a", "ask a 0"]


def test_expected_plugins_that_did_not_run_are_passed_over(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["a", "b", "c"])
    run(invoker, "c")
    assert did == ["fork c", "ask c 0"]


def test_a_file_that_another_folder_has_since_is_started(did: list[str]) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["a"])
    invoker.run("/other/a", "a", b"", 0.0, max_output=1, log=print)
    assert did == ["start a "]


def test_a_fork_that_fails_ahead_is_tried_again_and_then_reported(
    did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    invoker = forking.ForkingInvoker()
    invoker.expect(["a", "b"])
    forked: Any = vars(forking)["ForkedProgram"]

    def fail(program: LoadedProgram, deadline: float) -> Any:
        if program.argv[0] == "b":
            raise BlockingIOError(errno.EAGAIN, "no process is left")
        return forked(program, deadline)

    monkeypatch.setattr(forking, "ForkedProgram", fail)
    run(invoker, "a")
    with pytest.raises(BlockingIOError):
        run(invoker, "b")
    assert did == ["fork a", "ask a 0"]
