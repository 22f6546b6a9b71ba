"""`nri-runc` and `nri-crun`, compiled, around the real runc and crun: containers of bundles, without an engine."""

import json
import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import cgroups
from harness.containerd.enclosure import SYSTEM_PATH, CommandFailedError
from tests.e2e import hang
from tests.e2e.bundle import Bundle, OCIRuntime, enclosed
from tests.e2e.standin import LISTED, StandIn, stand_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime


both = pytest.mark.parametrize("runtime", ["runc", "crun"], indirect=True)
"""For what depends on the runtime below; everything else is tried with runc."""


@pytest.fixture
def runtime(
    request: pytest.FixtureRequest, need: Callable[..., None], installed: Path
) -> Iterator[OCIRuntime]:
    name = getattr(request, "param", "runc")
    need(name)
    with enclosed(f"/opt/nri/sbin/nri-{name}") as runtime:
        runtime.enclosure.install(installed)
        yield runtime


@pytest.fixture
def plugin(runtime: OCIRuntime, tmp_path: Path) -> StandIn:
    return stand_in(runtime.enclosure, tmp_path / "kept")


def command(runtime: OCIRuntime, *words: str | Path) -> list[str | Path]:
    """A command line of the runtime, for the enclosure."""
    return [runtime.program, "--root", runtime.enclosure.root / "state", *words]


def call(runtime: OCIRuntime, *words: str | Path) -> str:
    return runtime.enclosure.run(*command(runtime, *words))


def update(runtime: OCIRuntime, **cpu: int) -> None:
    """Update web's CPU limits, as engines do."""
    wanted = runtime.enclosure.root / "wanted.json"
    wanted.write_text(json.dumps({"cpu": cpu}))
    call(runtime, "update", "--resources", wanted, "web")


def real(runtime: OCIRuntime) -> str:
    return runtime.program.rpartition("-")[2]


def run_web(runtime: OCIRuntime, name: str = "web", **more: Any) -> Bundle:
    web = runtime.bundle(name, **more)
    runtime.create(web)
    runtime.start(web)
    return web


# The life of a container


@both
def test_a_plugin_hears_of_every_step(runtime: OCIRuntime, plugin: StandIn) -> None:
    web = runtime.bundle("web", annotations={"a": "b"}, cpu_quota=50_000)
    runtime.create(web)
    pid = runtime.state(web)["pid"]
    runtime.start(web)
    call(runtime, "pause", "web")
    call(runtime, "resume", "web")
    update(runtime, quota=70_000)
    runtime.kill(web)
    assert wait_until(lambda: runtime.state(web)["status"] == "stopped")
    runtime.delete(web)

    requests = plugin.requests()
    states = ["setup", "create", "pause", "resume", "resize", "update", "delete"]
    assert [each["state"] for each in requests] == states
    assert [each.get("pid", 0) for each in requests] == [0, pid, pid, pid, pid, pid, 0]
    assert requests[0]["spec"]["process"]["args"] == ["/bin/sleep", "1000000"]
    assert requests[0]["extensions"] == {"adjust": 1, "configuration": 1}
    assert requests[4]["extensions"] == {"adjust": 1}
    assert all("process" not in each["spec"] for each in requests[1:])
    assert all(each["spec"]["annotations"] == {"a": "b"} for each in requests)
    assert all(each["spec"]["cgroupsPath"] == web.cgroup for each in requests)
    assert requests[5]["spec"]["resources"] == {"cpu": {"quota": 70_000}}


@both
def test_requests_show_what_was_made_whatever_becomes_of_the_bundle(
    runtime: OCIRuntime, plugin: StandIn
) -> None:
    plugin.answer_with("setup", {"adjust": {"annotations": {"by": "setup"}}})
    web = runtime.bundle("web", annotations={"a": "b"})
    config = web.path / "config.json"
    before = config.read_text()
    runtime.create(web)
    assert config.read_text() == before
    config.write_text("{}")
    runtime.start(web)
    update(runtime, quota=70_000)
    call(runtime, "delete", "--force", "web")
    requests = plugin.requests()
    assert [each["state"] for each in requests] == ["setup", "create", "resize", "update", "delete"]
    assert all(each["spec"]["annotations"] == {"a": "b", "by": "setup"} for each in requests[1:])
    assert requests[-1]["spec"]["resources"]["cpu"]["quota"] == 70_000


@both
def test_without_plugins_it_is_the_real_runtime(runtime: OCIRuntime) -> None:
    web = run_web(runtime)
    assert runtime.state(web)["status"] == "running"
    update(runtime, quota=70_000)
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "70000"
    runtime.delete(web, force=True)
    assert runtime.ids() == []
    assert runtime.enclosure.run(runtime.program, "--version") == runtime.enclosure.run(
        real(runtime), "--version"
    )


# Adjustments


@both
def test_adjustments_are_in_the_container(
    runtime: OCIRuntime, plugin: StandIn, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "hello").write_text("from the node\n")
    plugin.answer_with(
        "setup",
        {
            "adjust": {
                "env": {"FROM": "plugin", "PATH": "/bin:/sbin"},
                "annotations": {"note": "x"},
                "mounts": {
                    "/tmp": {"type": "bind", "source": str(shared), "options": ["rbind", "ro"]}
                },
                "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 77, "soft": 66}],
                "linux": {
                    "devices": [
                        {
                            "path": "/dev/mynull",
                            "type": "c",
                            "major": 1,
                            "minor": 3,
                            "fileMode": 0o666,
                        }
                    ],
                    "resources": {"cpu": {"quota": 30_000}},
                },
            }
        },
    )
    script = 'echo "$FROM $PATH"; cat /tmp/hello; ulimit -n; echo x > /dev/mynull && ls /dev/mynull; sleep 1000'
    web = runtime.bundle("web", command=["/bin/sh", "-c", script], cpu_quota=50_000)
    said = tmp_path / "said"
    with said.open("w") as stdout:
        words = command(runtime, "create", "--bundle", web.path, "web")
        subprocess.run(
            runtime.enclosure.command(words), stdout=stdout, check=True, env={"PATH": SYSTEM_PATH}
        )
    runtime.start(web)
    assert wait_until(lambda: said.read_text().count("\n") == 4)
    assert said.read_text().splitlines() == [
        "plugin /bin:/sbin",
        "from the node",
        "66",
        "/dev/mynull",
    ]
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "30000"
    assert runtime.state(web)["annotations"]["note"] == "x"
    assert plugin.requests()[-1]["spec"]["annotations"] == {"note": "x"}


@both
def test_adjustment_unknown_to_the_runtime_refuses_the_container(
    runtime: OCIRuntime, plugin: StandIn
) -> None:
    plugin.answer_with("setup", {"adjust": {"linux": {"netDevices": {"eth7": {"name": "eth0"}}}}})
    with pytest.raises(CommandFailedError) as refused:
        runtime.create(runtime.bundle("web"))
    assert (
        f"adjust.linux.netDevices: {real(runtime)} implements version 1.0 of the OCI"
        in refused.value.stderr
    )
    assert runtime.ids() == []


@both
def test_plugins_change_the_limits_of_an_update(runtime: OCIRuntime, plugin: StandIn) -> None:
    other = run_web(runtime, "other", cpu_quota=10_000)
    web = run_web(runtime, cpu_quota=50_000)
    updates = [
        {"id": "web", "resources": {"cpu": {"quota": 90_000}}},
        {"id": "other", "resources": {"cpu": {"quota": 20_000}}},
        {"id": "nobody", "resources": {"cpu": {"quota": 20_000}}, "ignoreFailure": True},
    ]
    plugin.answer_with("resize", {"updates": updates})
    update(runtime, quota=70_000, period=100_000)
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "90000"
    assert cgroups.knob(other.cgroup, "cpu.cfs_quota_us") == "20000"
    assert plugin.requests()[-1]["spec"]["resources"] == {
        "cpu": {"quota": 90_000, "period": 100_000}
    }


# Refusals


@both
@pytest.mark.parametrize("listed", [["setup"], []], ids=["setup", "create"])
def test_a_container_that_a_plugin_refuses_is_not_there(
    runtime: OCIRuntime, plugin: StandIn, listed: list[str]
) -> None:
    runtime.enclosure.configure({"type": "standin", "states": listed})
    plugin.fail_with("nope")
    web = runtime.bundle("web")
    before = (web.path / "config.json").read_text()
    log, pid_file = runtime.enclosure.root / "log", web.path / "pid"
    words: list[str | Path] = ["create", "--bundle", web.path, "--pid-file", pid_file, "web"]
    with pytest.raises(CommandFailedError) as refused:
        call(runtime, "--log", log, "--log-format", "json", *words)
    reason = f"nri-{real(runtime)} create web: plugin standin: nope"
    assert (refused.value.code, refused.value.stderr) == (1, f"{reason}\n")
    *_, line = map(json.loads, log.read_text().splitlines())
    assert (line["level"], line["msg"]) == ("error", reason)
    assert runtime.ids() == []
    assert not cgroups.processes(web.cgroup)
    assert not pid_file.exists()
    assert (web.path / "config.json").read_text() == before
    assert plugin.states("web") == [*(listed or ["create"]), "delete"]


def test_an_update_that_a_plugin_refuses_changes_nothing(
    runtime: OCIRuntime, plugin: StandIn
) -> None:
    web = run_web(runtime, cpu_quota=50_000)
    plugin.fail_with("nope")
    with pytest.raises(CommandFailedError, match="update web: plugin standin: nope"):
        update(runtime, quota=70_000)
    assert cgroups.knob(web.cgroup, "cpu.cfs_quota_us") == "50000"


def test_a_pause_that_a_plugin_does_not_like_stays(runtime: OCIRuntime, plugin: StandIn) -> None:
    web = run_web(runtime)
    plugin.fail_with("nope")
    call(runtime, "pause", "web")
    assert runtime.state(web)["status"] == "paused"
    call(runtime, "resume", "web")
    assert runtime.state(web)["status"] == "running"


@both
def test_a_plugin_that_hangs_is_killed_in_time(runtime: OCIRuntime) -> None:
    hang(runtime.enclosure)
    (runtime.enclosure.etc_nri / "runtime.json").write_text('{"deadline": 1.5}')
    with pytest.raises(CommandFailedError) as refused:
        runtime.create(runtime.bundle("web"))
    assert "create web: not done within 1.5 s: plugin hanging: killed" in refused.value.stderr
    assert runtime.ids() == []
    assert wait_until(lambda: runtime.enclosure.left_of_hooks() == [])


# Broken configurations


def test_configuration_that_was_never_valid_refuses_creates(
    runtime: OCIRuntime, plugin: StandIn
) -> None:
    runtime.enclosure.configure({"type": "standin", "timeout": "soon"})
    with pytest.raises(
        CommandFailedError, match=r"timeout: found the string 'soon', expected a number"
    ):
        runtime.create(runtime.bundle("other"))
    assert plugin.requests() == []


def test_in_a_user_namespace_it_refuses_with_a_sentence(
    runtime: OCIRuntime, plugin: StandIn
) -> None:
    user = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "unshare",
        "--user",
        "--map-root-user",
    ]
    with pytest.raises(CommandFailedError, match=r"this is a user namespace \(rootless\)"):
        runtime.enclosure.run(*user, runtime.program, "create", "--bundle", "/", "web")
    with pytest.raises(CommandFailedError) as failed:
        runtime.enclosure.run(*user, runtime.program, "delete", "web")
    assert "nri-" not in failed.value.stderr.splitlines()[-1]  # but the real one's error


# run


@both
def test_a_container_runs_in_the_foreground_with_its_plugins(
    runtime: OCIRuntime, plugin: StandIn
) -> None:
    runtime.enclosure.configure({"type": "standin", "states": LISTED, "failurePolicy": "ignore"})
    plugin.answer_with("setup", {"adjust": {"env": {"FROM": "plugin"}}})
    plugin.fail_with("nope")
    web = runtime.bundle("web", command=["/bin/sh", "-c", "echo $FROM; exit 7"])
    before = (web.path / "config.json").read_text()
    with pytest.raises(CommandFailedError) as ended:
        runtime.run(web)
    assert (ended.value.code, ended.value.stdout) == (7, "plugin\n")
    # Of create and delete.
    assert ended.value.stderr.count("failed, ignored (failurePolicy: ignore): nope") == 2
    assert plugin.states("web") == ["setup", "create", "delete"]
    assert plugin.requests()[1]["pid"] > 0
    assert (web.path / "config.json").read_text() == before
    assert sorted(os.listdir(web.path)) == ["config.json", "rootfs"]


def test_a_refused_container_does_not_run(runtime: OCIRuntime, plugin: StandIn) -> None:
    runtime.enclosure.configure({"type": "standin"})
    plugin.fail_with("nope")
    web = runtime.bundle("web", command=["/bin/echo", "it runs"])
    before = (web.path / "config.json").read_text()
    with pytest.raises(CommandFailedError) as refused:
        runtime.run(web)
    assert "it runs" not in refused.value.stdout
    assert f"nri-{real(runtime)} run web: plugin standin: nope" in refused.value.stderr
    assert plugin.states("web") == ["create", "delete"]
    assert (web.path / "config.json").read_text() == before
    assert sorted(os.listdir(web.path)) == ["config.json", "rootfs"]


@both
def test_a_detached_container_runs_on(runtime: OCIRuntime, plugin: StandIn) -> None:
    web = runtime.bundle("web")
    before = (web.path / "config.json").read_text()
    call(runtime, "run", "--detach", "--bundle", web.path, "web")
    assert runtime.state(web)["status"] == "running"
    assert plugin.states("web") == ["setup", "create"]
    assert (web.path / "config.json").read_text() == before
    runtime.delete(web, force=True)
    assert plugin.states("web") == ["setup", "create", "delete"]


def test_a_terminal_stays_the_containers(runtime: OCIRuntime, plugin: StandIn) -> None:
    script = 'test -t 0 && echo "a terminal"; read line; echo "got $line"; exit 5'
    web = runtime.bundle("web", command=["/bin/sh", "-c", script])
    config = json.loads((web.path / "config.json").read_text())
    config["process"]["terminal"] = True
    config["mounts"].append({"destination": "/dev/pts", "type": "devpts", "source": "devpts"})
    (web.path / "config.json").write_text(json.dumps(config))
    words = runtime.enclosure.command(command(runtime, "run", "--bundle", web.path, "web"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], [*map(str, words)], {"PATH": SYSTEM_PATH})
    seen = b""
    while b"a terminal" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"hello\n")
    while b"got hello" not in seen:
        seen += os.read(terminal, 4096)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5
    assert plugin.states("web") == ["setup", "create", "delete"]
