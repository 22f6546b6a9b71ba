"""logger: what is in a document, that it is bounded, and how it gets into a file."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.plugins.logger import FIELDS, MAX_DOCUMENT, MAX_LINE, Logger, render
from nri.types.v1 import STATES, Result
from tests.unit.plugins.asking import SHOP, error, run

PLUGIN = Logger()


class Log:
    """A log file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(
        self, annotations: dict[str, str] | None = None, *, conf: Any = None, **changes: Any
    ) -> None:
        result = run(PLUGIN, annotations or {}, {"file": str(self.path), **(conf or {})}, **changes)
        assert (result.error, result.adjust, result.metadata) == ("", None, {})

    def documents(self) -> list[Any]:
        return (
            [json.loads(line) for line in self.path.read_text().splitlines()]
            if self.path.exists()
            else []
        )

    def one(self, *args: Any, **options: Any) -> Any:
        """The document of a run."""
        self.path.unlink(missing_ok=True)
        self.run(*args, **options)
        (document,) = self.documents()
        return document


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


# What is logged


def test_a_document_has_what_the_request_has(log: Log) -> None:
    document = log.one({"a": "b"}, pid=7, parts={"process": {"args": ["sh"]}})
    assert document.pop("time")[10] == "T"
    assert document.pop("spec")["process"] == {"args": ["sh"]}
    assert document == {
        "state": "setup",
        "id": "id",
        "sandboxID": "pod",
        "pid": 7,
        "changes": [],
        "labels": SHOP,
    }


def test_each_state_is_logged_if_it_is_selected(log: Log) -> None:
    for state in STATES:
        assert log.one(state=state)["state"] == state
        log.path.unlink()
        log.run(conf={"states": [other for other in STATES if other != state]}, state=state)
        assert log.documents() == []


def test_each_field_is_logged_if_it_is_selected(log: Log) -> None:
    for field in FIELDS[:-1]:
        changes = {"pid": 7, "late": True, "results": [Result(plugin="other")]}
        assert list(log.one(conf={"fields": [field]}, **changes)) == [field]


def test_changes_are_those_since_the_last_logger(log: Log) -> None:
    asked = Result(plugin="device-injector", adjust={"env": {"A": "b"}}, metadata={"env": "A"})
    moved = Result(
        plugin="mover", cgroups_path="/a", updates=[{"id": "x", "resources": {}}], extra={"more": 1}
    )
    idle = Result(plugin="clearcfs")
    logger = Result(plugin="logger")
    changes = {"plugin": "device-injector", "adjust": {"env": {"A": "…"}}, "metadata": {"env": "A"}}
    assert log.one(results=[asked, idle])["changes"] == [changes, {"plugin": "clearcfs"}]
    assert log.one(results=[asked, logger, idle, moved])["changes"] == [
        {"plugin": "clearcfs"},
        {"plugin": "mover", "cgroupsPath": "/a", "updates": [{"id": "x", "resources": {}}]},
    ]
    assert log.one(results=[asked, logger])["changes"] == []


def test_values_of_variables_are_logged_only_if_asked_for(log: Log) -> None:
    parts = {
        "process": {"env": ["TOKEN=secret", "EMPTY=", "odd"]},
        "hooks": {"prestart": [{"path": "/x", "env": ["K=secret"]}]},
    }
    results = [
        Result(
            plugin="a",
            adjust={"env": {"NEW": "secret", "OLD": None}, "annotations": {"env": "prod"}},
        )
    ]
    labels = SHOP | {"env": "prod"}
    document = log.one(parts=parts, results=results, labels=labels)
    assert "secret" not in json.dumps(document)
    assert document["spec"]["process"]["env"] == ["TOKEN=…", "EMPTY=…", "odd=…"]
    assert document["changes"][0]["adjust"] == {
        "env": {"NEW": "…", "OLD": None},
        "annotations": {"env": "prod"},
    }
    assert document["labels"]["env"] == "prod"
    document = log.one(parts=parts, results=results, conf={"fields": ["env", "spec", "changes"]})
    assert json.dumps(document).count("secret") == 3


def test_without_a_file_stderr_gets_short_lines(capsys: pytest.CaptureFixture[str]) -> None:
    run(PLUGIN, {"a": "b" * 100_000, **{f"k{number}": "x" * 50 for number in range(1000)}})
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) <= 4096
    assert json.loads(line)["state"] == "setup"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["spec", "yes", "id", "null"]) | st.text(), JSON, min_size=1)
)
def test_a_document_is_one_line_of_ascii(document: dict[str, Any]) -> None:
    text = render(document, 10**6)
    assert text.count(b"\n") == 1
    assert all(32 <= byte < 127 for byte in text[:-1])
    assert isinstance(json.loads(text), dict)


# Bounds

HOSTILE: list[Any] = [
    {"spec": "x" * 10**6},
    {"spec": {}, "x" * 10**6: "\x1b" * 10**6},
    {"spec": {"annotations": {f"k{number}": "\u2028" * 500 for number in range(10_000)}}},
    {"spec": [list(range(1000)) for _ in range(1000)]},
    {"spec": [[] for _ in range(100_000)]},
    {"spec": [{}] * 200 + [None] * 100_000},
    {"a": 10**400, "b": [-(10**400)] * 200},
    {"spec": {f"{number}": "x" * 70 for number in range(2000)}},
    {f"{number}" * 5: None for number in range(100_000)},
]


def nested(depth: int) -> Any:
    return [nested(depth - 1)] * 3 if depth else "x"


@pytest.mark.parametrize("limit", [MAX_LINE, MAX_DOCUMENT])
def test_document_is_bounded_and_marks_omissions(limit: int) -> None:
    for number, document in enumerate([*HOSTILE, {"spec": nested(10)}]):
        text = render(document, limit)
        assert len(text) <= limit, number
        assert "…" in str(json.loads(text)), number


# The file


def test_concurrent_documents_do_not_mix(log: Log) -> None:
    annotations = {f"k{number}": "x" * 200 for number in range(200)}
    threads = [threading.Thread(target=log.run, args=(annotations,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.documents()) == 20
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_only_a_regular_file_is_written_to(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "gone", "folder", "pipe", "missing/log"):
        path = tmp_path / name
        assert (told := error(PLUGIN, {}, {"file": str(path)})).startswith(
            f"the log {path} cannot be written: "
        )
    assert "No such file or directory; expected a file" in told
    assert target.read_text() == "kept"
    assert not (tmp_path / "nothing").exists()
    assert "is not a regular file" in error(PLUGIN, {}, {"file": "/dev/null"})


def test_log_that_takes_no_more_is_an_error(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda fd, data: 10)
    assert error(PLUGIN, {}, {"file": str(log.path)}).startswith(f"the log {log.path} took 10 of ")
