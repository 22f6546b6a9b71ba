"""Ten pods and five plugins: in `nri simulate`, in nri.testing, and compiled, with a bridge on the node's cgroups."""

from __future__ import annotations

import json
import os
import runpy
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from nri.adaptation import EventError, Outcome, Runtime
from nri.adaptation.lifecycle import LifecycleEvent, Replayer, lives
from nri.authoring.simulated import NodeCgroups
from nri.cgroups import CgroupError, find
from nri.client.resident import Residents
from nri.testing import CgroupTree, Pod, invoke
from nri.types.v1 import Result
from nri.v1bridge import Bridge, BridgeOptions
from nri.v2 import stub
from tests.integration.authoring.authored import build
from tests.integration.cli.running import inside, process
from tests.support import five

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make cgroups"),
    pytest.mark.kernel_cgroups,
    pytest.mark.runtime,
]

PODS: dict[str, tuple[int, dict[str, str]]] = {
    "silent": (4, {}),
    "capped": (3, {"cap.example.com": "20000"}),
    "refused": (3, {"cap.example.com": "much"}),
}
LIMITS = {
    "cpu": {"shares": 512, "quota": 50_000, "period": 100_000},
    "memory": {"limit": 256 << 20},
}
UPDATED = {
    "cpu": {"shares": 1024, "quota": 100_000, "period": 100_000},
    "memory": {"limit": 512 << 20},
}
QUOTA_FILES = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")

Asked = tuple[str, str, str, str]
"""State, plugin, pod and container; "" for the sandbox."""
Answer = tuple[Asked, dict[str, Any], dict[str, str]]
"""With the result, and the files of the container's cgroup that were written."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five plugins, compiled."""
    folder = tmp_path_factory.mktemp("five")
    ran = build(folder, *five.write(folder), "--name", "five")
    assert ran.status == 0, ran.stderr
    return folder


def with_a_bridge(
    folder: Path, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Answer], list[str], list[str], int]:
    """The answers of the plugins as residents of a bridge, the errors of the events, the reasons of the refusals in
    its status, and the version of the cgroups.
    """
    answers: list[Answer] = []
    failures: list[str] = []
    run = Residents.run

    def noting(self: Residents, path: str, plugin: str, request: bytes, *more: Any) -> Any:
        asked = json.loads(request)
        before = quota_files(asked)
        output = run(self, path, plugin, request, *more)
        written = dict(quota_files(asked).items() - before.items())
        answers.append(
            ((asked["state"], plugin, *names[asked["id"]]), json.loads(output.stdout), written)
        )
        return output

    monkeypatch.setattr(Residents, "run", noting)
    (place / "conf").mkdir()
    (place / "conf/five.conf").write_bytes((folder / "five.conf").read_bytes())
    options = BridgeOptions(
        conf_dir=str(place / "conf"),
        bin_dirs=(str(folder / "dist/five"),),
        record_dir=str(place / "record"),
        check_owner=False,
    )
    with (
        NodeCgroups() as made,
        Runtime("containerd", "2.1.9", request_timeout=60) as runtime,
    ):
        count, about = PODS[kind]
        pods = [
            made.pod(f"web-{number}", 1, 0.5, 256 << 20, annotations=about)
            for number in range(count)
        ]
        names = {each.id: (pod.name, each.name) for pod in pods for each in pod.containers}
        names |= {pod.id: (pod.name, "") for pod in pods}
        ours, theirs = socket.socketpair()
        bridge = Bridge(options)
        serving = threading.Thread(
            target=stub.Runner(bridge, name="v1bridge", index="10", sock=theirs).run
        )
        serving.start()
        runtime.attach(ours)

        def ended(item: LifecycleEvent, outcome: Outcome | None, error: EventError | None) -> None:
            failures.extend([error.message] if error is not None else [])
            if outcome is not None:
                made.follow(runtime.store, item, outcome)

        Replayer(runtime, ended).replay(lives(made.add(pods)))
        runtime.close()
        serving.join()
        status = json.loads(bridge.status.answer(""))
        bridge.close()
        return answers, failures, [refusal["error"] for refusal in status["refusals"]], made.version


def quota_files(request: dict[str, Any]) -> dict[str, str]:
    """The container's quota on the node; nothing where it has no cgroup."""
    files = {}
    with suppress(CgroupError):
        directory = find(request["spec"]["cgroupsPath"]).directory("cpu")
        for name in QUOTA_FILES:
            with suppress(FileNotFoundError), open(f"{directory}/{name}") as file:
                files[name] = file.read().strip()
    return files


def simulated(folder: Path, kind: str, version: int) -> tuple[list[Answer], list[str], list[str]]:
    """The answers, failures of events and notes that `nri simulate` shows for the sources."""
    count, annotations = PODS[kind]
    words = [f"--annotation={key}={value}" for key, value in annotations.items()]
    sources = [f"{name}.py" for name in five.SOURCES]
    ran = process(
        "simulate",
        *sources,
        f"--pods={count}",
        f"--cgroups=v{version}",
        *words,
        "--json",
        cwd=folder,
    )
    answers = []
    for row in ran.json:
        if row["plugin"] is None:
            continue
        result: dict[str, Any] = {"metadata": row["result"], "error": row["error"] or ""}
        written = {}
        for line in row["output"]:
            key, _, value = line.partition(": ")
            if key.startswith("wrote "):
                written[key.removeprefix("wrote ")] = value
            else:
                result[key] = json.loads(value)
        answers.append(
            ((row["event"], row["plugin"], row["pod"], row["container"] or ""), result, written)
        )
    failures = [row["result"].partition(" fails: ")[2] for row in ran.json if row["plugin"] is None]
    return answers, failures, ran.stderr.splitlines()


def as_shown(answer: Answer) -> Answer:
    """An answer as `nri simulate` shows it."""
    asked, result, written = answer
    error = result["error"]
    words = " ".join([f"{key}={value}" for key, value in (result.get("metadata") or {}).items()])
    how = "ignored" if asked[1] == "guard" else "error"  # by its entry
    if result.get("refused"):
        how = "refused"
    shown = {"metadata": f"{how}: {error}" if error else words or "ok", "error": error}
    return (
        asked,
        shown | {key: result[key] for key in ("adjust", "updates") if result.get(key)},
        written,
    )


def in_tests(folder: Path, kind: str, version: int, asked: list[Asked]) -> list[Answer]:
    """The answers in nri.testing to the same requests, in this process."""
    plugins = {
        name: runpy.run_path(str(folder / f"{name}.py"))[name.capitalize()]()
        for name in five.SOURCES
    }
    confs = {entry["type"]: entry.get("conf") for entry in five.ENTRIES}
    count, annotations = PODS[kind]
    pods = {
        f"web-{number}": Pod(f"web-{number}", annotations=annotations) for number in range(count)
    }
    for pod in pods.values():
        pod.container("app-0", resources=LIMITS)
    last: dict[tuple[str, ...], Result] = {}
    answers = []
    with CgroupTree(f"v{version}") as tree:
        for state, plugin, name, container in asked:
            owner: Any = pods[name].containers[0] if container else pods[name]
            if state in ("resize", "update"):
                owner.resources = UPDATED
            if state in ("create", "update"):
                tree.add(owner)
            tree.forget()
            request = owner.request(state, conf=confs[plugin])
            if state in ("resize", "update", "delete"):
                request = request.replace(prev_result=last.get((plugin, name, container)))
            result = last[plugin, name, container] = invoke(plugins[plugin], request)
            written = {file.rpartition("/")[2]: text for file, text in tree.writes}
            answers.append(((state, plugin, name, container), result.to_value(), written))
    return answers


@pytest.mark.parametrize("kind", PODS)
def test_results_files_and_reports_are_the_same(
    folder: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, failures, refusals, version = with_a_bridge(folder, tmp_path, kind, monkeypatch)
    shown, failures_shown, notes = simulated(folder, kind, version)
    assert shown == [as_shown(answer) for answer in answers]
    assert failures_shown == failures
    assert in_tests(folder, kind, version, [asked for asked, _, _ in answers]) == answers
    unlisted = 'late acts on update, which its entry\'s "states" do not list: it is not asked'
    assert notes == [f"note: {unlisted}"]
    places = ["--conf-dir", str(folder), "--bin-dir", str(folder / "dist/five")]
    assert unlisted in inside("check", *places).stderr
    (tmp_path / "request").write_bytes(Pod("web").request("create").to_json())
    left_out = [f"# {name} does not run: it does not act on create" for name in ("guard", "giver")]
    assert (
        inside(
            "invoke", "create", "--request", str(tmp_path / "request"), *places
        ).stdout.splitlines()[:2]
        == left_out
    )
    said = "cap.example.com: found 'much', expected microseconds"
    assert [failure.partition(": ")[2] for failure in failures] == [f"plugin capper: {said}"] * len(
        refusals
    )
    assert refusals == ([said] * 3 if kind == "refused" else [])
    assert sum([bool(written) for _, _, written in answers]) == (6 if kind == "capped" else 0)
