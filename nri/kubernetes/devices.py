"""The device plugin: CPUs as devices of the kubelet, by its device plugin API v1beta1.

The kubelet listens on ``kubelet.sock`` in its directory, where a device plugin registers its own socket; the kubelet
then connects to that, watches the devices, and asks for an allocation when it admits a pod. A kubelet that starts
removes all sockets there, and knows no device plugin. The reference is the page "Device Plugins" of Kubernetes, and
pkg/kubelet/cm/devicemanager.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc

from nri.cgroups import render_cpus
from nri.errors import NRIError, reason_of
from nri.files import identity
from nri.kubernetes import deviceplugin_pb2 as api
from nri.kubernetes.cpus import NodeCpus
from nri.kubernetes.kubelet import call, serialized
from nri.plugins.konfine import COUNTED, RESOURCE
from nri.plugins.konfine.placement import NoRoomError, choose
from nri.plugins.konfine.record import Record

KUBELET_DIR = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET = "kubelet.sock"
ENDPOINT = "nri-exclusive-cpu.sock"
VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

MAX_ADDRESS = 107
"""Bytes of a socket's path, unix(7)."""

REGISTERS_WITHIN = 10.0
"""Seconds that the kubelet has to answer a registration."""

WATCHES_WITHIN = 10.0
"""Seconds that the kubelet has to watch the devices after it."""

ALLOCATES_WITHIN = 2.0
"""Seconds that an allocation waits for konfine's lock: the kubelet admits no other pod meanwhile."""

_OPTIONS = api.DevicePluginOptions(get_preferred_allocation_available=True)


class DirectoryGoneError(NRIError):
    """The kubelet's directory was removed under this process, which can never register in it again."""


class DevicePlugin:
    """Serves the devices of ``update``, and keeps registered with the kubelet.

    :param directory: the kubelet's, with its socket.
    :param clock: ``time.monotonic``.
    """

    def __init__(self, directory: str, clock: Callable[[], float]) -> None:
        directory = os.path.abspath(directory)  # a relative one is no address for gRPC
        self._directory = directory
        self._clock = clock
        self._socket = os.path.join(directory, ENDPOINT)
        self._kubelets = os.path.join(directory, KUBELET_SOCKET)
        self._changed = threading.Condition()
        self._cpus: NodeCpus  # set by the first ``update``, before which no device is listed
        self._devices: dict[str, api.Device] = {}
        self._watchers = 0
        self._server: Any = None
        self._identity: object = None  # of our socket and the kubelet's, when we registered
        self._registered_at = 0.0

    def update(self, cpus: NodeCpus) -> None:
        """Offer the devices of these CPUs from now on. One that is gone since its CPU is offline is unhealthy."""
        health = dict.fromkeys(self._offline(cpus), False) | cpus.devices
        devices = {}
        for cpu in sorted(health):
            devices[_id(cpu)] = _device(cpu, cpus.node_of(cpu), is_healthy=health[cpu])

        with self._changed:
            self._cpus = cpus
            if devices != self._devices:
                self._devices = devices
                self._changed.notify_all()

    def _offline(self, cpus: NodeCpus) -> list[int]:
        return sorted(set(map(_cpu, self._devices)) - cpus.topology.online)

    @property
    def kubelet(self) -> tuple[int, ...]:
        """The identity of the kubelet's socket: another one is that of a kubelet which was started anew."""
        return identity(self._kubelets)

    @property
    def is_registered(self) -> bool:
        """True while a kubelet watches the devices."""
        return self._watchers > 0

    def keep_registered(self) -> None:
        """Listen, and register if the kubelet does not know of the devices: it was restarted, or has hung up.

        :raises DirectoryGoneError: the directory was removed.
        :raises NRIError: that is not possible now.
        """
        if _is_removed(self._directory):
            gone = "was removed, and a mount still shows it; expected to be started anew"
            raise DirectoryGoneError(f"{self._directory} {gone}")
        is_same = self._identity == (identity(self._socket), identity(self._kubelets))
        may_come = self._clock() < self._registered_at + WATCHES_WITHIN
        if is_same and (self.is_registered or may_come):
            return
        self._identity = None
        if not os.path.isdir(self._directory):
            where = (
                "expected the kubelet's directory for device plugins, and in a container its mount"
            )
            raise NRIError(f"{self._directory} is no directory: {where}")
        if self._server is None or not identity(self._socket):
            self._listen()
        self._register()
        self._registered_at = self._clock()
        self._identity = identity(self._socket), identity(self._kubelets)

    def close(self) -> None:
        """Report all devices as unhealthy, so that the kubelet admits no pod for them, and stop listening."""
        with self._changed:
            self._devices = {id_: api.Device(ID=id_, health=UNHEALTHY) for id_ in self._devices}
        self._stop()

    def _stop(self) -> None:
        """Stop listening. A watching kubelet gets what it has not been sent yet."""
        server = self._server
        self._server = None
        self._wake()
        if server is not None:
            # Its end removes the socket, which may be that of the next server by then.
            server.stop(0.5).wait()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _listen(self) -> None:
        self._stop()
        if len(os.fsencode(self._socket)) > MAX_ADDRESS:
            raise NRIError(
                f"{self._socket}: found a path of more than {MAX_ADDRESS} bytes, too long for a socket"
            )
        if _is_served(self._socket):
            raise NRIError(
                f"{self._socket}: another process listens there; expected to be the only device plugin"
            )
        unary = grpc.unary_unary_rpc_method_handler
        stream = grpc.unary_stream_rpc_method_handler
        preferred = api.PreferredAllocationRequest.FromString
        handlers = {
            "GetDevicePluginOptions": unary(self._options, api.Empty.FromString, serialized),
            "ListAndWatch": stream(self._watch, api.Empty.FromString, serialized),
            "GetPreferredAllocation": unary(self._prefer, preferred, serialized),
            "Allocate": unary(self._allocate, api.AllocateRequest.FromString, serialized),
        }
        server = grpc.server(ThreadPoolExecutor(max_workers=16, thread_name_prefix="device-plugin"))
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", handlers)]
        )
        try:
            server.add_insecure_port(f"unix://{self._socket}")
            server.start()
        except RuntimeError as error:
            raise NRIError(
                f"{self._socket}: cannot listen there: {error}; expected to be allowed to"
            ) from error
        self._server = server

    def _register(self) -> None:
        request = api.RegisterRequest(
            version=VERSION,
            endpoint=ENDPOINT,
            resource_name=RESOURCE,
            options=_OPTIONS,
        )
        if not identity(self._kubelets):
            raise NRIError(
                f"{self._kubelets} is not there: expected the socket of the kubelet; does it run?"
            )
        method = f"/{VERSION}.Registration/Register"
        try:
            call(self._kubelets, method, request, api.Empty, REGISTERS_WITHIN)
        except grpc.RpcError as error:
            said = f"{error.code().name}: {error.details()}"
            raise NRIError(
                f"{self._kubelets}: the kubelet does not take {RESOURCE}: {said}"
            ) from error

    # What the kubelet calls, in threads of gRPC

    def _options(
        self, _request: api.Empty, _context: grpc.ServicerContext
    ) -> api.DevicePluginOptions:
        return _OPTIONS

    def _watch(
        self, _request: api.Empty, context: grpc.ServicerContext
    ) -> Iterator[api.ListAndWatchResponse]:
        context.add_callback(self._wake)
        server = self._server
        sent = None
        with self._changed:
            self._watchers += 1
        try:
            while context.is_active():
                with self._changed:
                    if sent is self._devices:
                        if server is not self._server:
                            return
                        self._changed.wait()
                        continue
                    sent = self._devices
                yield api.ListAndWatchResponse(devices=sent.values())
        finally:
            with self._changed:
                self._watchers -= 1

    def _prefer(
        self, request: api.PreferredAllocationRequest, _context: grpc.ServicerContext
    ) -> api.PreferredAllocationResponse:
        # The kubelet fails the pod for an error here, and goes by itself where it gets too few.
        answer = api.PreferredAllocationResponse()
        for asked in request.container_requests:
            must = self._listed(asked.must_include_deviceIDs)
            free = self._listed(asked.available_deviceIDs) - must
            picked = must | self._pick(
                free, min(max(asked.allocation_size - len(must), 0), len(free)), must
            )
            answer.container_responses.add(deviceIDs=map(_id, sorted(picked)))
        return answer

    def _pick(self, free: frozenset[int], count: int, near: frozenset[int]) -> frozenset[int]:
        """Return CPUs as konfine would choose them; if that cannot be, near each other all the same."""
        if not count:
            return frozenset()
        cpus = self._cpus
        given = cpus.conf.exclusive
        isolated = cpus.topology.isolated
        kinds = [free - isolated, free]
        if near <= isolated:
            kinds.insert(0, free & isolated)
        for kind in kinds:
            try:
                return choose(
                    cpus.topology,
                    kind,
                    count,
                    near=near,
                    whole=given.whole_cores,
                    spread=given.spread,
                )
            except NoRoomError:
                continue
        return choose(cpus.topology, free, count, near=near, spread=True)

    def _allocate(
        self, request: api.AllocateRequest, context: grpc.ServicerContext
    ) -> api.AllocateResponse:
        answer = api.AllocateResponse()
        for asked in request.container_requests:
            listed = self._known(asked.devices_ids, context)
            try:
                self._promise(listed)
            except (NRIError, OSError) as error:
                context.abort(grpc.StatusCode.UNAVAILABLE, f"konfine's record: {reason_of(error)}")
            answer.container_responses.add(annotations={COUNTED: render_cpus(listed)})
        return answer

    def _promise(self, listed: frozenset[int]) -> None:
        if listed:
            cpus = self._cpus
            with Record(cpus.conf.run, cpus.conf.sys, within=ALLOCATES_WITHIN) as record:
                record.promise(listed, cpus.shareable, cpus.conf.exclusive.min_shared)
                record.save()

    def follow(self, listed: Iterable[str]) -> None:
        """End the promises of CPUs that no pod has.

        :param listed: the ids of the devices that pods have.
        :raises NRIError: konfine's record cannot be read or written.
        """
        cpus = self._cpus
        if not cpus.record.promises():
            return
        with Record(cpus.conf.run, cpus.conf.sys, within=ALLOCATES_WITHIN) as record:
            record.follow(frozenset([_cpu(name) for name in listed if _DEVICE.fullmatch(name)]))
            record.save()

    def _known(self, ids: Iterable[str], context: grpc.ServicerContext) -> frozenset[int]:
        """Return the CPUs of these devices; refuse the call if one is not listed."""
        named = set(ids)
        unknown = sorted(named.difference(self._devices))
        if unknown:
            _refuse(context, f"device {unknown[0][:63]!r}: expected one of those that are listed")
        return frozenset(map(_cpu, named))

    def _listed(self, ids: Iterable[str]) -> frozenset[int]:
        """Return the CPUs of these devices, without those that are not listed."""
        return frozenset(map(_cpu, self._devices.keys() & set(ids)))


_CPU = "cpu"
_DEVICE = re.compile(f"{_CPU}[0-9]{{1,5}}")


def _id(cpu: int) -> str:
    return f"{_CPU}{cpu}"


def _device(cpu: int, node: int | None, *, is_healthy: bool) -> api.Device:
    health = HEALTHY if is_healthy else UNHEALTHY
    device = api.Device(ID=_id(cpu), health=health)
    if node is not None:
        device.topology.nodes.add(ID=node)
    return device


def _cpu(device: str) -> int:
    return int(device.removeprefix(_CPU))


def _refuse(context: grpc.ServicerContext, why: str) -> NoReturn:
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
    raise AssertionError  # abort raises


def _is_removed(directory: str) -> bool:
    """Return whether a directory has no name any more: a mount of it may still lead there."""
    try:
        return os.stat(directory).st_nlink == 0
    except OSError:
        return False


def _is_served(path: str) -> bool:
    """Return whether a process listens on a socket. gRPC would take its place."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(1)
        try:
            asking.connect(path)
        except (OSError, ValueError):
            return False
    return True
