"""The status of a bridge's process, from its socket and by ``nri status``: what it serves, counts, and lacks."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.node import ROOT
from nri.v2.ttrpc import StatusError
from tests.integration.cli.running import Ran, inside
from tests.integration.v1bridge.bridge_process import (
    BridgeProcess,
    create_container,
    slow,
    start_container,
    stop_container,
)
from tests.support.host import Host, plugin
from tests.support.pods import pod
from tests.support.runtime import Runtime
from tests.support.status_asking import ask, status_of
from tests.support.waiting import wait_until

SECRETS = ("argument-s3cret", "environment-s3cret")


@pytest.fixture
def path(host: Host) -> Path:
    return host.root / "v1bridge.sock"


def keeping(host: Host, bridge: BridgeProcess, **options: Any) -> None:
    host.configure(bridge.node.keeper(**options))


def counted(path: Path, event: str) -> dict[str, Any]:
    return next(
        (each for each in status_of(path)["events"] if each["event"] == event), {"answered": 0}
    )


def had(path: Path, name: str = "default/web") -> list[dict[str, Any]]:
    """Return what a pod has had."""
    containers: list[dict[str, Any]] = ask(path, name)["containers"]
    return containers


def status(bridge: BridgeProcess, *words: str) -> Ran:
    """Run ``nri status``."""
    return inside("status", "--socket", str(bridge.host.root / "v1bridge.sock"), *words)


def check(bridge: BridgeProcess) -> tuple[int, str]:
    ran = status(bridge, "--check")
    assert ran.stderr == ""
    return ran.status, ran.stdout.rstrip("\n")


def becomes(bridge: BridgeProcess, code: int, line: str) -> bool:
    """Wait for a check with this exit status and a line that begins with these words."""
    return wait_until(lambda: check(bridge)[0] == code and check(bridge)[1].startswith(line))


# What it is, and for whom


def test_states_from_no_bridge_to_a_killed_one(
    host: Host, bridge: BridgeProcess, path: Path
) -> None:
    assert check(bridge) == (2, f"no bridge: {path} does not exist")
    keeping(host, bridge)
    bridge.listen()
    bridge.outside()
    assert becomes(bridge, 1, "degraded: the bridge looks for its runtime")
    document = status_of(path)
    assert {each["event"] for each in document["events"]} > {
        "RunPodSandbox",
        "StartContainer",
        "StopContainer",
    }
    assert {each["answered"] for each in document["events"]} == {0}
    assert document["bridge"]["state"] == "connecting"
    nothing = dict.fromkeys(("name", "version", "nri", "since", "synchronized"))
    assert document["runtime"] == {**nothing, "connections": 0}
    bridge.accept().start()
    assert becomes(bridge, 0, "well: connected to fake 1.2, 1 plugin")
    document = status_of(path)
    assert document["bridge"]["state"] == "connected"
    assert document["bridge"]["pid"] == bridge.pid
    assert document["bridge"]["started"] <= document["runtime"].pop("since") <= document["time"]
    expected = {
        "name": "fake",
        "version": "1.2",
        "nri": "0.9",
        "synchronized": True,
        "connections": 1,
    }
    assert document["runtime"] == expected
    assert document["bridge"]["options"]["confDir"] == str(host.conf)
    bridge.kill()
    assert check(bridge) == (
        2,
        f"no bridge: {path}: no process listens; the bridge that made it has ended",
    )


def test_launched_bridge_answers_when_it_is_configured(bridge: BridgeProcess, path: Path) -> None:
    runtime = bridge.launch()
    runtime.configure(bridge.settings())
    assert wait_until(path.exists)
    assert status_of(path)["bridge"]["state"] == "connected"
    start_container(runtime)
    assert status_of(path)["runtime"]["synchronized"] is False
    runtime.close()
    assert bridge.wait() == 0
    assert not path.exists()


# What is counted


def test_events_and_runs_are_counted(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.configure(bridge.node.keeper(), plugin("missing", failure_policy="ignore"))
    for _ in range(3):
        start_container(runtime)
    assert wait_until(lambda: counted(path, "StartContainer")["answered"] == 3)
    keeper, missing = status_of(path)["plugins"]
    assert keeper["runs"] == {
        "create": {"ok": 3, "error": 0, "killed": 0, "ignored": 0, "refused": 0}
    }
    assert missing["runs"] == {
        "create": {"ok": 0, "error": 0, "killed": 0, "ignored": 3, "refused": 0}
    }
    assert keeper["binary"] == str(host.bin / "keeper")
    assert (missing["binary"], missing["problem"].partition(":")[0]) == (None, "not found")
    assert missing["lastError"]["pod"] == "default/web"
    event = counted(path, "StartContainer")
    assert (event["errors"], event["late"]) == (0, 0)
    assert sum(event["seconds"]["counts"]) == sum(event["waiting"]["counts"]) == 3
    assert event["seconds"]["sum"] >= keeper["seconds"]["sum"] > 0

    (container,) = had(path)
    assert (container["id"], container["container"], container["state"]) == ("1f92", "app", "done")
    part, ignored = container["plugins"]
    assert (part["states"], part["failed"], json.loads(part["result"])["plugin"]) == (
        ["create"],
        False,
        "keeper",
    )
    assert (ignored["plugin"], ignored["failed"], ignored["result"]) == ("missing", True, None)
    assert [each["cause"] for each in container["without"]] == ["ignored"]
    assert had(path, "default/other") == []

    page = status(bridge)
    assert (page.status, page.stderr) == (0, "")
    assert max(len(line) for line in page.stdout.splitlines()) <= 80
    assert "runtime        fake 1.2, NRI 0.9" in page.stdout
    shown = status(bridge, "--pod", "default/web").stdout
    assert "default/web/app: done\n  id 1f92\n  keeper: create\n" in shown
    assert status(bridge, "--pod", "default/web", "--json").json["containers"] == [container]
    for more in ([], ["--json"]):
        unknown = status(bridge, "--pod", "default/other", *more)
        assert unknown.status == 1
    assert (
        status(bridge, "--pod", "default/other").stdout == "default/other: nothing is known of it\n"
    )


def test_late_creates_are_counted_and_nothing_waits_for_them(
    host: Host, bridge: BridgeProcess, path: Path
) -> None:
    keeping(host, bridge)
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.configure()
    runtime.synchronize([pod()])
    expected = {"waiting": 0, "running": 0, "succeeded": 1, "failed": 0, "refused": 0}
    assert wait_until(lambda: status_of(path)["lateCreates"] == expected)
    assert [plugin["states"] for each in had(path) for plugin in each["plugins"]] == [["create"]]
    runtime.close()
    runtime = bridge.accept()
    runtime.configure()
    runtime.synchronize([pod(id=f"p{number}", name=f"web{number}") for number in range(3_000)])
    start_container(runtime)
    assert status_of(path)["lateCreates"]["waiting"] > 0
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0


def test_event_in_progress_and_hash_shown(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.configure(slow(host))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(start_container, runtime)
        assert wait_until((host.root / "begun").exists)
        document = status_of(path)
        now = document["inProgress"]
        assert (now["event"], now["name"]) == ("StartContainer", "default/web/app")
        assert now["seconds"] > 0 < now["allowed"]  # liveness compares them
        (host.root / "go").touch()
    assert wait_until(lambda: status_of(path)["inProgress"] is None)
    assert wait_until(
        lambda: (
            f" info configuration: slow hash={document['configuration']['hash']}\n" in bridge.log
        )
    )


# What degrades it


def test_broken_file_degrades_until_it_is_fixed(
    host: Host, bridge: BridgeProcess, runtime: Runtime
) -> None:
    keeping(host, bridge)
    assert becomes(bridge, 0, "well: connected to fake 1.2, 1 plugin")
    (host.conf / "20.conf").write_text('{"version": "0.1", "plugins": [{}]}')
    assert becomes(
        bridge, 1, "degraded: the configuration is not valid, the last valid one is in use: /"
    )
    assert wait_until(lambda: "20.conf:1:" in check(bridge)[1])
    assert "configuration  NOT VALID since 20" in status(bridge).stdout
    document = status(bridge, "--json").json
    assert document["configuration"]["since"] <= document["configuration"]["rejectedSince"]
    assert [entry["type"] for entry in document["plugins"]] == ["keeper"]
    (host.conf / "20.conf").unlink()
    assert becomes(bridge, 0, "well: ")
    assert status(bridge, "--json").json["configuration"]["faults"] == []


@pytest.mark.parametrize(
    ("state", "event"), [("setup", create_container), ("create", start_container)]
)
def test_failing_plugin_degrades_until_it_succeeds(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path, state: str, event: Any
) -> None:
    refuse = f'[ -e {host.root}/fixed ] || case $request in *\'"state":"{state}"\'*) exit 3 ;; esac'
    host.script("refusing", f"#!/bin/sh\nrequest=$(cat)\n{refuse}\necho '{{}}'\n")
    host.configure(plugin("refusing", states=["setup"] if state == "setup" else []))
    with pytest.raises(StatusError, match="refusing"):
        event(runtime)
    refused = {"setup": "CreateContainer", "create": "StartContainer"}[state]
    assert wait_until(lambda: counted(path, refused).get("errors") == 1)
    stop_container(runtime)  # which the runtime sends after a refusal
    assert wait_until(lambda: "delete" in status_of(path)["plugins"][0]["runs"]), (
        "the plugin got its delete"
    )
    assert becomes(bridge, 1, f"degraded: refusing: {state} has failed since ")
    assert f"refusing: {state} of default/web/app:" in status(bridge).stdout
    (host.root / "fixed").touch()
    event(runtime)
    assert becomes(bridge, 0, "well: ")


def test_refusal_is_told_to_its_pod_alone(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    refusal, room = (
        '{"error": "size: found 9, expected at most 3", "refused": true}',
        host.root / "room",
    )
    host.script(
        "asking",
        f"#!/bin/sh\ncat >/dev/null\nif [ -e {room} ]; then echo '{{}}'; else echo '{refusal}'; fi\n",
    )
    host.configure(plugin("asking"))
    for _ in range(2):
        with pytest.raises(
            StatusError, match=r"nri v0.1: plugin asking: size: found 9, expected at most 3$"
        ):
            start_container(runtime)
    assert becomes(bridge, 0, "well: ")
    document = status_of(path)
    (refused,) = document["refusals"]
    assert (refused["pod"], refused["container"], refused["count"]) == ("default/web", "app", 2)
    assert (document["withoutPlugins"], document["plugins"][0]["lastError"]) == ([], None)
    assert (
        "- size: found 9" not in (page := status(bridge).stdout)
        and "size: found 9, expected at most 3" in page
    )
    assert "asking refused " in bridge.log
    of_pod = status(bridge, "--pod", "default/web")
    assert (of_pod.status, "default/web/app: refused\n" in of_pod.stdout) == (0, True)
    assert "2 times: create: asking: size: found 9, expected at most 3" in " ".join(
        of_pod.stdout.split()
    )
    as_json = status(bridge, "--pod", "default/web", "--json").json
    assert [one["state"] for one in as_json["containers"]] == ["refused"]
    assert as_json["refusals"] == [refused]
    (host.root / "room").touch()
    start_container(runtime)
    assert status_of(path)["refusals"] == []
    assert "default/web/app: done\n" in status(bridge, "--pod", "default/web").stdout


def test_a_change_that_a_pod_asks_for_and_cannot_have_is_told_to_it_alone(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    """A pod of an allowed namespace sets what another plugin sets for every container."""
    for name, asked in (("limits", ""), ("asking", ', "podAsked": true')):
        result = f'{{"adjust": {{"env": {{"LEVEL": "3"}}}}{asked}}}'
        host.script(name, f"#!/bin/sh\ncat >/dev/null\necho '{result}'\n")
    entries = [plugin(name, states=["setup"]) for name in ("limits", "asking")]
    host.configure(*entries)
    for _ in range(2):
        with pytest.raises(StatusError, match="already set by the plugin limits"):
            create_container(runtime)
    assert becomes(bridge, 0, "well: ")
    (refused,) = status_of(path)["refusals"]
    assert (refused["plugin"], refused["pod"], refused["count"]) == ("asking", "default/web", 2)


def test_a_check_heals_nothing_and_a_run_that_succeeds_does(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    fails = (
        f'case $(cat) in *nri-check*) ;; *) [ -e {host.root}/fixed ] || exit 3 ;; esac\necho "{{}}"'
    )
    host.script("failing", f'#!/bin/sh\n[ "$1" = invoke ] || exit 3\n{fails}\n')
    host.configure(plugin("failing"))
    with pytest.raises(StatusError, match="exit status 3"):
        start_container(runtime)
    assert becomes(bridge, 1, "degraded: failing: create has failed since ")
    words = [
        "check",
        "--conf-dir",
        str(host.conf),
        "--conf-file",
        f"{host.root}/none",
        "--bin-dir",
        str(host.bin),
    ]
    (host.bin / "failing").rename(host.root / "away")
    assert inside(*words, "--record-dir", str(host.root / "v1bridge.record")).status == 1
    (host.root / "away").rename(host.bin / "failing")
    assert check(bridge)[0] == 0  # another executable, as far as the bridge can tell
    with pytest.raises(StatusError, match="exit status 3"):
        start_container(runtime)
    assert becomes(bridge, 1, "degraded: failing: create has failed since ")
    # The check succeeds, and the plugin still fails for each container.
    assert inside(*words, "--record-dir", str(host.root / "v1bridge.record")).status == 0
    assert becomes(bridge, 1, "degraded: failing: create has failed since ")
    (host.root / "fixed").touch()
    start_container(runtime)
    assert becomes(bridge, 0, "well: ")


# The socket


def described() -> list[dict[str, Any]]:
    """The documents of docs/status.md: the status, and what a pod has had."""
    blocks = (ROOT / "docs/status.md").read_text().split("```json\n")[1:]
    documents = [json.loads(block.partition("```")[0]) for block in blocks]
    return [each for each in documents if "protocol" in each]


def keys_of(value: Any, *free: str, at: str = "") -> set[str]:
    """The paths of all keys in a document; of a list, those of its first element."""
    if isinstance(value, list):
        return keys_of(value[0], *free, at=f"{at}[]") if value else set()
    if not isinstance(value, dict) or at in free:
        return set()
    below = [
        keys_of(each, *free, at=f"{at}.{key}") | {f"{at}.{key}"} for key, each in value.items()
    ]
    return set[str]().union(*below)


def test_documents_have_the_documented_keys(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.script("refusing", """#!/bin/sh\necho '{"error": "no", "refused": true}'\n""")
    ignored: dict[str, Any] = {"failure_policy": "ignore"}
    host.configure(plugin("missing", **ignored), plugin("refusing", **ignored))
    start_container(runtime)
    documents = [status_of(path), ask(path, "default/web")]
    for described_, real in zip(described(), documents, strict=True):
        assert keys_of(real, ".bridge.options") == keys_of(described_, ".bridge.options")


# Secrets


def test_arguments_and_environment_are_neither_kept_nor_shown(
    host: Host, bridge: BridgeProcess
) -> None:
    host.script("failing", "#!/bin/sh\ncat >/dev/null\nexit 3\n")
    adjust = {"env": {"TOKEN": SECRETS[1]}}
    answer = {"plugin": "telling", "version": "0.1", "adjust": adjust}
    host.script("telling", f"#!/bin/sh\ncat >/dev/null\necho '{json.dumps(answer)}'\n")
    host.configure(
        plugin("failing", states=["setup"], failure_policy="ignore"),
        plugin("telling", states=["setup"]),
    )
    create_container(bridge.serve(), args=["sh", SECRETS[0]], env=[f"TOKEN={SECRETS[1]}"])
    assert wait_until(lambda: "setup" in status(bridge, "--pod", "default/web").stdout)
    commands: tuple[list[str], ...] = (
        [],
        ["--pod", "default/web"],
        ["--pod", "default/web", "--json"],
    )
    texts = {" ".join(words): status(bridge, *words).stdout for words in commands}
    texts |= {
        path.name: path.read_text(errors="replace")
        for path in host.root.iterdir()
        if path.is_file()
    }
    assert "bridge.log" in texts
    telling = had(host.root / "v1bridge.sock")[0]["plugins"][-1]
    assert json.loads(telling["result"])["adjust"] == {"env": "(not shown)"}
    assert [
        place for place, text in texts.items() if any(secret in text for secret in SECRETS)
    ] == []


def test_pgrep_finds_a_bridge_from_outside(bridge: BridgeProcess, runtime: Runtime) -> None:
    """It looks at the name of a process for the kernel."""
    assert "v1bridge" in Path(f"/proc/{bridge.pid}/comm").read_text()
