"""Each promise of docs/changing-a-policy.md, "What each host promises", has a test with a plugin that is not ours."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.node import ROOT
from tests.docs.test_pages import rows

TESTS = ROOT / "tests"
HOSTS = ("bridge", "nri-runc", "nri hook")
HEADER = "| | bridge | `nri-runc` | `nri hook` | containerd 1.6 |"

PROMISES: dict[tuple[str, str], str] = {
    ("the set in use stays when the files are invalid or away", "bridge"): (
        "integration/v1bridge/test_absence.py::"
        "test_bridge_that_is_started_without_the_configuration_uses_the_last_one"
    ),
    ("the set in use stays when the files are invalid or away", "nri-runc"): (
        "integration/v1bridge/test_absence.py::test_nri_runc_waits_for_a_file_or_refuses"
    ),
    ("the set in use stays when the files are invalid or away", "nri hook"): (
        "integration/v1bridge/test_absence.py::"
        "test_hook_refuses_at_its_deadline_and_goes_on_when_the_file_counts_as_lost"
    ),
    ("the options in use stay when their file is away", "bridge"): (
        "integration/v1bridge/test_absence.py::test_wrong_options_leave_the_last_valid_ones_in_use"
    ),
    ("the options in use stay when their file is away", "nri-runc"): (
        "integration/runc/test_handing_over.py::test_options_that_are_away_are_still_in_use"
    ),
    ("`prevResult` in `resize`, `update`, `delete`", "bridge"): (
        "integration/v1bridge/test_changed_policy.py::test_events_bring_the_last_result"
    ),
    ("`prevResult` in `resize`, `update`, `delete`", "nri-runc"): (
        "integration/runc/test_made.py::test_plugins_get_their_last_result"
    ),
    ("`prevResult` in `resize`, `update`, `delete`", "nri hook"): (
        "integration/hook/test_entry.py::"
        "test_plugins_get_their_last_result_and_nothing_is_kept_after_the_delete"
    ),
    ("`setup`, `resize`", "bridge"): (
        "integration/v1bridge/test_changes.py::"
        "test_a_resize_shows_the_new_limits_and_can_change_them"
    ),
    ("`setup`, `resize`", "nri-runc"): (
        "integration/runc/test_commands.py::"
        "test_an_update_of_some_resources_leaves_the_others_in_the_request"
    ),
    ("a container without its plugins", "bridge"): (
        "integration/v1bridge/test_late.py::test_missed_pod_and_container_are_served_late_once"
    ),
    ("a container without its plugins", "nri-runc"): (
        "integration/runc/test_made.py::"
        "test_a_container_without_a_record_gets_its_plugins_at_its_start_or_is_refused"
    ),
    ("a container without its plugins", "nri hook"): (
        "integration/hook/test_entry.py::test_failing_plugin_stops_create_and_not_delete"
    ),
    ("states that a plugin's `version` does not name are left out", "bridge"): (
        "integration/client/test_resident.py::"
        "test_states_that_a_foreign_plugin_names_are_those_that_it_is_run_for"
    ),
    ("`update` after resources that a plugin asked for", "bridge"): (
        "integration/v1bridge/test_changes.py::"
        "test_an_update_that_was_asked_for_is_followed_by_the_containers_update"
    ),
    ("`update` after resources that a plugin asked for", "nri-runc"): (
        "integration/runc/test_commands.py::test_updates_are_passed_with_the_rest_of_the_command_line"
    ),
    ("reapply, release", "bridge"): (
        "integration/v1bridge/test_changed_policy.py::"
        "test_changed_conf_is_counted_and_reapplied_when_asked_for"
    ),
}


def promised() -> set[tuple[str, str]]:
    """Return the cells of the table that promise something."""
    cells = set()
    for what, *answers in rows("changing-a-policy.md", HEADER):
        for host, answer in zip(HOSTS, answers, strict=False):
            is_promise = answer.split()[0] in ("yes", "gets", "is")
            if is_promise:
                cells.add((what, host))
    return cells


def test_each_cell_has_a_test() -> None:
    assert set(PROMISES) == promised()


@pytest.mark.parametrize("test", PROMISES.values())
def test_it_exists(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse(Path(TESTS / file).read_text())
    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
