"""invoke and run: a result as on a node, or an AssertionError that has the plugin's own words."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from nri.skel import Plugin, cgroup_of
from nri.testing import CgroupTree, Pod, assert_idempotent, invoke, run
from nri.types.v1 import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nri.types.v1 import Result

REQUEST = Request(state="create", id="web", conf={"a": 1})


class Scripted(Plugin):
    type = "scripted"

    def __init__(self, do: Callable[[Request], Result]) -> None:
        self.do = do

    def invoke(self, request: Request) -> Result:
        return self.do(request)


def echo(request: Request) -> Result:
    return request.new_result(
        "scripted", metadata={"conf": repr(request.conf), "state": request.state}
    )


def fail(request: Request) -> Result:
    raise KeyError("max")


@pytest.mark.parametrize("request_", [REQUEST, REQUEST.to_value()])
def test_a_request_of_either_form_is_sent(request_: Any) -> None:
    result = invoke(Scripted(echo), request_)
    assert (result.error, result.metadata) == ("", {"conf": "{'a': 1}", "state": "create"})


def test_an_exception_is_an_error_and_its_traceback_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke(Scripted(fail), REQUEST).error == "KeyError: 'max'"
    stderr = capsys.readouterr().err
    assert "Traceback" in stderr
    assert 'raise KeyError("max")' in stderr


def test_a_cgroup_that_was_not_made_is_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    web = Pod().container("web")

    def look(request: Request) -> Result:
        return request.new_result("scripted", metadata={"cpus": str(cgroup_of(request).cpus())})

    with CgroupTree() as tree:
        assert "does not exist" in invoke(Scripted(look), web.request("create")).error
        assert "nri_cgroups.add(container) makes it\n" in capsys.readouterr().err
        tree.add(web)
        assert invoke(Scripted(look), web.request("create")).error == ""
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("state", "changes", "message"),
    [
        (
            "setup",
            {"adjust": {"env": {"A": 1}}},
            "adjust.env.A: found the number 1, expected a string",
        ),
        ("setup", {"adjust": {"envs": {}}}, "adjust.envs: unknown key, did you mean env?"),
        (
            "setup",
            {"updates": [{"id": "web", "resources": {}}]},
            "found the container of the setup itself",
        ),
        (
            "create",
            {"adjust": {"args": ["x"]}},
            "found it in answer to create, expected it in answer to setup alone",
        ),
    ],
)
def test_changes_that_every_host_refuses_are_a_failure(
    tmp_path: Path, state: str, changes: dict[str, Any], message: str
) -> None:
    request = REQUEST.replace(state=state, extensions={"adjust": 1})
    result = request.new_result("scripted", **changes)
    program = executable(tmp_path, f"cat <<'END'\n{result.to_json().decode()}\nEND")
    for asked in (partial(invoke, Scripted(lambda _: result)), partial(run, program)):
        with pytest.raises(
            AssertionError, match="asks for changes that a host refuses: "
        ) as caught:
            asked(request)
        assert message in str(caught.value)


def test_changes_that_some_runtime_applies_are_taken() -> None:
    memory = {"linux": {"resources": {"memory": {"reservation": 1}, "rdtClass": "gold"}}}
    request = REQUEST.replace(state="setup", extensions={"adjust": 1})
    result = request.new_result("scripted", adjust=memory)
    assert invoke(Scripted(lambda _: result), request).adjust == memory


def test_without_a_result_the_plugins_stderr_is_in_the_failure() -> None:
    for request, message in (
        ({"state": 7}, "request.state: "),
        (
            {"state": "create", "id": "web", "pid": "7"},
            "request.pid: found the string '7', expected an integer",
        ),
    ):
        with pytest.raises(AssertionError) as caught:
            invoke(Scripted(echo), request)
        no_result = "plugin 'scripted' wrote no result; exit status 1\nits stderr:\nscripted: "
        assert str(caught.value).startswith(no_result)
        assert message in str(caught.value)


# As a process


def executable(folder: Path, body: str) -> Path:
    path = folder / "shell"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def answer(error: str = "") -> str:
    return f"""printf '{{"plugin":"shell","version":"0.1","error":"{error}"}}'"""


def test_a_process_gets_the_contracts_arguments_and_stdin(tmp_path: Path) -> None:
    said = """printf '{"plugin":"shell","version":"0.1","error":"","metadata":{"said":"%s %s"}}' "$*" "$(wc -c)" """
    result = run(executable(tmp_path, said), REQUEST)
    assert result.metadata == {"said": f"invoke {len(REQUEST.to_json())}"}


@pytest.mark.parametrize("status", [0, 3])
def test_an_error_in_the_result_is_returned(tmp_path: Path, status: int) -> None:
    assert run(executable(tmp_path, f"{answer('no')}; exit {status}"), REQUEST).error == "no"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "echo because >&2; exit 3",
            "/shell wrote no result; exit status 3\nits stderr:\nbecause\n",
        ),
        ("exit 0", "/shell wrote no result\nits stderr is empty"),
        ("echo nonsense", "/shell wrote no valid result: "),
        (
            f"{answer()}; exit 3",
            "/shell wrote a result without error, but: exit status 3\nits stderr is empty",
        ),
        ("kill -9 $$", "/shell wrote no result; ended by signal 9"),
        (
            "echo much >&2; exec yes",
            "/shell was killed: it wrote too much to stdout\nits stderr:\nmuch\n",
        ),
    ],
)
def test_a_failure_in_the_sense_of_the_contract_is_reported(
    tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        run(executable(tmp_path, body), REQUEST, timeout=60)
    assert message in str(caught.value)


def test_a_process_without_an_answer_is_killed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"/shell was killed: no result after 0\.3 s\n"):
        run(executable(tmp_path, "exec sleep 600"), REQUEST, timeout=0.3)


def test_a_file_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match="missing cannot be started: No such file or directory"
    ):
        run(tmp_path / "missing", REQUEST)


# Twice


class Setting(Plugin):
    """Writes what a test says for each state, and may go wrong."""

    type = "setting"

    def __init__(self, **steps: Any) -> None:
        self.steps, self.creates = steps, 0

    def invoke(self, request: Request) -> Result:
        from nri.cgroups import find

        self.creates += request.state in ("create", "setup")
        step = self.steps.get(request.state, "")
        assert request.spec is not None
        if step in ("again", "always"):
            cgroup = find(request.spec.cgroups_path)
            if step == "always" or cgroup.cpus() != {1}:
                cgroup.write_text("cpuset.cpus", "1")
        if step == "grow":
            return request.new_result(self.type, adjust={"env": {"N": str(self.creates)}})
        return request.new_result(self.type, error="gone" if step == "error" else "")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"create": "again", "update": "again"}, ""),
        (
            {"create": "always"},
            "setting: the second create wrote web/cpuset.cpus = '1': expected nothing to be written",
        ),
        (
            {"create": "again", "update": "always"},
            "setting: update after create wrote web/cpuset.cpus = '1'",
        ),
        ({"delete": "always"}, "setting: delete without a create wrote web/cpuset.cpus = '1'"),
        (
            {"delete": "error"},
            "setting: delete without a create has the error 'gone': expected none",
        ),
        ({"create": "error"}, "setting: the first create has the error 'gone': expected none"),
        (
            {"setup": "grow"},
            "setting: the second setup differs from the first in adjust: found {'env': {'N': '2'}}",
        ),
    ],
)
def test_the_step_that_differs_is_named(steps: dict[str, str], message: str) -> None:
    web = Pod().container("web")
    with CgroupTree() as tree:
        tree.add(web)
        request = web.request("setup" if "setup" in steps else "create")
        if not message:
            assert_idempotent(Setting(**steps), request, tree)
            return
        with pytest.raises(AssertionError) as caught:
            assert_idempotent(Setting(**steps), request, tree)
        assert str(caught.value).startswith(message)


def test_only_a_create_can_be_repeated() -> None:
    with pytest.raises(ValueError, match="the request is of state 'delete': expected 'create'"):
        assert_idempotent(Setting(), Pod().container("web").request("delete"))
