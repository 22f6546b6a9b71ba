"""hook-injector: which hooks of oci-hooks(5) a container gets, and which files are refused."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from nri.plugins.hook_injector import DIRS, HookInjector, conditions
from nri.types.v1 import Result
from tests.support.processes import open_fds
from tests.support.system_faults import Failing
from tests.unit.plugins.asking import error, run

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = HookInjector()
BIND = [{"destination": "/a", "type": "bind", "source": "/b"}]
PROC = [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]}]
WORKLOAD = {"com.example.department": "fluid-dynamics"}
ALLOWED = {"annotations": ["shop"]}


class Hooks:
    """Two directories of hooks, and a program to run."""

    def __init__(self, root: Path) -> None:
        self.usr, self.etc = root / "usr", root / "etc"
        self.usr.mkdir()
        self.program = root / "program"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)

    def write(self, name: str, folder: Path | None = None, **changes: Any) -> Path:
        """A file with a hook; a change to None leaves the key out."""
        document = {
            "version": "1.0.0",
            "hook": {"path": str(self.program)},
            "when": {"always": True},
            "stages": ["prestart"],
        }
        path = (folder or self.usr) / name
        path.write_text(json.dumps({key: value for key, value in (document | changes).items() if value is not None}))
        path.chmod(0o644)
        return path

    def conf(self, allow: Any = None) -> dict[str, Any]:
        return {"dirs": [str(self.usr), str(self.etc)], "allow": allow}

    def run(self, annotations: dict[str, str] | None = None, *, allow: Any = ALLOWED, **parts: Any) -> Result:
        parts = {"process": {"args": ["/bin/sh", "-c", "true"]}, "mounts": PROC} | parts
        return run(PLUGIN, annotations or {}, self.conf(allow), parts=parts)

    def injected(self, *args: Any, **options: Any) -> list[str]:
        """The files whose hooks are injected, in their order."""
        result = self.run(*args, **options)
        assert result.error == ""
        return result.metadata["hooks"].split(", ") if "hooks" in result.metadata else []

    def error(self) -> str:
        return error(PLUGIN, {}, self.conf(), parts={"process": {"args": ["sh"]}})


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


# What is injected


def test_a_hook_is_injected_as_it_is_at_each_of_its_stages(hooks: Hooks) -> None:
    hook = {"path": str(hooks.program), "args": ["program", "x"], "env": ["A=b"], "timeout": 5}
    hooks.write("demo.json", hook=hook | {"unknown": 1}, stages=["createRuntime", "poststop"], more=True)
    result = hooks.run()
    assert result.adjust == {"hooks": {"createRuntime": [hook], "poststop": [hook]}}
    assert result.metadata == {"hooks": "demo.json"}


def test_keys_match_in_any_case_as_in_go(hooks: Hooks) -> None:
    hooks.write("a.json", when=None, When={"ALWAYS": True})
    assert hooks.injected() == ["a.json"]


def test_the_order_is_that_of_the_names_in_lower_case(hooks: Hooks) -> None:
    for name in ("02-another.json", "01-UPPERCASE.json", "01-my.json", "readme.txt", ".json.swp"):
        hooks.write(name)
    assert hooks.injected() == ["01-my.json", "01-UPPERCASE.json", "02-another.json"]


def test_a_file_of_a_later_directory_hides_one_of_the_same_name(hooks: Hooks) -> None:
    hooks.etc.mkdir()
    hooks.write("a.json", version="broken")
    hooks.write("a.json", hooks.etc, stages=["poststart"])
    hooks.write("b.json")
    result = hooks.run()
    assert sorted(result.adjust["hooks"]) == ["poststart", "prestart"]


def test_directories_that_do_not_exist_have_no_hooks(hooks: Hooks) -> None:
    hooks.usr.rmdir()
    assert hooks.run().adjust is None


def test_only_a_container_that_is_set_up_gets_hooks(hooks: Hooks) -> None:
    hooks.write("a.json")
    others: list[dict[str, Any]] = [{"state": "create"}, {"id": "pod"}]
    for changes in others:
        assert run(PLUGIN, {}, hooks.conf(), **changes).adjust is None


def test_the_directories_by_default() -> None:
    assert DIRS == ["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"]


FLUID = {"department": "fluid"}
CONDITIONS: list[tuple[dict[str, Any], bool]] = [
    ({"always": True}, True),
    ({"always": False, "commands": ["sh"]}, False),
    ({"always": True, "commands": ["no"]}, False),
    ({"commands": ["/sh"]}, True),
    ({"commands": ["^sh$"]}, False),
    ({"commands": ["no", "/bin/[[:alpha:]]+$"]}, True),
    ({"commands": ["-c"]}, False),
    ({"hasBindMounts": True}, False),
    ({"hasBindMounts": False}, False),
    ({"annotations": {r"^com\.example\.department$": ".*fluid-dynamics$"}}, True),
    ({"annotations": {"department": "^dynamics"}}, False),
    ({"annotations": FLUID | {"other": ".*"}}, False),
    ({"annotations": FLUID, "commands": ["sh"]}, True),
    ({"annotations": FLUID, "commands": ["no"]}, False),
    ({"annotations": FLUID, "hasBindMounts": True}, False),
]


def test_all_conditions_must_hold(hooks: Hooks) -> None:
    for when, is_injected in CONDITIONS:
        hooks.write("a.json", when=when)
        assert hooks.injected(WORKLOAD) == (["a.json"] if is_injected else [])


def test_bind_mounts_are_those_of_the_request(hooks: Hooks) -> None:
    for mounts, is_injected in (
        (BIND, True),
        ([*PROC, {"type": "none", "options": ["ro", "rbind"]}], True),
        (PROC, False),
        ([], False),
        (None, False),
        ("bind", False),
        ([None, "bind", {"options": "bind"}], False),
    ):
        hooks.write("a.json", when={"hasBindMounts": True})
        assert hooks.injected(mounts=mounts) == (["a.json"] if is_injected else [])


# Whose annotations count


def test_conditions_on_annotations_are_not_met_by_a_pod_that_is_not_allowed(hooks: Hooks) -> None:
    for allow in (None, {}, {"annotations": False}, {"annotations": ["other"]}):
        annotated = hooks.write("a.json", when={"annotations": {"department": ".*"}})
        hooks.write("b.json", when={"annotations": {"another": ".*"}})
        hooks.write("c.json")
        hooks.write("d.json", when={"commands": ["sh"]})
        assert hooks.injected(WORKLOAD, allow=allow) == ["c.json", "d.json"]
        ignored = hooks.run(WORKLOAD, allow=allow).metadata["ignored"]
        assert ignored.partition(": ")[2].startswith("allow.annotations is ")
        assert ignored.count("allow.annotations") == 1
        assert annotated.name in ignored


def test_texts_made_for_a_pattern_avoid_no_hook_and_end_together(hooks: Hooks) -> None:
    hooks.write("plain.json")
    for number in range(30):
        hooks.write(f"{number:02}.json", when={"annotations": {".*": "^(a+)+$"}, "commands": ["^(a+)+$"]})
    assert len(hooks.injected({"x": "a" * 64 + "!"}, process={"args": ["a" * 64 + "!"]})) == 31


def test_a_hook_that_a_pod_cannot_choose_is_decided_before_those_that_it_could(hooks: Hooks) -> None:
    hooks.write("a.json", when={"annotations": {".*": "^(a+)+$"}})
    hooks.write("z.json", when={"commands": ["^no$"]})
    assert hooks.injected({"x": "a" * 64 + "!"}, allow={}, process={"args": ["yes"]}) == []
    ignored = hooks.run({"x": "a" * 64 + "!"}, allow={}, process={"args": ["yes"]}).metadata["ignored"]
    assert "a.json" in ignored


def test_a_text_that_is_too_long_to_be_matched_counts_as_a_match(hooks: Hooks) -> None:
    hooks.write("a.json", when={"annotations": {"^note$": "y"}})
    assert hooks.injected({"note": "x" * 4096}) == []
    assert hooks.injected({"note": "x" * 4097}) == ["a.json"]


def test_without_a_process_to_match_in_no_container_is_created(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks.write("a.json", when={"commands": ["sh"]})
    monkeypatch.setattr(conditions, "os", Failing(os, "fork", errno.EAGAIN))
    before = open_fds()
    assert "no process can be forked to match patterns: Resource temporarily" in hooks.run().error
    assert open_fds() == before


# What is refused


TRUE = "/bin/true"
WRONG_FILES: list[tuple[dict[str, Any], str]] = [
    ({"version": "0.1.0"}, "version: found the string '0.1.0', expected '1.0.0'"),
    ({"version": 1}, "version: found the number 1, expected a string"),
    ({"hook": None}, "hook.path: found the string '', expected an absolute path"),
    ({"hook": TRUE}, "hook: found the string '/bin/true', expected an object"),
    ({"hook": {"path": "true"}}, "hook.path: found the string 'true', expected an absolute path without '..'"),
    ({"hook": {"path": "/bin/../bin/true"}}, "hook.path: found the string '/bin/../bin/true', expected"),
    ({"hook": {"path": "/gone"}}, "hook.path: found the string '/gone', expected a program: No such file"),
    ({"hook": {"path": "/etc"}}, "hook.path: /etc is not a regular file; expected a program"),
    ({"hook": {"path": TRUE, "args": "x"}}, "hook.args: found the string 'x', expected an array of strings"),
    ({"hook": {"path": TRUE, "env": [1]}}, "hook.env[0]: found the number 1, expected a string"),
    ({"hook": {"path": TRUE, "timeout": "5"}}, "hook.timeout: found the string '5', expected an integer"),
    ({"hook": {"path": TRUE, "timeout": -1}}, "hook.timeout: found the number -1, expected seconds"),
    ({"when": None}, "when: no condition, expected one of always, annotations, commands, hasBindMounts"),
    ({"when": {"always": "yes"}}, "when.always: found the string 'yes', expected true or false"),
    ({"when": {"annotations": {"a": 1}}}, "when.annotations.a: found the number 1, expected a string"),
    ({"when": {"annotations": {"(": "a"}}}, "when.annotations: found '(', expected a regular expression: missing )"),
    ({"when": {"annotations": {"a": "["}}}, "when.annotations.a: found '[', expected a regular expression"),
    ({"when": {"commands": ["a", "*"]}}, "when.commands[1]: found '*', expected a regular expression"),
    ({"when": {"always": False, "commands": ["*"]}}, "when.commands[0]: found '*', expected a regular"),
    ({"stages": None}, "stages: missing, expected some of prestart, createRuntime, "),
    ({"stages": ["prestart", "postmortem"]}, "stages[1]: found the string 'postmortem', expected one of prestart"),
    ({"stages": "prestart"}, "stages: found the string 'prestart', expected an array of strings"),
]


def test_a_wrong_file_is_refused_with_its_place(hooks: Hooks) -> None:
    for changes, message in WRONG_FILES:
        path = hooks.write("a.json", **changes)
        assert hooks.error().startswith(f"{path}: {message}")


def test_what_is_no_hook_is_refused(hooks: Hooks) -> None:
    for content, message in (
        (b"", "the document is empty, expected JSON"),
        (b"null", "found null, expected an object"),
        (b'{"version": "1.0.0",}', "line 1 column 2"),
        (b" " * (1024 * 1024 + 1), "found more than 1048576 bytes, expected a hook"),
    ):
        path = hooks.write("a.json")
        path.write_bytes(content)
        assert hooks.error().startswith(f"{path}: {message}")


def test_what_others_can_write_to_is_refused(hooks: Hooks) -> None:
    path = hooks.write("a.json")
    for target, mode, refused in (
        (path, 0o666, f"{path} is writable by others (mode 0666"),
        (hooks.usr, 0o777, f"{hooks.usr} is writable by others"),
        (hooks.program, 0o777, f"{path}: hook.path: {hooks.program} is writable by others"),
    ):
        target.chmod(mode)
        assert hooks.error().startswith(refused)
        target.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_refused(hooks: Hooks) -> None:
    path = hooks.write("a.json")
    os.chown(path, 1000, 1000)
    assert hooks.error().startswith(f"{path} is another user's")


def test_what_is_no_file_is_refused_and_does_not_block(hooks: Hooks) -> None:
    os.mkfifo(hooks.usr / "a.json")
    assert hooks.error() == f"{hooks.usr}/a.json: is not a regular file; expected a file with a hook"
    (hooks.usr / "a.json").unlink()
    (hooks.usr / "a.json").symlink_to("gone")
    assert hooks.error().startswith(f"{hooks.usr}/a.json: cannot be read: No such file")


def test_a_condition_on_a_command_that_is_not_known_is_an_error(hooks: Hooks) -> None:
    path = hooks.write("a.json", when={"commands": ["sh"]})
    processes: list[Any] = [None, {}, {"args": []}, {"args": [1]}, {"args": "sh"}, []]
    for process in processes:
        error = hooks.run(process=process).error
        assert error.startswith(f"{path}: when.commands: the request has no spec.process.args")
