"""The lines that show people an adjustment."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings

from nri.adjust.apply import apply
from nri.adjust.diff import MAX_VALUE, diff
from tests.unit.adjust.documents import ADJUST
from tests.unit.types.mutations import mutated

CONFIG: dict[str, Any] = {
    "process": {"args": ["sh"], "env": ["PATH=/bin", "DEBUG=1"], "rlimits": [{"type": "RLIMIT_CORE", "hard": 0}]},
    "mounts": [{"destination": "/proc", "type": "proc"}, {"destination": "/data", "source": "/a"}],
    "annotations": {"io.kubernetes.x/y": "1"},
    "hooks": {"poststop": [{"path": "/bin/a"}]},
    "linux": {
        "devices": [{"path": "/dev/a", "type": "c"}],
        "namespaces": [{"type": "pid"}, {"type": "user"}],
        "resources": {"devices": [{"allow": False}], "cpu": {"shares": 1}, "hugepageLimits": []},
    },
}


def test_each_kind_of_change_has_its_line() -> None:
    after = copy.deepcopy(CONFIG)
    adjust = {
        "args": ["sh", "-c", "x"],
        "env": {"DEBUG": None, "NEW": ""},
        "rlimits": [{"type": "RLIMIT_CORE", "hard": 1, "soft": 0}],
        "mounts": {
            "/data": {"source": "/b"},
            "/srv": {"source": "/srv", "type": "bind", "options": ["rbind"]},
            "/proc": None,
        },
        "annotations": {"io.kubernetes.x/y": "2", "a": "b"},
        "hooks": {"poststop": [{"path": "/bin/b"}]},
        "linux": {
            "devices": [{"path": "/dev/b", "type": "c", "major": 1, "minor": 3}],
            "namespaces": [{"type": "user", "remove": True}, {"type": "ipc", "path": "/x"}],
            "resources": {"cpu": {"shares": 2}, "hugepageLimits": [{"pageSize": "2MB", "limit": 1}]},
        },
    }
    assert diff(CONFIG, after) == ""
    apply(after, adjust)
    assert diff(CONFIG, after).splitlines() == [
        '~ process.args: ["sh"] -> ["sh", "-c", "x"]',
        '- process.env[DEBUG]: "1"',
        '+ process.env[NEW]: ""',
        "~ process.rlimits[RLIMIT_CORE].hard: 0 -> 1",
        "+ process.rlimits[RLIMIT_CORE].soft: 0",
        '- mounts[/proc]: {"type": "proc"}',
        '~ mounts[/data].source: "/a" -> "/b"',
        '+ mounts[/srv]: {"source": "/srv", "type": "bind", "options": ["rbind"]}',
        '~ annotations[io.kubernetes.x/y]: "1" -> "2"',
        '+ annotations.a: "b"',
        '+ hooks.poststop[1]: {"path": "/bin/b"}',
        '+ linux.devices[/dev/b]: {"type": "c", "major": 1, "minor": 3}',
        "- linux.namespaces[user]: {}",
        '+ linux.namespaces[ipc]: {"path": "/x"}',
        '+ linux.resources.devices[1]: {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"}',
        "~ linux.resources.cpu.shares: 1 -> 2",
        '+ linux.resources.hugepageLimits[2MB]: {"limit": 1}',
    ]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"a": 1}, {"a": True}, "~ a: 1 -> true"),
        ({"a": [1]}, {"a": [1, 2]}, "~ a: [1] -> [1, 2]"),
        ({"a": None}, {}, "- a: null"),
        ({"a": {}}, {"a": []}, "~ a: {} -> []"),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, ""),
        ({"a": [{}, {"x": 1}]}, {"a": [{}]}, '- a[1]: {"x": 1}'),
        ({"a": [{"x": 1}]}, {"a": [{"x": 2}, {}]}, '~ a: [{"x": 1}] -> [{"x": 2}, {}]'),
        ({"mounts": [{"destination": "/a"}]}, {"mounts": [1]}, '~ mounts: [{"destination": "/a"}] -> [1]'),
        ({"mounts": [{"destination": 1}]}, {"mounts": []}, '- mounts[0]: {"destination": 1}'),
        (
            {"mounts": [{"destination": "/a"}, {"destination": "/b"}]},
            {"mounts": [{"destination": "/b"}, {"destination": "/a"}]},
            "",
        ),
        ({"process": {"env": ["A=1"]}}, {"process": {"env": ["A=1", "A=2"]}}, '+ process.env[A #2]: "2"'),
        ({"process": {"env": ["A"]}}, {"process": {"env": [1]}}, '~ process.env: ["A"] -> [1]'),
        ({"a": "é\x1b[2J\x7f\ud800"}, {}, '- a: "é\\u001b[2J\\x7f\\ud800"'),
        ({"a\n": 1}, {}, "- [a\\n]: 1"),
    ],
)
def test_any_documents_can_be_compared(before: Any, after: Any, text: str) -> None:
    assert diff(before, after) == text


def test_long_values_are_shortened_or_shown_key_by_key() -> None:
    (line,) = diff({}, {"a": "x" * 1000}).splitlines()
    assert len(line) < MAX_VALUE + 30
    assert line.endswith("(1002 characters)")
    assert diff({}, {"a": {"b": "x" * 200, "c": 1}}).splitlines()[1] == "+ a.c: 1"
    assert diff({"a": {"b": {}, "c": "x" * 200}}, {}).splitlines()[0] == "- a.b: {}"
    environment = [f"NAME{number}={number}" for number in range(50)]
    assert len(diff({}, {"process": {"env": environment}}).splitlines()) == 50


@settings(max_examples=100, deadline=None)
@given(mutated([CONFIG, ADJUST]), mutated([CONFIG, ADJUST]))
def test_lines_are_printable_and_none_for_equal_documents(before: Any, after: Any) -> None:
    before, after = [each if isinstance(each, dict) else {} for each in (before, after)]
    assert diff(before, json.loads(json.dumps(before))) == ""
    lines = diff(before, after).splitlines()
    assert all(line.isprintable() and line[:2] in ("+ ", "- ", "~ ") for line in lines)
    assert bool(lines) or sorted(map(str, before)) == sorted(map(str, after))
