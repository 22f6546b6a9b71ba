"""hook-injector: which hooks of oci-hooks(5) a container gets, and which files are refused."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from nri.plugins.hook_injector import HookInjector
from nri.plugins.hook_injector.hook_files import read_dirs
from nri.types.v1 import Result
from tests.unit.plugins.asking import error, run

PLUGIN = HookInjector()
PROC = [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]}]
WORKLOAD = {"com.example.department": "fluid-dynamics"}
ALLOWED = {"annotations": ["shop"]}


class Hooks:
    """Two directories of hooks, and a program to run."""

    def __init__(self, root: Path) -> None:
        self.usr, self.etc = root / "usr", root / "etc"
        self.usr.mkdir()
        self.etc.mkdir()
        self.runtime_data = str(root / "run")
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
        path.write_text(
            json.dumps(
                {key: value for key, value in (document | changes).items() if value is not None}
            )
        )
        path.chmod(0o644)
        return path

    def conf(self, allow: Any = None) -> dict[str, Any]:
        return {"dirs": [str(self.usr), str(self.etc)], "allow": allow, "run": self.runtime_data}

    def run(
        self, annotations: dict[str, str] | None = None, *, allow: Any = ALLOWED, **parts: Any
    ) -> Result:
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


def test_hook_is_injected_unchanged_at_each_of_its_stages(hooks: Hooks) -> None:
    hook = {"path": str(hooks.program), "args": ["program", "x"], "env": ["A=b"], "timeout": 5}
    when = {"when": None, "When": {"ALWAYS": True}}  # keys match in any case, as in Go
    hooks.write(
        "demo.json",
        None,
        hook=hook | {"unknown": 1},
        stages=["createRuntime", "poststop"],
        more=True,
        **when,
    )
    result = hooks.run()
    assert result.adjust == {"hooks": {"createRuntime": [hook], "poststop": [hook]}}
    assert result.metadata == {"hooks": "demo.json"}
    others: list[dict[str, Any]] = [{"state": "create"}, {"id": "pod"}]
    for changes in others:
        assert run(PLUGIN, {}, hooks.conf(), **changes).adjust is None


def test_hooks_are_sorted_by_name_in_lower_case(hooks: Hooks) -> None:
    for name in ("02-another.json", "01-UPPERCASE.json", "01-my.json", "readme.txt", ".json.swp"):
        hooks.write(name)
    assert hooks.injected() == ["01-my.json", "01-UPPERCASE.json", "02-another.json"]


def test_later_directory_hides_a_file_of_the_same_name(hooks: Hooks) -> None:
    hooks.write("a.json", version="broken")
    hooks.write("a.json", hooks.etc, stages=["poststart"])
    hooks.write("b.json")
    result = hooks.run()
    assert sorted(result.adjust["hooks"]) == ["createRuntime", "poststart"]


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


def test_bind_mounts_are_found_in_the_request(hooks: Hooks) -> None:
    hooks.write("a.json", when={"hasBindMounts": True})
    for mounts, is_injected in (
        ([{"destination": "/a", "type": "bind", "source": "/b"}], True),
        ([*PROC, {"type": "none", "options": ["ro", "rbind"]}], True),
        (None, False),
        ("bind", False),
        ([None, "bind", {"options": "bind"}], False),
    ):
        assert hooks.injected(mounts=mounts) == (["a.json"] if is_injected else [])


# Whose annotations count


def test_annotations_of_a_pod_that_is_not_allowed_do_not_count(hooks: Hooks) -> None:
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


# The patterns of podman, which are those of RE2


PATTERNS = json.loads(
    (Path(__file__).parents[2] / "golden/podman-hooks/patterns.json").read_text()
)["cases"]


@pytest.mark.parametrize("case", PATTERNS, ids=lambda case: case["pattern"] or "empty")
def test_patterns_mean_the_same_as_in_podman(hooks: Hooks, case: dict[str, Any]) -> None:
    hooks.write("a.json", when={"annotations": {"^note$": case["pattern"]}})
    text = case["text"]
    if isinstance(text, dict):
        text = text["repeat"] * text["times"] + text["then"]
    assert hooks.injected({"note": text}) == (["a.json"] if case["matches"] else [])


@pytest.mark.parametrize(
    "pattern", ["(?=x)", "(?<!x)y", "\\1", "a**", "x{1001}", "(?P<", "[[:nope:]]"]
)
def test_pattern_that_podman_refuses_is_refused_with_the_reason(
    hooks: Hooks, pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = hooks.write("a.json", when={"commands": ["fine", pattern]})
    error = hooks.run().error
    assert error.startswith(
        f"{path}: when.commands[1]: found {pattern!r}, expected a regular expression: "
    )
    assert len(error.rpartition(": ")[2]) > 1
    assert capfd.readouterr() == ("", "")


def test_prestart_is_createruntime_as_in_podman(hooks: Hooks) -> None:
    hooks.write("a.json", stages=["createRuntime"])
    hooks.write("b.json", stages=["prestart"])
    hooks.write(
        "c.json", stages=["createRuntime"], hook={"path": str(hooks.program), "args": ["c"]}
    )
    hook = {"path": str(hooks.program)}
    assert hooks.run().adjust == {"hooks": {"createRuntime": [hook, hook, hook | {"args": ["c"]}]}}


# What is refused


TRUE = "/bin/true"
WRONG_FILES: list[tuple[dict[str, Any], str]] = [
    ({"version": "0.1.0"}, "version: found the string '0.1.0', expected \"1.0.0\""),
    ({"hook": None}, "hook: missing, expected an object"),
    ({"hook": {}}, "hook.path: missing, expected the path of a program"),
    (
        {"hook": {"path": "true"}},
        "hook.path: found the string 'true', expected an absolute path without '..'",
    ),
    (
        {"hook": {"path": "/gone"}},
        "hook.path: found the string '/gone', expected a program: No such file",
    ),
    ({"hook": {"path": "/etc"}}, "hook.path: /etc is not a regular file; expected a program"),
    (
        {"hook": {"path": TRUE, "timeout": -1}},
        "hook.timeout: found the number -1, expected a whole number",
    ),
    (
        {"hook": {"path": TRUE, "timeout": 10**10}},
        "hook.timeout: found the number 10000000000, expected a whole number of seconds, 1 to 2147483647",
    ),
    ({"when": None}, "when: missing, expected an object"),
    (
        {"when": {"commands": []}},
        "when: no condition, expected one of always, annotations, commands, hasBindMounts",
    ),
    ({"when": {"always": "yes"}}, "when.always: found the string 'yes', expected true or false"),
    (
        {"when": {"annotations": {"(": "a"}}},
        "when.annotations: found '(', expected a regular expression: missing )",
    ),
    (
        {"when": {"annotations": {"a": "["}}},
        "when.annotations.a: found '[', expected a regular expression",
    ),
    (
        {"when": {"always": False, "commands": ["*"]}},
        "when.commands[0]: found '*', expected a regular",
    ),
    ({"stages": None}, "stages: missing, expected an array"),
    (
        {"stages": ["prestart", "postmortem"]},
        "stages[1]: found the string 'postmortem', expected one of prestart",
    ),
]


def test_wrong_file_is_refused_with_its_place(hooks: Hooks) -> None:
    for changes, message in WRONG_FILES:
        path = hooks.write("a.json", **changes)
        assert hooks.error().startswith(f"{path}: {message}")


def test_file_that_is_no_hook_is_refused(hooks: Hooks) -> None:
    path = hooks.write("a.json")
    for content, message in (
        (b"", "the document is empty, expected JSON"),
        (b"null", "found null, expected an object"),
        (b'{"version": "1.0.0",}', "line 1 column 2"),
        (b" " * (1024 * 1024 + 1), "found more than 1048576 bytes, expected fewer"),
    ):
        path.write_bytes(content)
        assert hooks.error().startswith(f"{path}: {message}")


def test_untrusted_file_directory_or_program_is_refused(hooks: Hooks) -> None:
    path = hooks.write("a.json")
    for target, mode, refused in (
        (path, 0o666, f"{path} is writable by others (mode 0666"),
        (hooks.usr, 0o777, f"{hooks.usr} is writable by others"),
        (hooks.program, 0o777, f"{path}: hook.path: {hooks.program} is writable by others"),
    ):
        target.chmod(mode)
        assert hooks.error().startswith(refused)
        target.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(path, 1000, 1000)
        assert hooks.error().startswith(f"{path} is another user's")


def test_path_that_is_no_file_is_refused_and_never_blocks(hooks: Hooks) -> None:
    os.mkfifo(hooks.usr / "a.json")
    assert hooks.error() == f"{hooks.usr}/a.json: found a FIFO, expected a regular file"
    (hooks.usr / "a.json").unlink()
    (hooks.usr / "a.json").symlink_to("gone")
    assert hooks.error().startswith(f"{hooks.usr}/a.json: cannot be read: No such file")


def test_condition_on_an_unknown_command_is_an_error(hooks: Hooks) -> None:
    path = hooks.write("a.json", when={"commands": ["sh"]})
    processes: list[Any] = [None, {}, {"args": []}, {"args": [1]}, {"args": "sh"}, []]
    for process in processes:
        error = hooks.run(process=process).error
        assert error.startswith(f"{path}: when.commands: the request has no spec.process.args")


# Files and directories that are away


def away(hooks: Hooks, what: Path) -> None:
    what.rename(hooks.usr.parent / "away")


def back(hooks: Hooks, what: Path) -> None:
    (hooks.usr.parent / "away").rename(what)


def test_file_that_is_away_for_a_moment_refuses_the_container(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: now[0])
    path = hooks.write("a.json")
    hooks.write("b.json")
    every = hooks.injected()
    for _ in range(2):
        away(hooks, path)
        now[0] += 0.02
        assert hooks.error().startswith(f"{path}: was there, and is missing for a moment")
        now[0] += 1.9
        assert hooks.error().startswith(f"{path}: was there, and is missing for a moment")
        back(hooks, path)
        assert hooks.injected() == every
    path.unlink()
    assert hooks.error().startswith(f"{path}: was there")
    now[0] += 2.0
    assert hooks.injected() == every[1:]


@pytest.mark.parametrize("what", ["the last file", "its directory"])
def test_the_last_hook_is_not_removed_by_absence(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: now[0])
    path = hooks.write("a.json")
    every = hooks.injected()
    if what == "the last file":
        away(hooks, path)
    else:
        away(hooks, hooks.usr)
        hooks.usr.mkdir()
    for seconds in (0.02, 5.0, 1e6):
        now[0] += seconds
        assert hooks.error().startswith(f"{path}: was there, and no other is left in its directory")
    if what == "its directory":
        hooks.usr.rmdir()
        back(hooks, hooks.usr)
    else:
        back(hooks, path)
    assert hooks.injected() == every


def test_directory_that_conf_names_must_exist(hooks: Hooks) -> None:
    hooks.write("a.json")
    hooks.injected()
    away(hooks, hooks.usr)
    assert (
        hooks.error()
        == f"{hooks.usr}: cannot be read: No such file or directory; expected a directory of hooks"
    )
    hooks.usr.mkdir()  # a mount that is away
    assert hooks.error().startswith(f"{hooks.usr}/a.json: was there")


def test_directories_of_a_distribution_need_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(tmp_path / "none")
    assert read_dirs([directory], [directory]) == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"a": "x"}',
        "\xff",
        '{"a": null}',
        '{"a": 1e999}',
        f'{{"a": {10**400}}}',
        r'{"\u1234": 1}',
    ],
)
def test_damaged_record_of_hook_files_refuses_nothing(hooks: Hooks, content: str) -> None:
    hooks.write("a.json")
    hooks.injected()
    (record,) = Path(hooks.runtime_data, "nri/hook-injector").iterdir()
    record.write_bytes(content.encode("latin-1"))
    assert hooks.injected() == ["a.json"]


@pytest.mark.parametrize("noted", ["null", "-1", "1e300", str(10**400), '"x"'])
def test_a_damaged_time_in_the_record_costs_only_itself(hooks: Hooks, noted: str) -> None:
    path = hooks.write("a.json")
    hooks.write("b.json")
    hooks.injected()
    (record,) = Path(hooks.runtime_data, "nri/hook-injector").iterdir()
    record.write_text(f'{{"{path}": {noted}, "{hooks.usr}/b.json": null}}')
    path.unlink()
    assert hooks.error().startswith(f"{path}: was there, and is missing for a moment")
