"""NRI v2 messages to v0.1 requests: any pod and container that protobuf can read become a request. It can be written,
a plugin reads the same request, and it has their ids, and the container's annotations over the pod's.

The input is the container's length in the first byte, the container, and the pod.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nri.types.v1 import Request, State
from nri.v1bridge.requests import Subject
from nri.v2.api import Container, PodSandbox


def check(data: bytes) -> None:
    """Make requests of the two messages."""
    length = data[0] if data else 0
    try:
        container, pod = (
            Container.FromString(data[1 : 1 + length]),
            PodSandbox.FromString(data[1 + length :]),
        )
    except DecodeError:
        return
    request = Subject(pod, container).request(State.CREATE)
    assert request.id == container.id
    assert request.sandbox_id == (container.pod_sandbox_id or pod.id)
    assert request.spec is not None
    assert request.spec.annotations == {**pod.annotations, **container.annotations}
    assert Subject(pod).request(State.DELETE).is_sandbox
    for made in (request, Subject(pod).request(State.DELETE)):
        # What the bridge knows is beside it.
        assert Request.from_json(made.to_json()).to_value() == made.to_value()


def _seed(container: Container, pod: PodSandbox) -> bytes:
    wire = container.SerializeToString()
    return bytes([len(wire)]) + wire + pod.SerializeToString()


def _container() -> Container:
    container = Container(
        id="c", pod_sandbox_id="p", name="web", pid=7, annotations={"qos.class": "ls"}
    )
    container.linux.cgroups_path = "/kubepods/pod1/c"
    container.linux.namespaces.add(type="pid", path="/proc/1/ns/pid")
    resources = container.linux.resources
    resources.cpu.shares.value = 1024
    resources.cpu.cpus = "0-3"
    resources.memory.limit.value = -1
    resources.pids.limit = -1
    resources.hugepage_limits.add(page_size="2MB", limit=2**64 - 1)
    resources.devices.add(allow=True, type="c", access="rw").major.value = 1
    resources.unified["memory.high"] = "max"
    return container


SEEDS = (
    _seed(
        _container(),
        PodSandbox(id="p", name="web", namespace="default", labels={"app": "web"}, pid=2**32 - 1),
    ),
    _seed(_container(), PodSandbox(id="q", annotations={"qos.class": "be", "other": "1"})),
    _seed(Container(), PodSandbox()),
    _seed(Container(id="\x00\x1b"), PodSandbox(id="\x00\x1b", annotations={"": ""})),
)
