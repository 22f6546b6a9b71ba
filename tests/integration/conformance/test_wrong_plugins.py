"""Each check catches a plugin that breaks its rule, and no check catches one that breaks another rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.testing.conformance import CHECKS, FAILS, HOLDS, assert_conforms, check, report
from tests.integration.conformance.wrong_plugins import BEFORE, PRELUDE, WRONG
from tests.support import page_examples
from tests.support.processes import command_lines

CONF = {"a": 1}


@pytest.fixture(scope="session")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin that keeps all rules."""
    return page_examples.c(tmp_path_factory.mktemp("right"))


@pytest.fixture
def folder(tmp_path: Path, right: Path) -> Iterator[Path]:
    """Where a wrong plugin is; no process of it remains."""
    (tmp_path / "right").symlink_to(right.parent)
    yield tmp_path
    mark = f"{tmp_path}/".encode()
    assert [line for _, line in command_lines() if mark in line] == []


def wrong(folder: Path, script: str) -> Path:
    path = folder / "class-c"
    path.write_text(PRELUDE.format(folder=folder) + script + "\n")
    path.chmod(0o755)
    return path


def test_every_check_has_a_plugin_that_it_catches() -> None:
    # A compiled plugin that keeps state: tests/integration/authoring/test_build_refusals.py.
    by_build = {"resident"}
    assert {name.partition(":")[0] for name in WRONG} == set(CHECKS) - by_build


def test_the_plugin_that_the_wrong_ones_are_made_of_is_right(folder: Path) -> None:
    outcomes = check(wrong(folder, 'right "$@"'), conf=CONF)
    assert [outcome.id for outcome in outcomes if outcome.verdict != HOLDS] == ["resident"], report(
        outcomes
    )


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plugin_is_caught_by_the_check_of_its_fault(name: str, folder: Path) -> None:
    (caught,) = check(wrong(folder, WRONG[name]), conf=CONF, checks=[name.partition(":")[0]])
    assert caught.verdict == FAILS
    assert caught.expected and caught.found


def test_a_wrong_plugin_is_caught_by_no_other_check(folder: Path) -> None:
    outcomes = check(wrong(folder, WRONG["result-keys: metadata"]), conf=CONF)
    assert [outcome.id for outcome in outcomes if outcome.verdict == FAILS] == ["result-keys"]
    assert [outcome.id for outcome in outcomes] == list(CHECKS)


def test_an_assertion_says_what_was_expected_and_found(folder: Path) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_conforms(wrong(folder, WRONG["result-keys: plugin"]), conf=CONF)
    said = str(raised.value)
    assert 'expected "plugin": "class-c"' in said
    assert "found    the string 'other' for \"plugin\" in answer to setup" in said
    assert "docs/spec.md#the-result" in said


def test_a_plugin_may_leave_its_stdin_unread(folder: Path) -> None:
    answer = """echo '{"plugin":"class-c","version":"0.1","error":""}'"""
    plugin = wrong(folder, answer)
    assert_conforms(plugin)
    left = {outcome.id for outcome in check(plugin) if "unread" in outcome.found}
    assert left == {"broken"}


WORKING = f"""{BEFORE}
case $request in *'"class.example.com":"batch"'*) exit 4 ;; esac
answer "$@\""""


def test_fault_of_one_branch_shows_with_its_annotation(folder: Path) -> None:
    plugin = wrong(folder, WORKING)
    annotations = {"class.example.com": "batch"}
    assert_conforms(plugin)
    for options in (
        {"annotations": annotations},
        {"request": {"spec": {"annotations": annotations}}},
    ):
        with pytest.raises(AssertionError, match="exit status 4"):
            assert_conforms(plugin, **options)


def test_a_given_request_keeps_its_container(folder: Path) -> None:
    given = {"id": "web", "pid": 1, "spec": {"cgroupsPath": "/web"}}
    plugin = wrong(
        folder,
        f"""{BEFORE}case $request in *'"cgroupsPath":"/web"'*) echo "$request" >>"$folder/seen" ;; esac
answer "$@\"""",
    )
    assert_conforms(plugin, request=given)
    seen = (folder / "seen").read_text()
    assert '"id":"web"' in seen and '"pid":1' in seen
    assert '"id":"nri-conformance' not in seen


# Plugins that do worse


def failing(path: Path, timeout: float = 10) -> dict[str, str]:
    outcomes = check(path, timeout=timeout)
    return {outcome.id: outcome.found for outcome in outcomes if outcome.verdict == FAILS}


def test_a_plugin_that_never_ends_is_killed(folder: Path) -> None:
    assert failing(wrong(folder, "sleep 1000"), timeout=0.2) == {
        "exit-0": "no end before its deadline: killed"
    }


def test_one_that_hangs_only_for_bad_requests_is_killed_for_each(folder: Path) -> None:
    plugin = wrong(
        folder, 'request=$(cat)\n[ -n "$request" ] || sleep 1000\nprintf %s "$request" | right "$@"'
    )
    found = failing(plugin, timeout=1)
    assert "killed" in found["broken"]


def test_a_plugin_whose_results_have_a_time_conforms(folder: Path) -> None:
    assert_conforms(wrong(folder, """edit 's/"class":"none"/"class":"'$(date +%N)'"/' "$@\""""))


def test_a_file_that_cannot_be_started_is_named_with_the_reason(tmp_path: Path) -> None:
    for name, text, why in (
        ("nothing", "", "expected a program for this machine"),
        (
            "no-interpreter",
            "#!/nonexistent/sh\n",
            "its interpreter '/nonexistent/sh' does not exist",
        ),
    ):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        assert why in failing(path)["exit-0"]


def test_its_output_cannot_control_a_terminal(folder: Path) -> None:
    plugin = wrong(
        folder, r"""printf '\033[2J%s' "$(right "$@")"; printf '\033[31mred\n' >&2; exit 3"""
    )
    assert "\x1b" not in report(check(plugin))
