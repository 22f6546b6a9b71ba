"""The command line of the bridge: what it cannot begin with is one line and an exit status."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.cli.running import process
from tests.integration.v1bridge.bridge_process import COMMAND, BridgeProcess
from tests.support.host import Host


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "settings.json: cannot be read: No such file or directory; expected the bridge options"),
        (b"{", "settings.json: bridge options: they are not JSON: "),
        (b"\xff{}", "settings.json: is not UTF-8: "),
        (b'{"logLevl": 1, "a\\nb": 2}', r"logLevl: unknown key, did you mean logLevel?; ['a\nb']: unknown key, "),
    ],
    ids=range(4),
)
def test_settings_of_the_command_line_have_to_be_right(
    host: Host, bridge: BridgeProcess, content: bytes | None, why: str
) -> None:
    if content is not None:
        (host.root / "settings.json").write_bytes(content)
    bridge.start(*COMMAND, "--config", "settings.json", stderr=subprocess.PIPE)
    assert bridge.wait() == 1
    assert why in bridge.only_line()


@pytest.mark.parametrize("index", ["100", "١٢"])
def test_an_index_is_two_digits(bridge: BridgeProcess, index: str) -> None:
    bridge.start(*COMMAND, f"--idx={index}", stderr=subprocess.PIPE)
    assert bridge.wait() == 1
    assert bridge.only_line() == f"found the plugin index {index!r}, expected two digits, as in 10"


def test_a_command_line_that_is_wrong_is_explained(bridge: BridgeProcess) -> None:
    bridge.start(*COMMAND, "--wat", stderr=subprocess.PIPE)
    assert bridge.wait() == 2
    said = bridge.output()[1]
    assert said.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in said


def test_help_says_how_it_is_called_under_either_name(bridge: BridgeProcess) -> None:
    bridge.start(*COMMAND, "-h", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert bridge.wait() == 0
    own, errors = bridge.output()
    assert errors == ""
    ran = process("bridge", "--help")
    assert (ran.status, ran.stderr) == (0, "")
    assert own.startswith("Usage: v1bridge [OPTIONS]\n")
    assert ran.stdout.startswith("Usage: nri bridge [OPTIONS]\n")
    assert own.partition("\n")[2] == ran.stdout.partition("\n")[2]
    for word in ("--socket PATH", "--idx NN", "--config FILE", "/var/run/nri/nri.sock"):
        assert word in own
