"""runc and crun run hooks: when, with what on stdin, and what becomes of a hook that fails."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import cgroups
from harness.containerd.enclosure import CommandFailedError
from tests.e2e.bundle import Bundle, Runtime, enclosed, nri_hooks
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest, need: Callable[..., None]) -> Iterator[Runtime]:
    need(request.param)
    with enclosed(request.param) as runtime:
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
    with enclosed("crun") as crun:
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


# `nri hook`, compiled, as such a hook


def with_hooks(runtime: Runtime, installed: Path, log: Path) -> Bundle:
    """A bundle of the class ls, which runs the installed command when it is created and deleted."""
    runtime.enclosure.install(installed)
    hooks = nri_hooks(log)
    return runtime.bundle("web", hooks=hooks, annotations={"qos.class": "ls"}, cpu_quota=50_000, cpu_period=100_000)


def test_the_chain_is_run_for_create_and_for_delete(runtime: Runtime, installed: Path, tmp_path: Path) -> None:
    web = with_hooks(runtime, installed, tmp_path / "hook.log")
    kept = StandIn(runtime.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    runtime.enclosure.configure({"type": "clearcfs"}, {"type": "keeper", "conf": {"a": [0, 1]}})

    runtime.create(web)
    pid = runtime.state(web)["pid"]
    runtime.start(web)
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "-1"
    runtime.delete(web, force=True)

    create, delete = kept.requests()
    assert (create["state"], create["id"], create["pid"]) == ("create", "web", pid)
    assert create["conf"] == {"a": [0, 1]}
    assert create["spec"]["cgroupsPath"] == web.cgroup
    assert create["spec"]["annotations"] == {"qos.class": "ls"}
    assert create["spec"]["resources"] == {"cpu": {"quota": 50_000, "period": 100_000}}
    assert set(create["spec"]["namespaces"]) == {"pid", "mount", "ipc", "uts"}
    assert [result["plugin"] for result in create["results"]] == ["clearcfs"]
    assert create["results"][0]["metadata"]["quota"] == "50000/100000"
    assert (delete["state"], delete["id"], delete.get("pid", 0)) == ("delete", "web", 0)


def test_a_plugin_that_fails_prevents_the_start_and_says_why(
    runtime: Runtime, installed: Path, tmp_path: Path
) -> None:
    web = with_hooks(runtime, installed, tmp_path / "hook.log")
    runtime.enclosure.configure({"type": "konfine", "conf": {"systemReserved": "0-8191"}})

    with pytest.raises(CommandFailedError) as refused:
        runtime.create(web)

    assert runtime.ids() == []
    reason = "nri hook create web: plugin konfine: no CPU is left for web"
    assert reason in (tmp_path / "hook.log").read_text()
    if runtime.program == "runc":
        assert reason in refused.value.stderr
