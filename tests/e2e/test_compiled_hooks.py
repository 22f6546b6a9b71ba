"""`nri hook`, compiled, as a hook of real OCI runtimes: what it does to a container, and how it stops one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import cgroups
from harness.containerd.enclosure import CommandFailedError
from tests.e2e import hang, unreserved
from tests.e2e.bundle import Bundle, Runtime
from tests.e2e.standin import StandIn
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

NRI = "/opt/nri/lib/nri"
LOG = "hook.log"
KONFINE = {"type": "konfine", "conf": {"systemReserved": [0]}}
CLEARCFS = {"type": "clearcfs"}


both = pytest.mark.parametrize("runtime", ["runc", "crun"], indirect=True)
"""For what depends on the runtime below; everything else is tried with runc."""


@pytest.fixture
def runtime(request: pytest.FixtureRequest, need: Callable[..., None], installed: Path) -> Iterator[Runtime]:
    name = getattr(request, "param", "runc")
    need(name)
    with Runtime(name) as runtime:
        runtime.enclosure.install(installed)
        yield runtime


def bundle(runtime: Runtime, *words: str, **create: Any) -> Bundle:
    log = ["--log-file", str(runtime.enclosure.root / LOG)]  # crun discards a hook's stderr
    hooks = {
        "createRuntime": [{"path": NRI, "args": ["nri", "hook", "create", *log, *words], **create}],
        "poststop": [{"path": NRI, "args": ["nri", "hook", "delete", *log]}],
    }
    annotations = {"qos.class": "ls"}
    return runtime.bundle("web", hooks=hooks, annotations=annotations, cpu_quota=50_000, cpu_period=100_000)


def test_the_quota_is_cleared_and_the_reserved_cpu_is_kept(runtime: Runtime, two_cpus: None) -> None:
    runtime.enclosure.configure(KONFINE, CLEARCFS)
    web = bundle(runtime)

    runtime.create(web)
    runtime.start(web)

    assert runtime.state(web)["status"] == "running"
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "-1"
    assert cgroups.knob(web.cgroup, "cpuset.cpus") == unreserved()


@both
def test_the_chain_is_run_for_create_and_for_delete(runtime: Runtime, tmp_path: Path) -> None:
    kept = StandIn(runtime.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    runtime.enclosure.configure(CLEARCFS, {"type": "keeper", "conf": {"a": [0, 1]}})
    web = bundle(runtime)

    runtime.create(web)
    pid = runtime.state(web)["pid"]
    runtime.start(web)
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


@both
def test_a_plugin_that_fails_prevents_the_start_and_says_why(runtime: Runtime) -> None:
    runtime.enclosure.configure({"type": "konfine", "conf": {"systemReserved": "0-8191"}})
    web = bundle(runtime)

    with pytest.raises(CommandFailedError) as refused:
        runtime.create(web)

    assert runtime.ids() == []
    reason = "nri hook create web: plugin konfine: no CPU is left for web"
    assert reason in (runtime.enclosure.root / LOG).read_text()
    if runtime.program == "runc":
        assert reason in refused.value.stderr


def test_a_broken_configuration_prevents_the_start_and_is_named(runtime: Runtime) -> None:
    runtime.enclosure.configure({"type": "clearcfs", "timeout": "soon"})

    with pytest.raises(CommandFailedError):
        runtime.create(bundle(runtime))

    said = (runtime.enclosure.root / LOG).read_text()
    assert "/etc/nri/resource.d/10.conf:1:" in said
    assert "plugins[0].timeout: found the string 'soon', expected a number" in said


def test_hanging_plugin_is_killed_before_the_runtimes_timeout(runtime: Runtime) -> None:
    hang(runtime.enclosure)

    with pytest.raises(CommandFailedError) as refused:
        runtime.create(bundle(runtime, "--deadline=3", timeout=60))

    reason = "nri hook create web: not done within 3 s: plugin hanging: killed: no result after "
    assert reason in (runtime.enclosure.root / LOG).read_text()
    if runtime.program == "runc":
        assert reason in refused.value.stderr
    assert runtime.ids() == []
    assert wait_until(lambda: runtime.enclosure.left_of_hooks() == [])


def test_a_hook_that_the_runtime_kills_leaves_no_plugin(runtime: Runtime) -> None:
    begun = hang(runtime.enclosure)
    for timeout in (2, 8, 30):  # a busy machine may take longer to start the plugin
        if not begun.exists():
            with pytest.raises(CommandFailedError):
                runtime.create(bundle(runtime, "--deadline=60", "--timeout=60", timeout=timeout))

    assert begun.exists()
    assert runtime.ids() == []
    assert wait_until(lambda: runtime.enclosure.left_of_hooks() == [])
    log = runtime.enclosure.root / LOG
    assert not log.exists() or "nri hook create" not in log.read_text()  # it was killed before it could say anything


def test_without_plugins_a_container_just_starts(runtime: Runtime) -> None:
    web = bundle(runtime)

    runtime.create(web)
    runtime.start(web)

    assert runtime.state(web)["status"] == "running"
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "50000"
