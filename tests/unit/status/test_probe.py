"""The probe's command line, which is parsed without click, and what it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import nri
from nri.cli.status import status
from nri.status.client import DEFAULT_STATUS_SOCKET, AskError
from nri.status.judging import DEGRADED, NO_BRIDGE, THRESHOLDS, WELL
from nri.status.probe import Probe, parse, socket_path
from tests.support import status_documents as documents
from tests.support.status_server import serving

ROOT = Path(nri.__file__).parent.parent

VALID = [
    ["--check"],
    ["--check", "--socket", "/a.sock"],
    ["--socket=/a.sock", "--check", "--check"],
    ["--check", "--config", "/etc/nri/v1bridge.json"],
    ["--check", "--max-error-rate", "5", "--max-near-deadline=0.5", "--max-late", "1e3"],
    ["--check", "--max-late=1", "--max-late=2"],
    ["--check", "--socket", "--check"],
    ["--alive"],
    ["--alive", "--socket", "/a.sock"],
]
INVALID = [
    [],
    ["--json"],
    ["--alive", "--check"],
    ["--check", "--help"],
    ["--check", "--json"],
    ["--check", "--no-bridge"],
    ["--check", "--watch"],
    ["--check", "x"],
    ["--check", "--"],
    ["--check", "--socket"],
    ["--check", "--socket", "/a", "--config", "/b"],
    ["--check", "--max-late"],
    ["--check", "--max-late", "-1"],
    ["--check", "--max-late", "nan"],
    ["--check", "--max-late", "inf"],
    ["--check", "--max-error-rate", "101"],
    ["--check", "--max-error-rate", "5%"],
    ["--check=1"],
    ["--chec"],
]


def test_valid_probes_are_parsed_as_click_parses_them() -> None:
    for words in VALID:
        probe = parse(words)
        assert probe is not None, words
        given = status.make_context("status", [*words]).params
        assert (probe.socket, probe.options_file) == (given["socket"], given["options_file"])
        assert probe.is_alive == given["alive"]
        for name in THRESHOLDS:
            assert getattr(probe.thresholds, name) == given[name], words


def test_invalid_probes_and_other_commands_are_left_to_click() -> None:
    assert [words for words in INVALID if parse(words) is not None] == []
    for words in (words for words in INVALID if "--socket" in words or "--max-late" in words):
        done = CliRunner().invoke(status, words)
        assert done.exit_code == 2, words
        assert "Error: " in done.output


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{}", DEFAULT_STATUS_SOCKET),
        ('{"recordFile": null}', DEFAULT_STATUS_SOCKET),
        ('{"recordFile": "/run/x/a.record"}', "/run/x/a.sock"),
        ('{"recordFile": "/run/x/a"}', "/run/x/a.sock"),
    ],
)
def test_the_socket_lies_beside_the_record(tmp_path: Path, text: str, path: str) -> None:
    file = tmp_path / "v1bridge.json"
    file.write_text(text)
    assert socket_path("", str(file)) == path
    assert socket_path("/given.sock", str(file)) == "/given.sock"
    assert socket_path("", "") == DEFAULT_STATUS_SOCKET


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"recordFile": 3}', "recordFile is 3, expected an absolute path"),
    ],
)
def test_options_that_cannot_be_used_are_an_error(tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "v1bridge.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(AskError) as caught:
        socket_path("", str(file))
    assert str(caught.value) == f"{file} cannot be used: {why}; expected the bridge options"


SLOW_TO_LOAD = {
    *("asyncio", "click", "dataclasses", "logging", "selectors", "socket", "subprocess", "textwrap", "typing"),
}


def test_probe_loads_nothing_slow() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "sys.argv[1:] = ['status', '--check', '--socket', '/no/sock']\n"
        "from nri.cli.entry import main\n"
        "try:\n    main()\n"
        "except SystemExit as ended:\n    print(ended.code)\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    line, code, modules = ran.stdout.splitlines()
    assert (line, code) == ("no bridge: /no/sock does not exist", "2")
    assert SLOW_TO_LOAD & set(modules.split()) == set()


def test_liveness_asks_only_that_no_bridge_hangs(tmp_path: Path) -> None:
    path = tmp_path / "run/v1bridge.sock"
    alive = Probe(str(path), is_alive=True)
    assert alive.judge().line == f"well: {path} does not exist"
    hanging = {"event": "StartContainer", "name": "default/web", "seconds": 13.0, "allowed": 2.0}
    for answer, code in (
        (documents.degraded(), WELL),
        (documents.connecting(), WELL),
        (documents.healthy(inProgress={**hanging, "seconds": 11.0}), WELL),
        (documents.healthy(inProgress=hanging), DEGRADED),
        ({"protocol": 1}, NO_BRIDGE),
        (b"", NO_BRIDGE),
    ):
        with serving(path, answer):
            assert alive.judge().code == code, answer


def test_liveness_is_the_exit_status(tmp_path: Path) -> None:
    done = CliRunner().invoke(status, ["--alive", "--socket", str(tmp_path / "none.sock")])
    assert (done.exit_code, "does not exist" in done.output) == (0, True)
    assert CliRunner().invoke(status, ["--alive", "--check"]).exit_code == 2
