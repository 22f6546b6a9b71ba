"""``nri simulate``: what it launches, shows, records and replays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from nri.adaptation import AdaptationError, recording
from nri.adaptation.lifecycle import PodTemplate
from tests.integration.adaptation.starting import SERVE, STUB, install, outside
from tests.integration.cli.running import SOURCE, Ran, inside, process
from tests.support.processes import MEASURED
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path

LOGGER = STUB + "    def create_container(self, request, call):\n        print(request.container.env, flush=True)\n"
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
        row["output"] = [line for line in row["output"] if not line.startswith("pod ")]  # has a process number
    return rows


@pytest.fixture
def logger(tmp_path: Path) -> Path:
    return install(tmp_path / "plugins", "10-logger", LOGGER + SERVE)


def test_the_timeline_shows_event_plugin_result_time_and_what_was_printed(logger: Path) -> None:
    ran = simulate("--plugin", logger)
    assert (ran.status, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["EVENT", "POD", "PLUGIN", "RESULT", "TIME"]
    assert (*lines[1].split()[:3], lines[2]) == (
        "Configure",
        "-",
        "10-logger",
        "  wants RunPodSandbox, CreateContainer",
    )
    at = [line.split()[0] for line in lines].index("CreateContainer")
    assert lines[at].split()[1:4] == ["web-0/app-0", "10-logger", "ok"]
    assert lines[at].endswith(" ms")
    assert lines[at + 1].startswith("    ['PATH=")


def test_an_event_that_no_plugin_wants_is_shown_also_after_a_plugin_has_connected(tmp_path: Path) -> None:
    plugin = install(tmp_path / "plugins", "10-stopped", STUB.replace("run_pod", "stop_pod") + SERVE)
    ran = simulate("--plugin", plugin, "--containers", 0, "--json")
    shown = [(row["event"], row["result"]) for row in timeline(ran)]
    nothing = "no plugin wants it"
    assert [each for each in shown if each[1] == nothing] == [
        ("RunPodSandbox", nothing),
        ("RemovePodSandbox", nothing),
    ]


def test_a_recorded_life_replays_to_the_same_timeline(logger: Path, tmp_path: Path) -> None:
    file = tmp_path / "life.jsonl"
    made = simulate(
        "--plugin", logger, "--pods", 2, "--containers", 2, "--label", "tier=x", "--record", file, "--json"
    )
    replayed = simulate("--plugin", logger, "--events", file, "--json")
    assert (made.status, replayed.status) == (0, 0)
    assert timeline(replayed) == timeline(made)
    assert len(file.read_text().splitlines()) == 2 * (3 + 2 * 8)
    again = tmp_path / "again.jsonl"
    assert simulate("--events", file, "--record", again).stdout == ""
    assert again.read_bytes() == file.read_bytes()


def test_either_style_has_the_same_timeline(logger: Path) -> None:
    new, old = (simulate("--plugin", logger, "--style", style, "--json") for style in ("rpc", "state-change"))
    assert timeline(new) == timeline(old)


def test_what_is_made_up_can_be_chosen() -> None:
    shape = PodTemplate(annotations={"a": "1"}, labels={"b": "2"}, cgroup_parent="kubepods-burstable.slice", pid=42)
    steps = list(shape.lives())
    uid = steps[0].pod.uid.replace("-", "_")
    assert (steps[0].pod.annotations["a"], steps[0].pod.labels["b"], steps[0].pod.pid) == ("1", "2", 42)
    assert steps[0].pod.linux.cgroup_parent == f"kubepods-burstable-pod{uid}.slice"
    started = steps[3].container
    assert started is not None
    assert (started.pid, started.annotations.get("a")) == (42, None)
    assert started.linux.cgroups_path == f"kubepods-burstable-pod{uid}.slice:cri-containerd:{started.id}"
    assert [list(PodTemplate(seed=seed).lives()) == list(PodTemplate(seed=1).lives()) for seed in (1, 2)] == [
        True,
        False,
    ]


def test_what_plugins_change_and_where_they_are_in_conflict_is_shown(tmp_path: Path) -> None:
    for name in ("10-one", "20-two"):
        install(tmp_path / "plugins", name, SETTER + SERVE)
    ran = simulate("--plugin-dir", tmp_path / "plugins")
    assert ran.status == 1
    assert "\n  sets annotations a, annotations b\n" in ran.stdout
    conflict = 'CreateContainer fails: plugins "20-two" and "10-one" both tried to set Annotations a'
    assert conflict in " ".join(ran.stdout.split())
    assert "StartContainer" not in ran.stdout
    events = [line.split()[0] for line in ran.stdout.splitlines() if not line.startswith(" ")]
    at = events.index("StopContainer")
    assert events[at:] == ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"]


def test_an_error_is_shown_and_is_exit_status_1(tmp_path: Path) -> None:
    failing = (
        STUB.replace("from nri", "from nri.errors import NRIError\nfrom nri", 1)
        + "    def stop_pod_sandbox(self, request, call):\n        raise NRIError('no\\x1b[31m')\n"
    )
    ran = simulate("--plugin", install(tmp_path, "10-failing", failing + SERVE))
    assert ran.status == 1
    assert "error: no\\x1b[31m" in ran.stdout


def test_a_plugin_that_does_not_start_is_exit_status_1(tmp_path: Path) -> None:
    ran = simulate("--plugin", install(tmp_path, "10-bad", "#!/bin/true\n"), "--pods", 0)
    assert ran.status == 1
    assert "plugin 10-bad did not register" in ran.stdout


def test_a_plugin_whose_file_has_no_index_gets_its_place(tmp_path: Path) -> None:
    first, second = install(tmp_path, "b.py", STUB + SERVE), install(tmp_path, "a.py", STUB + SERVE)
    ran = simulate("--plugin", first, "--plugin", second, "--pods", 0, "--json")
    assert [row["plugin"] for row in ran.json if row["event"] == "Configure"] == ["00-b.py", "01-a.py"]


def test_it_waits_for_plugins_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    result: list[Ran] = []
    words = ["simulate", "--socket", str(path), "--wait", "2", "--pods", "0", "--json"]
    running = threading.Thread(target=lambda: result.append(process(*words)))
    running.start()
    plugins = [outside(path, index="10"), outside(path, index="20")]
    for plugin in plugins:
        plugin.register(SOON)
    running.join()
    assert all(plugin.gone(SOON) for plugin in plugins)
    assert [row["event"] for row in result[0].json].count("Synchronize") == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[]", "found a list, expected an object"),
        ("[" * 100000, "is not JSON: "),
        ("{}", "found the event None, expected one such as RunPodSandbox"),
        ('{"event": []}', "found the event \\[\\]"),
        ('{"event": "RunPodSandbox"}', "RunPodSandbox has no pod with an id"),
        ('{"event": "RunPodSandbox", "pod": {"id": "a"}, "more": 1}', "found the key 'more', expected event, pod"),
        ('{"event": "RunPodSandbox", "pod": {"idd": "a"}}', 'pod: .* has no field named "idd"'),
        ('{"event": "RunPodSandbox", "pod": {"id": 1}}', "pod: "),
        ('{"event": "RunPodSandbox", "pod": 1}', "pod: "),
        (
            '{"event": "RunPodSandbox", "pod": {"id": "a"}, "container": {"id": "b"}}',
            "found 'container', which RunPod",
        ),
        ('{"event": "StopContainer", "pod": {"id": "a"}}', "StopContainer has no container with an id"),
    ],
)
def test_a_bad_file_is_told_by_file_line_and_fault(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "life.jsonl"
    file.write_text(f'{{"event": "RunPodSandbox", "pod": {{"id": "a"}}}}\n\n{line}\n')
    with pytest.raises(AdaptationError, match=rf"life\.jsonl:3: {complaint}"):
        recording.read(str(file))


def test_a_file_that_is_not_there_is_an_error_in_one_line(tmp_path: Path, logger: Path) -> None:
    ran = simulate("--plugin", logger, "--events", tmp_path / "none")
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr == f"{tmp_path}/none: can't be read: No such file or directory\n"
    assert simulate("--record", tmp_path / "none" / "file").status == 1


@pytest.mark.parametrize("words", [[], ["--wait", "1", "--plugin", "x"], ["--plugin", "x", "--timeout", "nan"]])
def test_a_wrong_command_line_is_status_2(words: list[str]) -> None:
    assert simulate(*words).status == 2


def test_json_has_a_row_for_each_exchange(logger: Path) -> None:
    rows = timeline(simulate("--plugin", logger, "--json"))
    created = next(row for row in rows if row["event"] == "CreateContainer")
    assert created == {
        "event": "CreateContainer",
        "pod": "web-0",
        "container": "app-0",
        "plugin": "10-logger",
        "result": "ok",
        "error": None,
        "output": created["output"],
    }
    assert json.dumps(created["output"]).startswith("[\"['PATH=")


def test_the_timeline_has_80_columns_with_any_name(tmp_path: Path) -> None:
    name, pod = f"10-{'p' * 60}", "w" * 63
    printing = "    def stop_pod_sandbox(self, request, call):\n        print('o' * 300, flush=True)\n"
    plugin = install(tmp_path / "plugins", name, SETTER + printing + SERVE)
    events = tmp_path / "events"
    assert simulate("--record", events).status == 0
    events.write_text(events.read_text().replace("web-0", pod).replace("app-0", "a" * 63))
    ran = simulate("--plugin", plugin, "--events", events)
    assert ran.status == 0
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "EVENT                 POD          PLUGIN        RESULT                     TIME"
    assert "wwwww…aaaaa  10-pp…pppppp" in ran.stdout
    assert "".join("".join(lines).split()).count("o" * 300) == 1


def test_progress_is_no_part_of_the_output(logger: Path) -> None:
    """Progress begins at once here, and stdout and stderr are no terminals."""
    code = "import nri.cli.progress as progress; progress.EVERY = 0.001\nfrom nri.cli.entry import main; main()"
    command = [sys.executable, "-c", code, "simulate", "--plugin", str(logger), "--pods", "100"]
    environment = {"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], **MEASURED}
    shown, as_json = (
        subprocess.run([*command, *words], capture_output=True, text=True, check=True, env=environment)
        for words in ([], ["--json"])
    )
    assert " events (" not in shown.stdout + as_json.stdout
    assert "of 1100 events (" in shown.stderr
    assert len(json.loads(as_json.stdout)) > 300
    assert as_json.stderr == ""
