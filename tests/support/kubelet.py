"""The kubelet's side of the device plugin API, from Kubernetes' page "Device Plugins" and its .proto."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from nri.kubernetes import deviceplugin_pb2 as api
from nri.kubernetes import podresources_pb2 as resources
from nri.plugins.konfine import RESOURCE
from tests.support.waiting import SOON, until

if TYPE_CHECKING:
    from pathlib import Path


class Kubelet:
    """A device manager with one directory.

    :ivar devices: what the device plugin has listed last: each device's health, and its NUMA nodes.
    :ivar allocated: the devices that pods have.
    :ivar registrations: the requests, in order.
    :ivar refusal: the status that a registration gets; None to accept it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.refusal = directory, None
        self.devices: dict[str, tuple[str, list[int]]] = {}
        self.allocated: set[str] = set()
        self.registrations: list[api.RegisterRequest] = []
        self.answers = threading.Event()
        self.answers.set()
        self._server: Any = None
        self._stream: Any = None
        self._channel: Any = None
        self.start()

    def start(self) -> None:
        """Start; all sockets in the directory are removed, as the kubelet does."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        register = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=api.RegisterRequest.FromString,
            response_serializer=_serialized,
        )
        handler = grpc.method_handlers_generic_handler(
            "v1beta1.Registration", {"Register": register}
        )
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        lister = grpc.unary_unary_rpc_method_handler(
            self._list,
            request_deserializer=resources.ListPodResourcesRequest.FromString,
            response_serializer=_serialized,
        )
        pods = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": lister})
        self._server.add_generic_rpc_handlers([handler, pods])
        self._server.add_insecure_port(f"unix://{self.directory}/kubelet.sock")
        self._server.add_insecure_port(f"unix://{self.directory}/pods.sock")
        self._server.start()

    def _list(
        self, _request: resources.ListPodResourcesRequest, _context: grpc.ServicerContext
    ) -> resources.ListPodResourcesResponse:
        answer = resources.ListPodResourcesResponse()
        container = answer.pod_resources.add(name="pod", namespace="shop").containers.add(name="a")
        container.devices.add(resource_name="other.io/cpu", device_ids=["cpu1", "gpu0"])
        container.devices.add(resource_name=RESOURCE, device_ids=sorted(self.allocated))
        return answer

    def stop(self) -> None:
        """End. The sockets stay."""
        self.hang_up()
        self._server.stop(None).wait()

    def restart(self) -> None:
        """End, and start without knowing any device."""
        self.stop()
        self.devices = {}
        self.start()

    def hang_up(self) -> None:
        """Close the stream of devices."""
        if self._channel is not None:
            self._stream.cancel()
            self._channel.close()
            self._channel = None

    def _register(self, request: api.RegisterRequest, context: grpc.ServicerContext) -> api.Empty:
        self.answers.wait(SOON)
        self.registrations.append(request)
        if self.refusal is not None:
            context.abort(self.refusal, "no such plugin is wanted here")
        self.hang_up()
        self._channel = grpc.insecure_channel(f"unix://{self.directory}/{request.endpoint}")
        assert (
            self._call("GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions).ByteSize()
            > 0
        )
        watch = self._channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=_serialized,
            response_deserializer=api.ListAndWatchResponse.FromString,
        )
        self._stream = watch(api.Empty())
        threading.Thread(target=self._watch, args=[self._stream], daemon=True).start()
        return api.Empty()

    def _watch(self, stream: Any) -> None:
        try:
            for listed in stream:
                self.devices = {
                    device.ID: (device.health, [node.ID for node in device.topology.nodes])
                    for device in listed.devices
                }
        except grpc.RpcError:
            pass

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        call = self._channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=_serialized,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=SOON)

    @property
    def healthy(self) -> list[str]:
        return [name for name, (health, _) in self.devices.items() if health == "Healthy"]

    @property
    def free(self) -> list[str]:
        """What the scheduler still counts, by name."""
        return [name for name in self.healthy if name not in self.allocated]

    def admit(self, count: int) -> dict[str, str]:
        """Admit a container that requests so many; return the annotations that it gets."""
        preferred = self.prefer(self.free, count)
        self.allocated |= set(preferred)
        return self.allocate(preferred)

    def prefer(self, available: list[str], count: int, must: tuple[str, ...] = ()) -> list[str]:
        request = api.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=count
        )
        answer = self._call("GetPreferredAllocation", request, api.PreferredAllocationResponse)
        return list(answer.container_responses[0].deviceIDs)

    def allocate(self, devices: list[str]) -> dict[str, str]:
        request = api.AllocateRequest()
        request.container_requests.add(devices_ids=devices)
        return dict(
            self._call("Allocate", request, api.AllocateResponse).container_responses[0].annotations
        )

    def until_listed(self, count: int) -> None:
        """Wait until so many devices are healthy."""
        until(lambda: len(self.healthy) == count, f"{count} healthy devices")

    def clean(self) -> None:
        self.answers.set()
        self.stop()
        (self.directory / "kubelet.sock").unlink(missing_ok=True)


def _serialized(message: Any) -> bytes:
    return message.SerializeToString()  # type: ignore[no-any-return]
