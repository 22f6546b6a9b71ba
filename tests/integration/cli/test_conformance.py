"""nri conformance: its report, its exit status, and the command lines that it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.testing.conformance import CHECKS
from tests.integration.cli.running import Ran, inside
from tests.support.host import Host

ANSWER = '{"plugin":"web","version":"0.1","error":""}'
LAX = f"#!/bin/sh\ncat >/dev/null\necho '{ANSWER}'\n"
"""It answers everything, so it breaks some rules."""


@pytest.fixture
def web(host: Host) -> Path:
    return host.script("web", LAX)


def run(*words: str | Path, cwd: Path | None = None) -> Ran:
    return inside("conformance", *map(str, words), cwd=cwd)


def answers_create(ran: Ran) -> bool:
    assert ran.stderr == ""
    return "ok    exit-0 " in ran.stdout


def test_a_rule_that_is_broken_is_explained(web: Path) -> None:
    ran = run("./web", cwd=web.parent)
    assert (ran.status, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("FAIL  broken "))
    assert [*lines[first : first + 4], lines[-1]] == [
        "FAIL  broken            What is empty, no JSON, or cut off is reported on stderr, and the exit status is 1",
        "      expected exit status 1, and the reason on stderr",
        f"      found    exit status 0, and nothing on stderr, for b'' on stdin; stdout: '{ANSWER}\\n'",
        "      docs/spec.md#exit-status",
        f"{len(CHECKS)} checks: {len(CHECKS) - 2} hold, 1 fail, 1 not judged: it does not conform",
    ]


def test_json_has_every_check(web: Path) -> None:
    ran = run(web, "--json")
    assert ran.status == 1
    assert (ran.json["conforms"], ran.json["binary"], ran.json["type"]) == (False, str(web), "web")
    checks = {each["id"]: each for each in ran.json["checks"]}
    assert list(checks) == list(CHECKS)
    assert checks["exit-0"] == {
        "id": "exit-0",
        "title": "A request is answered by one JSON object of at most 1 MiB, and exit status 0, before the deadline",
        "section": "exit-status",
        "verdict": "holds",
    }
    assert checks["broken"]["verdict"] == "fails"
    assert checks["broken"]["expected"] == "exit status 1, and the reason on stderr"
    assert "b'' on stdin" in checks["broken"]["found"]


def test_requests_have_an_annotation_and_are_made_of_a_file(host: Host) -> None:
    web = host.script(
        "web",
        f"#!/bin/sh\nrequest=$(cat)\ncase $request in *batch*) exit 4 ;; esac\necho '{ANSWER}'\n",
    )
    request = host.root / "request.json"
    request.write_text(
        '{"version":"0.1","state":"create","id":"a","spec":{"annotations":{"class":"batch"}}}'
    )
    assert answers_create(run(web))
    for words in (["--annotation", "class=batch"], ["--request", request.name]):
        assert not answers_create(run(web, *words, cwd=host.root))


def test_a_conf_is_json_or_a_file(host: Host) -> None:
    picky = host.script(
        "web", LAX.replace("cat >/dev/null", """grep -q '"classes":"ls"' || exit 4""")
    )
    conf = host.root / "conf.json"
    conf.write_text('{"classes": "ls"}')
    for value in (conf, conf.read_text()):
        assert answers_create(run(picky, "--conf", value))
    assert not answers_create(run(picky))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["./nothing"], "Invalid value for 'BINARY': File './nothing' does not exist."),
        (["./text"], "Invalid value for 'BINARY': File './text' is not executable."),
        (
            ["./web", "--conf", "nothing.json"],
            "nothing.json cannot be read: No such file or directory; expected a",
        ),
        (["./web", "--conf", "a\0b"], "cannot be read: embedded null byte"),
        (["./web", "--conf", "{"], "it is not JSON: line 1 column 2"),
        (["./web", "--conf", "./web"], "./web is not JSON: line 1 column 1"),
        (["./web", "--conf", "/dev/zero"], "/dev/zero has more than 65536 bytes"),
        (["./a type"], "./a type: its name is no type of a plugin: letters, digits and . _ -"),
    ],
)
def test_a_wrong_command_line_runs_nothing(web: Path, words: list[str], said: str) -> None:
    (web.parent / "text").write_text("")
    os.link(web, web.parent / "a type")
    ran = run(*words, cwd=web.parent)
    assert (ran.status, ran.stdout) == (2, "")
    assert said in ran.stderr
