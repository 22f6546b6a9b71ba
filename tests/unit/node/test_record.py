"""The facts about a container, and their files: unknown keys stay, and a wrong value costs the least."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nri.errors import NRIError
from nri.node import record
from nri.node.record import (
    DONE,
    FAILED,
    IGNORED,
    OFF,
    Facts,
    Outcome,
    read_facts,
    write_facts,
)
from nri.types import DecodeError
from tests.unit.node.builders import facts, had, shown

PLUGIN = '{"type":"a","conf":1}'
OUTCOME = {"outcome": DONE, "why": "", "binary": [1, 2, 3]}
ENTRY: dict[str, Any] = {
    "type": "a",
    "hash": "1",
    "document": PLUGIN,
    "states": {"create": OUTCOME},
    "result": '{"plugin":"a"}',
}
VALUE: dict[str, Any] = {
    "name": "default/web/app",
    "life": "created:1",
    "created": True,
    "entries": [ENTRY, ENTRY | {"hash": "2"}],
    "without": {"outcome": OFF, "since": 2.5, "why": "off", "binary": []},
    "seen": [7, 8],
    "resources": {"cpu": {"shares": 2}},
    "rewritten": True,
    "made": {"bundle": ["/b"], "spec": {}},
}


def read(value: Any) -> tuple[Facts, list[str]]:
    faults: list[str] = []
    return Facts.from_value(json.loads(json.dumps(value)), faults), faults


def test_a_value_is_read_and_written_without_a_change() -> None:
    about, faults = read(VALUE)
    assert (about.to_value(), faults) == (VALUE, [])
    empty = {"name": "", "life": "", "created": False, "entries": []}
    assert read({})[0].to_value() == empty | {"seen": [], "resources": None, "rewritten": False}


def test_keys_of_a_newer_build_are_kept_at_each_level_and_do_no_harm() -> None:
    newer = {"x": [1], "y": {"z": None}, "also": "text"}
    outcome = OUTCOME | newer
    value = (
        VALUE
        | newer
        | {"entries": [ENTRY | newer | {"states": {"create": outcome, "sleep": outcome}}]}
    )
    value["without"] = VALUE["without"] | newer
    about, faults = read(value)
    assert faults == []
    assert next(iter(about.entries.values())).is_created
    next(iter(about.entries.values())).states["update"] = Outcome(DONE)
    written = about.to_value()
    assert written["entries"][0]["states"].pop("update") == {
        "outcome": DONE,
        "why": "",
        "binary": [],
    }
    assert written == value


WRONG: dict[str, tuple[dict[str, Any], list[tuple[str, dict[str, str]]]]] = {
    "an entry": ({"entries": [5, ENTRY]}, [("a", {"create": DONE})]),
    "its document": ({"entries": [ENTRY | {"document": "{"}, ENTRY]}, [("a", {"create": DONE})]),
    "its type": ({"entries": [ENTRY | {"type": 1}, ENTRY]}, [("a", {"create": DONE})]),
    "an outcome": (
        {"entries": [ENTRY | {"states": {"setup": OUTCOME, "create": {"outcome": "later"}}}]},
        [("a", {"setup": DONE})],
    ),
    "a number": (
        {
            "entries": [
                ENTRY | {"states": {"create": OUTCOME | {"since": 10**400}, "setup": OUTCOME}}
            ]
        },
        [("a", {"setup": DONE})],
    ),
    "numbers": ({"seen": [10**400], "entries": [ENTRY]}, [("a", {"create": DONE})]),
    "all of them": ({"entries": "none"}, []),
    "the reason": ({"without": {"outcome": "off", "since": -1}, "entries": []}, []),
    "a name": (
        {"name": 5, "life": [], "created": "yes", "entries": [ENTRY]},
        [("a", {"create": DONE})],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_costs_the_smallest_thing_that_holds_it(
    changes: dict[str, Any], expected: Any
) -> None:
    about, faults = read(VALUE | changes)
    assert shown(about) == expected
    assert faults
    assert read(about.to_value())[1] == []


@pytest.mark.parametrize(
    "text", ["{", "", "[" * 20_000, "[]", "null", "1e999", '{"seen": [1e999]}', "\xff"]
)
def test_a_file_that_holds_no_facts_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    about, faults = read_facts(str(path))
    assert about is None
    assert len(faults) == 1


def test_files_of_other_kinds_and_none_are_no_facts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    assert read_facts(str(tmp_path / "fifo.json")) == (
        None,
        ["found a FIFO, expected a regular file"],
    )
    assert read_facts(str(tmp_path / "none.json")) == (None, [])


def test_facts_are_written_in_a_private_directory_and_removed_with_nothing_to_remember(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run/record/abc.json"
    about = facts(had("a", 1))
    write_facts(str(path), about)
    assert (path.stat().st_mode & 0o7777, path.parent.stat().st_mode & 0o7777) == (0o600, 0o700)
    again, faults = read_facts(str(path))
    assert faults == []
    assert again is not None
    assert again.to_value() == about.to_value()
    write_facts(str(path), facts())
    write_facts(str(path), facts())
    assert os.listdir(path.parent) == []
    path.parent.chmod(0o777)
    with pytest.raises(NRIError, match="is writable by others"):
        write_facts(str(path), about)


# What the facts say


def test_the_last_result_of_an_entry_or_of_an_older_one_of_its_type() -> None:
    old, new = had("a", 1), had("a", 2)
    old.result, new.result = '{"plugin": "old"}', '{"plugin": "new"}'
    about = facts(old, new)
    found = [about.previous(key) for key in (old.key, new.key, "a none", "b none")]
    assert [result and result.plugin for result in found] == ["old", "new", "old", None]
    old.result = "{"
    assert about.previous(old.key) is None


def test_the_first_reason_counts_and_the_last_executable() -> None:
    about = facts(had("a", 1, "setup"))
    entry = next(iter(about.entries.values()))
    first = Outcome(IGNORED, "one \x1b", (1,))
    first.since = 5
    about.lack(entry, "create", first)
    about.lack(entry, "create", Outcome(FAILED, "two", (2,)))
    outcome = entry.states["create"]
    assert (outcome.outcome, outcome.why, outcome.binary, outcome.since) == (
        IGNORED,
        "one \\x1b",
        (2,),
        5,
    )


def test_a_new_process_has_had_its_setup_alone() -> None:
    about = facts(
        had("a", 1, "setup", "create"), had("b", 1), without=Outcome(OFF, "off"), is_rewritten=True
    )
    about.see(7, None)
    about.begin_again()
    assert (shown(about), about.is_created, about.is_rewritten, about.without, about.seen) == (
        [("a", {"setup": DONE})],
        *(False, False, None, []),
    )


def test_the_first_and_the_last_resources_are_kept() -> None:
    about = facts()
    for digest in (0, *range(1, 40), 39, 5):
        about.see(digest, {"of": digest})
    assert (about.seen[0], about.seen[-1], len(about.seen)) == (1, 5, record.MAX_SEEN)
    assert about.resources == {"of": 5}
    assert len(set(about.seen)) == len(about.seen)


def test_no_object_is_no_facts() -> None:
    with pytest.raises(DecodeError, match="expected an object"):
        read([])
