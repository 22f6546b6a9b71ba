"""A CRI client with the calls of the kubelet that the tests need.

The messages are built from the field table `cri-api.json` (package runtime.v1), without generated code. A call that
the runtime refuses raises `grpc.RpcError`; its `details()` is the runtime's message.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

API: dict[str, Any] = json.loads(Path(__file__).with_name("cri-api.json").read_text())
TIMEOUT = 60.0  # seconds for one call, plugins included
NODE = 2  # NamespaceMode: the host's network, so no CNI plugin is needed

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "uint32": _Field.TYPE_UINT32,
    "bool": _Field.TYPE_BOOL,
}


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind.startswith("map<"):
        key, value = kind[4:-1].split(", ")
        entry = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
        entry.options.map_entry = True
        _add_field(entry, 1, "key", key)
        _add_field(entry, 2, "value", value)
        field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
        field.type_name = f".{API['package']}.{message.name}.{entry.name}"
        return
    if kind.startswith("repeated "):
        field.label = _Field.LABEL_REPEATED
        kind = kind.removeprefix("repeated ")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_ENUM if kind in API["enums"] else _Field.TYPE_MESSAGE
        field.type_name = f".{API['package']}.{kind}"


def _message_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="cri.proto", package=API["package"], syntax="proto3"
    )
    for name, values in API["enums"].items():
        enum = file.enum_type.add(name=name)
        for label, number in values.items():
            enum.value.add(name=label, number=number)
    for name, fields in API["messages"].items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            _add_field(message, number, field, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return {
        n: message_factory.GetMessageClass(find(f"{API['package']}.{n}")) for n in API["messages"]
    }


_CLASSES = _message_classes()
_METHODS = {
    method: (f"/{API['package']}.{service}/{method}", *types)
    for service, methods in API["services"].items()
    for method, types in methods.items()
}


class Cri:
    """One connection to a runtime's CRI socket; a context manager that closes it.

    :param cgroup_parent: the parent cgroup of pods that name none, like the kubelet's `/kubepods/…`.
    """

    def __init__(self, socket: Path | str, *, cgroup_parent: str = "") -> None:
        self.cgroup_parent = cgroup_parent
        self._pods: dict[str, dict[str, Any]] = {}
        self._channel = grpc.insecure_channel(
            f"unix:{socket}",
            options=[
                ("grpc.default_authority", "localhost"),  # Go refuses a socket path as authority
                ("grpc.initial_reconnect_backoff_ms", 50),
                ("grpc.max_reconnect_backoff_ms", 200),
                # A status message is metadata: 8 KiB by default here, 16 MiB in gRPC-Go and so in the kubelet.
                ("grpc.max_metadata_size", 1 << 20),
                ("grpc.absolute_max_metadata_size", 1 << 20),
            ],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, *, within: float = TIMEOUT, **fields: Any) -> Any:
        """Call a method of the table.

        :param within: the timeout in seconds.
        :param fields: the fields of the request.
        """
        path, request, response = _METHODS[method]
        send = self._channel.unary_unary(
            path,
            request_serializer=_CLASSES[request].SerializeToString,
            response_deserializer=_CLASSES[response].FromString,
        )
        return send(_CLASSES[request](**fields), timeout=within)

    def version(self, *, within: float = TIMEOUT) -> str:
        """Return the runtime's name and version, such as `containerd 1.6.20~ds1`."""
        answer = self.call("Version", within=within)
        return f"{answer.runtime_name} {answer.runtime_version}"

    def has_image(self, name: str) -> bool:
        return bool(self.call("ImageStatus", image={"image": name}).HasField("image"))

    def run_pod(
        self,
        name: str,
        *,
        uid: str | None = None,
        namespace: str = "default",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        cgroup_parent: str = "",
        log_directory: str = "",
    ) -> str:
        """Run a pod on the host's network; return its id."""
        config = {
            "metadata": {"name": name, "uid": uid or str(uuid4()), "namespace": namespace},
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "log_directory": log_directory,
            "linux": {
                "cgroup_parent": cgroup_parent or self.cgroup_parent,
                "security_context": {"namespace_options": {"network": NODE}},
            },
        }
        pod: str = self.call("RunPodSandbox", config=config).pod_sandbox_id
        self._pods[pod] = config
        return pod

    def create_container(  # noqa: PLR0913 - optional, by name
        self,
        pod: str,
        name: str,
        *,
        image: str,
        command: Sequence[str],
        cpu_quota: int = 0,
        cpu_period: int = 0,
        cpu_shares: int = 0,
        cpuset_cpus: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> str:
        """Create a container in a pod of this client; return its id. Quota and period are in microseconds."""
        resources = {
            "cpu_quota": cpu_quota,
            "cpu_period": cpu_period,
            "cpu_shares": cpu_shares,
            "cpuset_cpus": cpuset_cpus,
        }
        config = {
            "metadata": {"name": name},
            "image": {"image": image},
            "command": list(command),
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "linux": {
                "resources": resources,
                "security_context": {"namespace_options": {"network": NODE}},
            },
        }
        answer = self.call(
            "CreateContainer", pod_sandbox_id=pod, config=config, sandbox_config=self._pods[pod]
        )
        container: str = answer.container_id
        return container

    def start(self, container: str) -> None:
        self.call("StartContainer", container_id=container)

    def update_resources(self, container: str, **resources: Any) -> None:
        """Change resources; the keywords are fields of LinuxContainerResources."""
        self.call("UpdateContainerResources", container_id=container, linux=resources)

    def status(self, container: str) -> Any:
        """Return the ContainerStatus message; its `state` is a number of the enum ContainerState."""
        return self.call("ContainerStatus", container_id=container).status

    def stop(self, container: str, *, grace: int = 0) -> None:
        """Stop a container, with `grace` seconds between SIGTERM and SIGKILL."""
        self.call("StopContainer", container_id=container, timeout=grace)

    def remove(self, container: str) -> None:
        self.call("RemoveContainer", container_id=container)

    def stop_pod(self, pod: str) -> None:
        self.call("StopPodSandbox", pod_sandbox_id=pod)

    def remove_pod(self, pod: str) -> None:
        self.call("RemovePodSandbox", pod_sandbox_id=pod)

    def remove_pods(self) -> None:
        """Stop and remove the pods that this client has run, with their containers."""
        while self._pods:
            pod, _ = self._pods.popitem()
            self.stop_pod(pod)  # of one that is gone, too
            self.remove_pod(pod)
