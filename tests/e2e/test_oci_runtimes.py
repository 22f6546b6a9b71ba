"""runc and crun run hooks: when, with what on stdin, and what becomes of a hook that fails."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.containerd import cgroups
from harness.containerd.enclosure import CommandFailedError
from tests.e2e.bundle import Bundle, OCIRuntime, enclosed, nri_hooks
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest, need: Callable[..., None]) -> Iterator[OCIRuntime]:
    need(request.param)
    with enclosed(request.param) as runtime:
        yield runtime


def test_crun_keeps_a_hooks_stderr_where_an_annotation_says(
    need: Callable[..., None], tmp_path: Path
) -> None:
    need("crun")
    with enclosed("crun") as crun:
        failing = {"path": "/bin/sh", "args": ["sh", "-c", "echo >&2 no, because; exit 3"]}
        kept = {"run.oci.hooks.stderr": str(tmp_path / "stderr")}
        web = crun.bundle("web", hooks={"createRuntime": [failing]}, annotations=kept)
        with pytest.raises(CommandFailedError):
            crun.create(web)
    assert (tmp_path / "stderr").read_text() == "no, because\n"


# `nri hook`, compiled, as such a hook


def with_hooks(runtime: OCIRuntime, installed: Path, log: Path) -> Bundle:
    """A bundle of the class ls, which runs the installed command when it is created and deleted."""
    runtime.enclosure.install(installed)
    hooks = nri_hooks(log)
    return runtime.bundle(
        "web", hooks=hooks, annotations={"qos.class": "ls"}, cpu_quota=50_000, cpu_period=100_000
    )


def test_the_chain_is_run_for_create_and_for_delete(
    runtime: OCIRuntime, installed: Path, tmp_path: Path
) -> None:
    web = with_hooks(runtime, installed, tmp_path / "hook.log")
    kept = StandIn(runtime.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    runtime.enclosure.configure({"type": "clearcfs"}, {"type": "keeper", "conf": {"a": [0, 1]}})

    runtime.create(web)
    pid = runtime.state(web)["pid"]
    runtime.start(web)
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "-1"
    runtime.delete(web, force=True)

    assert runtime.ids() == []
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
    runtime: OCIRuntime, installed: Path, tmp_path: Path
) -> None:
    web = with_hooks(runtime, installed, tmp_path / "hook.log")
    runtime.enclosure.configure({"type": "konfine", "conf": {"systemReserved": "0-8191"}})

    with pytest.raises(CommandFailedError) as refused:
        runtime.create(web)

    assert runtime.ids() == []
    assert not cgroups.processes(web.cgroup)
    reason = "nri hook create web: plugin konfine: no CPU is left for web"
    assert reason in (tmp_path / "hook.log").read_text()
    if runtime.program == "runc":
        assert reason in refused.value.stderr
