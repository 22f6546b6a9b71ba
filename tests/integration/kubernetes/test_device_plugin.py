"""The kubelet's side of the device plugin: it restarts, hangs up, asks wrongly, refuses, and answers late."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from typing import TYPE_CHECKING

import grpc
import pytest

from nri.kubernetes import devices
from nri.plugins.konfine import COUNTED, RESOURCE, Konfine, record, wanted
from nri.plugins.konfine.record import Record
from nri.testing import Pod, invoke
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.integration.kubernetes.conftest import Counting


def test_container_that_was_counted_has_its_cpus(node: Counting) -> None:
    node.start("web")
    node.look()
    node.kubelet.until_listed(7)
    (registration,) = node.kubelet.registrations
    assert (registration.version, registration.resource_name) == ("v1beta1", RESOURCE)
    assert {name: nodes for name, (_, nodes) in node.kubelet.devices.items()} == {
        f"cpu{cpu}": [0 if cpu in (0, 1, 4, 5) else 1] for cpu in range(1, 8)
    }
    # The kubelet has no topology manager here: the preference is one NUMA node.
    answer = node.kubelet.admit(4)
    assert answer == {COUNTED: "2-3,6-7"}
    pod = Pod("db", namespace="shop")
    request = pod.container("main", annotations=answer).request("create", conf=node.conf)
    node.make_cgroup(pod.containers[0].cgroup)
    result = invoke(Konfine(), request)
    assert (result.error, result.metadata["cpus"]) == ("", "2-3,6-7")
    assert node.cpus("web") == "0-1,4-5"


def test_cpus_given_by_annotation_are_not_counted(node: Counting) -> None:
    node.start("db/main", ask=3)
    node.look()
    node.kubelet.until_listed(4)
    assert len(node.kubelet.devices) == 7
    node.kubelet.admit(2)
    # 5 are left: two are promised, one stays shared.
    assert "asks for 3 CPUs alone" in node.refusal("more", ask=3)
    node.start("more", ask=2)
    node.look()
    node.kubelet.until_listed(2)
    assert node.kubelet.free == []


def test_offline_cpu_and_changed_conf_reach_the_kubelet(node: Counting) -> None:
    node.look()
    node.kubelet.until_listed(7)
    (node.root / "sys/devices/system/cpu/online").write_text("0-6\n")
    node.look()
    node.kubelet.until_listed(6)
    assert node.kubelet.devices["cpu7"] == ("Unhealthy", [])
    node.configure(systemReserved=[0, 1])
    node.look()
    node.kubelet.until_listed(4)
    node.configure(exclusive={})
    node.look()
    node.kubelet.until_listed(0)
    assert node.agent.problems() == [
        f"configuration: no entry of konfine has exclusive.counted; expected one, for {RESOURCE}"
    ]


def test_kubelet_that_restarts_or_hangs_up_gets_the_devices_again(node: Counting) -> None:
    node.look()
    node.kubelet.until_listed(7)
    node.kubelet.restart()
    node.look()
    node.kubelet.until_listed(7)
    node.kubelet.hang_up()
    node.kubelet.devices = {}
    until(lambda: not node.agent.devices.is_registered, "the end of the stream")
    node.look(after=11)
    node.kubelet.until_listed(7)
    assert len(node.kubelet.registrations) == 3
    assert node.said == []


def test_kubelet_that_restarts_ten_times_finds_the_socket_each_time(node: Counting) -> None:
    """The end of the old server removes a socket: not the new one, of the same name."""
    node.look()
    node.kubelet.until_listed(7)
    for _ in range(10):
        node.kubelet.restart()
        node.look()
        node.kubelet.until_listed(7)
        assert (node.root / "kubelet/nri-exclusive-cpu.sock").exists()


def test_kubelet_that_starts_is_not_kept_waiting(node: Counting) -> None:
    node.kubelet.stop()
    (node.root / "kubelet/kubelet.sock").unlink(missing_ok=True)
    for _ in range(10):
        node.look(after=60)  # until the pauses are the longest ones
    node.kubelet.start()
    node.look(after=1)
    node.kubelet.until_listed(7)


def test_directory_that_is_removed_ends_the_agent(node: Counting) -> None:
    """A mount in a container shows the removed one for ever; here a descriptor does."""
    directory = os.open(node.root / "kubelet", os.O_RDONLY)
    try:
        node.agent = node.new_agent(kubelet=f"/proc/self/fd/{directory}")
        node.look()
        assert node.agent.ending == ""
        shutil.rmtree(node.root / "kubelet")
        node.look()
        assert "was removed, and a mount still shows it; expected to be started anew" in (
            node.agent.ending
        )
    finally:
        os.close(directory)


def test_allocation_does_not_wait_for_a_lock_for_long(
    node: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "ALLOCATES_WITHIN", 0.1)
    node.look()
    node.kubelet.until_listed(7)
    with (
        Record(node.conf["run"], node.sys),
        pytest.raises(grpc.RpcError, match="another process has held it for"),
    ):
        node.kubelet.admit(2)
    node.kubelet.allocated.clear()
    assert node.kubelet.admit(2)


def promised(node: Counting) -> list[str]:
    entries = node.state()["containers"]
    return [entry["counted"] for key, entry in entries.items() if key.startswith("admitted ")]


def test_promise_ends_with_its_pod(node: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that fails after its admission: no event of a container comes."""
    node.look()
    node.kubelet.until_listed(7)
    node.kubelet.admit(2)
    first = promised(node)
    node.look()
    node.kubelet.allocated.clear()  # OutOfcpu, or the pod is deleted
    node.look()
    assert promised(node) == first  # the kubelet lists a pod a moment after its admission
    monkeypatch.setattr(record, "LISTED_WITHIN", -1)
    node.look()
    assert promised(node) == []
    node.start("web/main", ask=2)


def test_promise_is_kept_while_its_pod_is_listed(
    node: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.look()
    node.kubelet.until_listed(7)
    node.kubelet.admit(2)
    monkeypatch.setattr(record, "LISTED_WITHIN", -1)
    real = record.now
    for minutes in range(4, 60, 4):  # images are pulled for an hour
        monkeypatch.setattr(record, "now", lambda ahead=60 * minutes: real() + ahead)
        monkeypatch.setattr(wanted, "now", record.now)
        node.look()
        node.run("update", "web")
        assert len(promised(node)) == 1
    assert node.said == []


def test_kubelet_that_does_not_list_pods_is_said_once(node: Counting) -> None:
    (node.root / "kubelet/pods.sock").unlink()
    node.look()
    node.kubelet.until_listed(7)
    for _ in range(3):
        node.look()
    (line,) = node.said
    assert line.startswith(f"{node.root}/kubelet/pods.sock: the kubelet does not answer there: ")
    node.kubelet.until_listed(7)
    node.kubelet.admit(2)
    node.look()
    assert len(promised(node)) == 1
    assert node.agent.problems() == []


def test_each_fault_is_one_line_and_tried_again(node: Counting) -> None:
    directory = node.root / "kubelet"
    node.kubelet.stop()
    (directory / "kubelet.sock").unlink(missing_ok=True)
    node.look()
    assert node.said.pop().startswith(
        f"kubelet: {directory}/kubelet.sock is not there: expected the socket of the kub"
    )
    node.look(after=0.5)
    node.kubelet.start()
    node.kubelet.refusal = grpc.StatusCode.UNIMPLEMENTED
    node.look(after=10)
    assert (
        "the kubelet does not take nri.io/exclusive-cpu: UNIMPLEMENTED: no such plugin is wanted here"
        in node.said.pop()
    )
    for _ in range(10):
        node.look(after=60)
    assert node.said == []
    tries = len(node.kubelet.registrations)
    node.look(after=29)  # at the longest pause
    node.kubelet.refusal = None
    assert len(node.kubelet.registrations) == tries
    node.look(after=2)
    node.kubelet.until_listed(7)
    assert node.said == ["kubelet: well again"]


def test_authority_is_one_that_go_takes(node: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = grpc.insecure_channel

    def channel(target: str, options: object = None) -> object:
        made.append(options)
        return real(target, options)

    monkeypatch.setattr(grpc, "insecure_channel", channel)
    node.look()
    assert made[0] == [("grpc.default_authority", "localhost")]


def test_missing_directory_is_named(node: Counting) -> None:
    missing = str(node.root / "none")
    node.agent = node.new_agent(kubelet=missing)
    node.look()
    assert node.said[-1].startswith(
        f"kubelet: {missing} is no directory: expected the kubelet's directory"
    )


def test_socket_that_no_kubelet_serves_and_one_that_cannot_be_made_are_named(
    node: Counting,
) -> None:
    node.kubelet.stop()
    with socket.socket(socket.AF_UNIX) as left:
        path = node.root / "kubelet/kubelet.sock"
        path.unlink(missing_ok=True)
        left.bind(str(path))
    node.look()
    assert f"{path}: the kubelet does not take nri.io/exclusive-cpu: UNAVAILABLE" in node.said[-1]
    node.agent.close()
    long = node.root / ("x" * 100)
    long.mkdir()
    node.agent = node.new_agent(kubelet=str(long))
    node.look()
    assert node.said[-1].endswith(
        "/nri-exclusive-cpu.sock: found a path of more than 107 bytes, too long for a socket"
    )
    node.kubelet.start()


def test_another_process_at_the_endpoint_keeps_it(node: Counting) -> None:
    path = str(node.root / "kubelet/nri-exclusive-cpu.sock")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        node.look()
        assert node.said == [
            f"kubelet: {path}: another process listens there; expected to be the only device plugin"
        ]
    node.look(after=60)  # what it has left is no obstacle
    node.kubelet.until_listed(7)


def test_kubelet_that_answers_late_is_waited_for(node: Counting) -> None:
    node.kubelet.answers.clear()
    threading.Timer(0.5, node.kubelet.answers.set).start()
    node.look()
    node.kubelet.until_listed(7)
    assert node.said == []


@pytest.mark.parametrize(
    ("available", "count", "must", "answer"),
    [
        (["cpu1"], 2, (), ["cpu1"]),
        (["cpu1", "cpu2"], 1, ("cpu3", "cpu4"), ["cpu3", "cpu4"]),
        (["cpu2", "cpu99"], 2, ("cpu98",), ["cpu2"]),
        (["1"], 1, (), []),
        ([], -1, (), []),
    ],
)
def test_kubelet_that_asks_for_what_there_is_not_gets_what_there_is(
    node: Counting, available: list[str], count: int, must: tuple[str, ...], answer: list[str]
) -> None:
    """A preference that fails would fail the pod, and devices change while the kubelet asks."""
    node.look()
    node.kubelet.until_listed(7)
    assert node.kubelet.prefer(available, count, must) == answer
    with pytest.raises(grpc.RpcError, match="expected one of those that are listed"):
        node.kubelet.allocate(["cpu1", "gpu0"])


def test_preference_is_konfines_and_has_what_it_must(node: Counting) -> None:
    node.look()
    node.kubelet.until_listed(7)
    every = [f"cpu{cpu}" for cpu in range(1, 8)]
    assert node.kubelet.prefer(every, 2) in (["cpu1", "cpu5"], ["cpu2", "cpu6"], ["cpu3", "cpu7"])
    assert node.kubelet.prefer(every, 2, ("cpu6",)) == ["cpu2", "cpu6"]
    assert node.kubelet.prefer(every, 0) == []
    # Of no single node: near each other all the same.
    assert len(node.kubelet.prefer(every, 6)) == 6


@pytest.mark.parametrize(
    ("isolated", "count", "must", "answer"),
    [
        ("2-3,6-7", 2, (), [["cpu2", "cpu6"], ["cpu3", "cpu7"]]),
        ("2-3", 1, (), [["cpu2"], ["cpu3"]]),
        ("2-3", 3, (), [["cpu1", "cpu4", "cpu5"]]),
        ("2-3", 2, ("cpu1",), [["cpu1", "cpu5"]]),
        ("2-3", 6, (), [[f"cpu{cpu}" for cpu in range(1, 7)]]),
    ],
)
def test_preference_is_of_isolated_cpus_if_these_do(
    node: Counting, isolated: str, count: int, must: tuple[str, ...], answer: list[list[str]]
) -> None:
    (node.root / "sys/devices/system/cpu/isolated").write_text(f"{isolated}\n")
    node.look()
    every = (
        [f"cpu{cpu}" for cpu in range(1, 7)]
        if isolated == "2-3"
        else [f"cpu{cpu}" for cpu in range(1, 8)]
    )
    until(lambda: {*every} <= {*node.kubelet.devices}, "the devices")
    assert node.kubelet.prefer(every, count, must) in answer


def test_record_that_cannot_be_kept_refuses_the_pod(node: Counting) -> None:
    node.look()
    node.kubelet.until_listed(7)
    (node.root / "run").write_text("no directory")
    with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
        node.kubelet.allocate(["cpu1"])


def test_relative_directory_is_the_kubelets(
    node: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(node.root)
    node.agent = node.new_agent(kubelet="kubelet")
    node.look()
    node.kubelet.until_listed(7)


def test_admission_before_the_first_event_after_a_boot_is_no_fault(node: Counting) -> None:
    for _ in range(2):
        node.look()
        node.kubelet.until_listed(7)
        node.kubelet.admit(2)
    node.look()
    assert node.state()["incomplete"] == "there was none"
    assert node.said == []


def test_damaged_record_changes_nothing_until_konfine_has_made_it_again(node: Counting) -> None:
    node.start("db/main", ask=3)
    node.look()
    node.kubelet.until_listed(4)
    node.record.write_text("x")
    node.look()
    assert "konfine's record: it was damaged" in node.said.pop()
    assert len(node.kubelet.healthy) == 4


def test_devices_are_unhealthy_before_the_device_plugin_ends(node: Counting) -> None:
    node.look()
    node.kubelet.until_listed(7)
    node.agent.close()
    node.kubelet.until_listed(0)
    assert len(node.kubelet.devices) == 7
