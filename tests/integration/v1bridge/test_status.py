"""The status of a bridge's process, from its socket: what it serves, what it has counted, what was done to a pod."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.node import ROOT
from nri.errors import NRIError
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.v1bridge.bridge_process import BridgeProcess, slow, start_container
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.status_asking import ask, connected, rest_of, status_of, told
from tests.support.waiting import SOON, wait_until


@pytest.fixture
def path(host: Host) -> Path:
    return host.root / "v1bridge.sock"


def keeping(host: Host, bridge: BridgeProcess, **options: Any) -> None:
    host.configure(bridge.node.keeper(**options))


def counted(path: Path, event: str) -> dict[str, Any]:
    return next((each for each in status_of(path)["events"] if each["event"] == event), {"answered": 0})


def test_it_says_what_it_is_and_whom_it_serves(host: Host, bridge: BridgeProcess, path: Path) -> None:
    keeping(host, bridge)
    bridge.listen()
    bridge.outside()
    assert wait_until(path.exists)
    status = status_of(path)
    assert {each["event"] for each in status["events"]} > {"RunPodSandbox", "StartContainer", "StopContainer"}
    assert {each["answered"] for each in status["events"]} == {0}
    assert status["bridge"]["state"] == "connecting"
    nothing = dict.fromkeys(("name", "version", "nri", "since", "synchronized"))
    assert status["runtime"] == {**nothing, "connections": 0}
    bridge.accept().start()
    assert wait_until(lambda: status_of(path)["bridge"]["state"] == "connected")
    status = status_of(path)
    assert bridge.child is not None
    assert status["bridge"]["pid"] == bridge.child.pid
    assert status["bridge"]["started"] <= status["runtime"].pop("since") <= status["time"]
    expected = {"name": "fake", "version": "1.2", "nri": "0.9", "synchronized": True, "connections": 1}
    assert status["runtime"] == expected
    assert status["bridge"]["options"]["confDir"] == str(host.conf)
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0
    assert not path.exists()


def test_a_launched_one_answers_when_it_is_configured(bridge: BridgeProcess, path: Path) -> None:
    runtime = bridge.launch()
    runtime.configure(bridge.settings())
    assert wait_until(path.exists)
    assert status_of(path)["bridge"]["state"] == "connected"
    start_container(runtime)
    assert status_of(path)["runtime"]["synchronized"] is False
    assert wait_until(lambda: bridge.log.count("warning not synchronized: ") == 1)


def test_events_and_runs_are_counted_and_shown_for_their_pod(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.configure(bridge.node.keeper(), plugin("missing", failure_policy="ignore"))
    for _ in range(3):
        start_container(runtime)
    assert wait_until(lambda: counted(path, "StartContainer")["answered"] == 3)
    status = status_of(path)
    keeper, missing = status["plugins"]
    assert keeper["runs"] == {"create": {"ok": 3, "error": 0, "killed": 0, "ignored": 0}}
    assert missing["runs"] == {"create": {"ok": 0, "error": 0, "killed": 0, "ignored": 3}}
    assert keeper["binary"] == str(host.bin / "keeper")
    assert (missing["binary"], missing["problem"].partition(":")[0]) == (None, "not found")
    assert missing["lastError"]["pod"] == "default/web"
    event = counted(path, "StartContainer")
    assert (event["errors"], event["late"]) == (0, 0)
    assert sum(event["seconds"]["counts"]) == sum(event["waiting"]["counts"]) == 3
    assert event["seconds"]["sum"] >= keeper["seconds"]["sum"] > 0

    answer = ask(path, get="pod", namespace="default", name="web")
    assert len(answer["exchanges"]) == 3
    exchange = answer["exchanges"][0]
    assert (exchange["event"], exchange["state"], exchange["container"]) == ("StartContainer", "create", "app")
    part, _ = exchange["plugins"]
    assert json.loads(part["request"])["id"] == exchange["id"] == "1f92"
    assert json.loads(part["result"])["plugin"] == "keeper"
    assert ask(path, get="pod", namespace="default", name="other")["exchanges"] == []


def test_plugins_that_fail_or_are_killed_are_errors_of_their_events(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.script("broken", "#!/bin/sh\nexit 3\n")
    host.configure(plugin("broken"))
    with pytest.raises(StatusError):
        start_container(runtime)
    assert wait_until(lambda: status_of(path)["plugins"][0]["last"])
    assert counted(path, "StartContainer")["errors"] == 1
    (broken,) = status_of(path)["plugins"]
    assert broken["last"] == {"create": "error"}
    assert "exit status 3" in broken["lastError"]["error"]

    slow(host)
    host.configure(plugin("slow", timeout=0.3))
    with pytest.raises(StatusError, match="plugin slow: killed"):
        start_container(runtime)
    assert wait_until(lambda: status_of(path)["plugins"][0]["runs"])
    (entry,) = status_of(path)["plugins"]
    assert entry["runs"]["create"]["killed"] == 1
    assert counted(path, "StartContainer")["nearDeadline"] == 0

    host.configure(plugin("slow"))
    with pytest.raises(NRIError):
        start_container(runtime, 1.0)
    assert wait_until(lambda: counted(path, "StartContainer")["nearDeadline"] == 1)
    assert counted(path, "StartContainer")["errors"] == 3


def test_a_broken_file_is_noticed_without_an_event(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    keeping(host, bridge)
    assert status_of(path)["configuration"]["valid"] is True
    (host.conf / "20.conf").write_text('{"version": "0.1", "plugins": [{}]}')
    assert wait_until(lambda: status_of(path)["configuration"]["valid"] is False)
    assert wait_until(lambda: "type" in status_of(path)["configuration"]["faults"][0])
    configuration = status_of(path)["configuration"]
    assert configuration["since"] <= configuration["rejectedSince"]
    assert [entry["type"] for entry in status_of(path)["plugins"]] == ["keeper"]
    (host.conf / "20.conf").unlink()
    assert wait_until(lambda: status_of(path)["configuration"]["valid"] is True)
    assert status_of(path)["configuration"]["faults"] == []


def test_it_says_how_a_plugin_is_started(host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path) -> None:
    host.script("foreign", "#!/bin/sh\necho '{}'\n")
    answer = '{"version": "0.7", "resident": 1}'
    host.script("ends", f"#!/bin/sh\n# nri.skel\n[ $1 = serve ] && exit 3\necho '{answer}'\n")
    host.configure(bridge.node.keeper(resident=False), plugin("foreign"), plugin("ends"))
    start_container(runtime)
    assert wait_until(lambda: all(entry["resident"]["state"] != "starting" for entry in status_of(path)["plugins"]))
    keeper, foreign, ends = status_of(path)["plugins"]
    assert [entry["resident"]["state"] for entry in (keeper, foreign, ends)] == ["off", "off", "failed"]
    assert foreign["resident"]["reason"] == "it was not built with nri.skel"
    assert ends["resident"]["reason"] == "it ends while it is loaded"
    assert ends["build"] == "0.7"


def test_a_plugin_with_much_metadata_is_kept_in_part(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    metadata = json.dumps({f"key{number}": "\u0001" * 1000 for number in range(150)})
    (host.root / "much").write_text(f'{{"version": "0.1", "plugin": "much", "metadata": {metadata}}}')
    host.script("much", f"#!/bin/sh\nexec cat {host.root}/much\n")
    host.configure(plugin("much"))
    assert (host.root / "much").stat().st_size > 900_000
    for _ in range(20):
        start_container(runtime)
    assert wait_until(lambda: len(ask(path, get="pod", namespace="default", name="web")["exchanges"]) == 20)
    exchanges = ask(path, get="pod", namespace="default", name="web")["exchanges"]
    assert {len(each["plugins"][0]["result"]) for each in exchanges} == {2048}
    assert status_of(path)["plugins"][0]["runs"]["create"]["ok"] == 20


def test_neither_an_event_nor_the_status_waits_for_thousands_of_late_creates(
    host: Host, bridge: BridgeProcess, path: Path
) -> None:
    keeping(host, bridge)
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.configure()
    pods = [pod(id=f"p{number}", name=f"web{number}") for number in range(3_000)]
    runtime.synchronize(pods, [])
    start_container(runtime)  # which does not wait for them
    assert status_of(path)["lateCreates"]["waiting"] > 0
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0


UNKNOWN = {
    b"{": "found no JSON",
    b"[" * 4000: "found no JSON",
    b'{"get": "all"}': "get: found the string 'all'",
    b'{"get": "pod", "namespace": 1, "name": "web"}': "namespace: found the number 1",
}


def test_an_unknown_question_is_refused(runtime: Runtime, path: Path) -> None:
    for line, found in UNKNOWN.items():
        answer = json.loads(told(path, line + b"\n"))
        assert answer["protocol"] == 1
        assert answer["error"].startswith(found)
        assert "expected" in answer["error"]


def test_no_event_waits_for_readers(host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path) -> None:
    keeping(host, bridge)
    with connected(path) as one, connected(path) as other:
        one.sendall(b'{"get": "status"}\n')  # which nobody reads
        other.sendall(b'{"get": "sta')
        start_container(runtime)
        assert wait_until(lambda: status_of(path)["plugins"][0]["last"] == {"create": "ok"})
        assert json.loads(rest_of(one))["protocol"] == 1


def test_the_next_bridge_answers_when_its_turn_comes(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    second = BridgeProcess(host)
    second.log_file = host.root / "second.log"
    second.outside()
    try:
        assert wait_until(lambda: "standing by" in second.log)
        assert bridge.child is not None
        assert second.child is not None
        assert status_of(path)["bridge"]["pid"] == bridge.child.pid
        bridge.signal(signal.SIGKILL)  # which leaves its socket
        bridge.wait()
        bridge.accept().start()
        assert status_of(path)["bridge"]["pid"] == second.child.pid
    finally:
        second.close()


def described() -> list[dict[str, Any]]:
    """The documents of docs/status.md: the status, and the exchanges."""
    blocks = (ROOT / "docs/status.md").read_text().split("```json\n")[1:]
    documents = [json.loads(block.partition("```")[0]) for block in blocks]
    return [each for each in documents if "protocol" in each]


def keys_of(value: Any, *free: str, at: str = "") -> set[str]:
    """The paths of all keys in a document; of a list, those of its first element."""
    if isinstance(value, list):
        return keys_of(value[0], *free, at=f"{at}[]") if value else set()
    if not isinstance(value, dict) or at in free:
        return set()
    below = [keys_of(each, *free, at=f"{at}.{key}") | {f"{at}.{key}"} for key, each in value.items()]
    return set[str]().union(*below)


def test_the_documents_are_those_that_are_described(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.configure(plugin("missing", failure_policy="ignore"))
    start_container(runtime)
    assert wait_until(lambda: ask(path, get="pod", namespace="default", name="web")["exchanges"])
    documents = [status_of(path), ask(path, get="pod", namespace="default", name="web")]
    for described_, real in zip(described(), documents, strict=True):
        assert keys_of(real, ".bridge.options") == keys_of(described_, ".bridge.options")


def test_without_a_place_for_the_socket_it_serves(host: Host, bridge: BridgeProcess, path: Path) -> None:
    keeping(host, bridge)
    path.mkdir()
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.start()
    start_container(runtime)
    assert wait_until(lambda: f"no status socket: {path}: " in bridge.log)
    assert os.listdir(path) == []


def test_late_creates_are_counted(host: Host, bridge: BridgeProcess, path: Path) -> None:
    keeping(host, bridge)
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.configure()
    runtime.synchronize([pod()], [container(state=api.ContainerState.CONTAINER_RUNNING)])
    expected = {"waiting": 0, "running": 0, "succeeded": 2, "failed": 0}
    assert wait_until(lambda: status_of(path)["lateCreates"] == expected)

    def exchanges() -> list[tuple[object, object]]:
        found = ask(path, get="pod", namespace="default", name="web")["exchanges"]
        return [(each["late"], each["event"]) for each in found]

    assert wait_until(lambda: exchanges() == [(True, None), (True, None)])  # they are entered a moment later


def test_the_event_that_is_handled_and_the_configuration_are_named(
    host: Host, bridge: BridgeProcess, runtime: Runtime, path: Path
) -> None:
    host.configure(slow(host))
    thread = threading.Thread(target=start_container, args=(runtime,))
    thread.start()
    assert wait_until((host.root / "begun").exists)
    document = status_of(path)
    now = document["inProgress"]
    assert (now["event"], now["name"]) == ("StartContainer", "default/web/app")
    assert now["seconds"] > 0
    (host.root / "go").touch()
    thread.join(SOON)
    assert wait_until(lambda: status_of(path)["inProgress"] is None)
    assert wait_until(lambda: f" info configuration: slow hash={document['configuration']['hash']}\n" in bridge.log)
