"""runc and crun run hooks: when, with what on stdin, and what becomes of a hook that fails."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import cgroups
from harness.containerd.enclosure import CommandFailedError
from tests.e2e.bundle import Runtime

pytestmark = pytest.mark.runtime


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest, need: Callable[..., None]) -> Iterator[Runtime]:
    need(request.param)
    with Runtime(request.param) as runtime:
        yield runtime


def hook(folder: Path, body: str) -> dict[str, Any]:
    """A hook that runs the shell commands `body` in `folder`, as config.json has it."""
    script = folder / "hook"
    script.write_text(f"#!/bin/sh\ncd '{folder}' || exit 1\n{body}\n")
    script.chmod(0o755)
    return {"path": str(script), "args": ["hook"], "env": ["PATH=/usr/bin:/bin"]}


def test_create_runtime_hook_gets_the_state_and_a_limited_cgroup(runtime: Runtime, tmp_path: Path) -> None:
    web_cgroup = f"{runtime.enclosure.cgroup_parent}/web"
    knobs = [
        cgroups.directory("cpu", web_cgroup) / "cpu.cfs_quota_us",
        cgroups.directory("cpu", web_cgroup) / "cpu.shares",
        cgroups.directory("cpuset", web_cgroup) / "cpuset.cpus",
    ]
    seen = hook(tmp_path, f"cat > state\ncat {' '.join(map(str, knobs))} > knobs")
    web = runtime.bundle(
        "web",
        hooks={"createRuntime": [seen]},
        annotations={"team": "blue"},
        cpu_quota=50_000,
        cpu_period=100_000,
        cpu_shares=512,
        cpuset_cpus="0",
    )

    runtime.create(web)

    state = json.loads((tmp_path / "state").read_text())
    assert (state["id"], state["bundle"]) == (web.id, str(web.path))
    assert state["pid"] == runtime.state(web)["pid"] > 0
    assert state["annotations"] == {"team": "blue"}
    assert (tmp_path / "knobs").read_text().split() == ["50000", "512", "0"]


def test_a_failing_hook_prevents_the_container(runtime: Runtime, tmp_path: Path) -> None:
    failing = hook(tmp_path, "cat > state\necho >&2 no, because\nexit 3")
    web = runtime.bundle("web", hooks={"createRuntime": [failing]})

    with pytest.raises(CommandFailedError) as refused:
        runtime.create(web)

    if runtime.program == "runc":
        assert "exit status 3, stdout: , stderr: no, because" in refused.value.stderr
    else:  # crun gives hooks /dev/null unless told otherwise
        assert "(exit code: 3)" in refused.value.stderr
        assert "because" not in refused.value.stderr
    assert runtime.ids() == []
    assert not cgroups.processes(web.cgroup)


def test_crun_keeps_a_hooks_stderr_where_an_annotation_says(need: Callable[..., None], tmp_path: Path) -> None:
    need("crun")
    with Runtime("crun") as crun:
        failing = hook(tmp_path, "echo >&2 no, because\nexit 3")
        kept = {"run.oci.hooks.stderr": str(tmp_path / "stderr")}
        web = crun.bundle("web", hooks={"createRuntime": [failing]}, annotations=kept)
        with pytest.raises(CommandFailedError):
            crun.create(web)
    assert (tmp_path / "stderr").read_text() == "no, because\n"


def test_poststop_hook_runs_when_the_container_is_deleted(runtime: Runtime, tmp_path: Path) -> None:
    web = runtime.bundle("web", hooks={"poststop": [hook(tmp_path, "cat > state")]})
    runtime.create(web)
    runtime.start(web)
    assert not (tmp_path / "state").exists()

    runtime.delete(web, force=True)

    state = json.loads((tmp_path / "state").read_text())
    assert (state["id"], state["status"]) == (web.id, "stopped")
    assert not state.get("pid")  # runc leaves it out, crun says 0
    assert runtime.ids() == []
