"""``nri simulate`` with v2 plugins: what it launches and shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.adaptation.starting import SERVE, STUB, install
from tests.integration.cli.running import Ran, inside

LOGGER = (
    STUB
    + "    def create_container(self, request, call):\n        print(request.container.env, flush=True)\n"
)
SETTER = (
    STUB
    + "    def create_container(self, request, call):\n"
    + "        from nri.v2 import api\n"
    + "        return api.CreateContainerResponse(adjust={'annotations': {'a': '1', 'b': '2'}})\n"
)


def simulate(*words: object) -> Ran:
    return inside("simulate", *map(str, words))


def timeline(ran: Ran) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ran.json
    for row in rows:
        seconds = row.pop("seconds")
        assert seconds is None or seconds >= 0
        # Has a process number.
        row["output"] = [line for line in row["output"] if not line.startswith("pod ")]
    return rows


@pytest.fixture
def logger(tmp_path: Path) -> Path:
    return install(tmp_path / "plugins", "10-logger", LOGGER + SERVE)


def test_event_that_no_plugin_wants_is_shown(tmp_path: Path) -> None:
    plugin = install(
        tmp_path / "plugins", "10-stopped", STUB.replace("run_pod", "stop_pod") + SERVE
    )
    ran = simulate(plugin, "--containers", 0, "--json")
    shown = [(row["event"], row["result"]) for row in timeline(ran)]
    nothing = "no plugin wants it"
    assert [each for each in shown if each[1] == nothing] == [
        ("RunPodSandbox", nothing),
        ("RemovePodSandbox", nothing),
    ]


def test_runtimes_of_either_style_have_the_same_timeline(logger: Path) -> None:
    new, old = (
        simulate(logger, "--runtime", runtime, "--json")
        for runtime in ("cri-o:1.35.0", "containerd:1.7.0")
    )
    assert timeline(new) == timeline(old)


def test_a_conflict_of_the_plugins_of_a_folder_is_shown(tmp_path: Path) -> None:
    for name in ("10-one", "20-two"):
        install(tmp_path / "plugins", name, SETTER + SERVE)
    ran = simulate(tmp_path / "plugins")
    assert ran.status == 1
    conflict = (
        'CreateContainer fails: plugins "20-two" and "10-one" both tried to set Annotations a'
    )
    assert conflict in " ".join(ran.stdout.split())


def test_an_error_is_shown_and_is_exit_status_1(tmp_path: Path) -> None:
    failing = (
        STUB.replace("from nri", "from nri.errors import NRIError\nfrom nri", 1)
        + "    def stop_pod_sandbox(self, request, call):\n        raise NRIError('no\\x1b[31m')\n"
    )
    ran = simulate(install(tmp_path, "10-failing", failing + SERVE))
    assert ran.status == 1
    assert "error: no\\x1b[31m" in ran.stdout


def test_a_plugin_that_does_not_start_is_exit_status_1(tmp_path: Path) -> None:
    ran = simulate(install(tmp_path, "10-bad", "#!/bin/true\n"), "--pods", 0)
    assert ran.status == 1
    assert "plugin 10-bad did not register" in ran.stdout


def test_a_plugin_whose_file_has_no_index_gets_its_place(tmp_path: Path) -> None:
    files = [
        install(tmp_path, name, STUB + SERVE, 0o755 if name == "c" else 0o644)
        for name in ("b.py", "a.py", "c")
    ]
    ran = simulate(*files, "--v2", "--pods", 0, "--json")
    assert [row["plugin"] for row in ran.json if row["event"] == "Configure"] == [
        "00-b",
        "01-a",
        "02-c",
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["x", "--runtime", "containerd:1.6.20"],
        ["x", "--runtime", "crio:1.35"],
        ["x", "--config-dir", "/nonexistent"],
        ["x", "--timeout", "nan"],
        ["x", "--cpus", "nan"],
        ["x", "--cpus", "1e300"],
        ["x", "--memory", "1" * 30],
    ],
)
def test_a_wrong_command_line_is_status_2(words: list[str]) -> None:
    assert simulate(*words).status == 2


def test_json_has_a_row_for_each_exchange(logger: Path) -> None:
    rows = timeline(simulate(logger, "--json"))
    created = next(row for row in rows if row["event"] == "CreateContainer")
    assert created == {
        "event": "CreateContainer",
        "pod": "web-0",
        "container": "app-0",
        "plugin": "10-logger",
        "result": "ok",
        "error": None,
        "refused": False,
        "output": created["output"],
    }
    assert json.dumps(created["output"]).startswith("[\"['PATH=")


def test_the_timeline_has_80_columns_with_any_name(tmp_path: Path) -> None:
    printing = (
        "    def stop_pod_sandbox(self, request, call):\n        print('o' * 300, flush=True)\n"
    )
    plugin = install(tmp_path / "plugins", f"10-{'p' * 60}", SETTER + printing + SERVE)
    ran = simulate(plugin)
    assert ran.status == 0
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert (
        lines[0]
        == "EVENT                 POD          PLUGIN        RESULT                     TIME"
    )
    assert "  wants RunPodSandbox, StopPodSandbox, CreateContainer" in lines
    assert "web-0/app-0  10-pp…pppppp" in ran.stdout
    assert "".join("".join(lines).split()).count("o" * 300) == 1
