# Made by tools/protoc from nri/v2/api/proto/runtime.proto; change that one and run it.
from nri.v2.api import adjustment_pb2 as _adjustment_pb2
from nri.v2.api import container_pb2 as _container_pb2
from nri.v2.api import linux_pb2 as _linux_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[Event]
    RUN_POD_SANDBOX: _ClassVar[Event]
    STOP_POD_SANDBOX: _ClassVar[Event]
    REMOVE_POD_SANDBOX: _ClassVar[Event]
    CREATE_CONTAINER: _ClassVar[Event]
    POST_CREATE_CONTAINER: _ClassVar[Event]
    START_CONTAINER: _ClassVar[Event]
    POST_START_CONTAINER: _ClassVar[Event]
    UPDATE_CONTAINER: _ClassVar[Event]
    POST_UPDATE_CONTAINER: _ClassVar[Event]
    STOP_CONTAINER: _ClassVar[Event]
    REMOVE_CONTAINER: _ClassVar[Event]
    UPDATE_POD_SANDBOX: _ClassVar[Event]
    POST_UPDATE_POD_SANDBOX: _ClassVar[Event]
    VALIDATE_CONTAINER_ADJUSTMENT: _ClassVar[Event]
    LAST: _ClassVar[Event]
UNKNOWN: Event
RUN_POD_SANDBOX: Event
STOP_POD_SANDBOX: Event
REMOVE_POD_SANDBOX: Event
CREATE_CONTAINER: Event
POST_CREATE_CONTAINER: Event
START_CONTAINER: Event
POST_START_CONTAINER: Event
UPDATE_CONTAINER: Event
POST_UPDATE_CONTAINER: Event
STOP_CONTAINER: Event
REMOVE_CONTAINER: Event
UPDATE_POD_SANDBOX: Event
POST_UPDATE_POD_SANDBOX: Event
VALIDATE_CONTAINER_ADJUSTMENT: Event
LAST: Event

class RegisterPluginRequest(_message.Message):
    __slots__ = ("plugin_name", "plugin_idx", "NRI_version")
    PLUGIN_NAME_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_IDX_FIELD_NUMBER: _ClassVar[int]
    NRI_VERSION_FIELD_NUMBER: _ClassVar[int]
    plugin_name: str
    plugin_idx: str
    NRI_version: str
    def __init__(self, plugin_name: _Optional[str] = ..., plugin_idx: _Optional[str] = ..., NRI_version: _Optional[str] = ...) -> None: ...

class UpdateContainersRequest(_message.Message):
    __slots__ = ("update", "evict")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    update: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    evict: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerEviction]
    def __init__(self, update: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ..., evict: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerEviction, _Mapping]]] = ...) -> None: ...

class UpdateContainersResponse(_message.Message):
    __slots__ = ("failed",)
    FAILED_FIELD_NUMBER: _ClassVar[int]
    failed: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    def __init__(self, failed: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ...) -> None: ...

class LogRequest(_message.Message):
    __slots__ = ("msg", "level")
    class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LEVEL_UNSPECIFIED: _ClassVar[LogRequest.Level]
        LEVEL_DEBUG: _ClassVar[LogRequest.Level]
        LEVEL_INFO: _ClassVar[LogRequest.Level]
        LEVEL_WARN: _ClassVar[LogRequest.Level]
        LEVEL_ERROR: _ClassVar[LogRequest.Level]
    LEVEL_UNSPECIFIED: LogRequest.Level
    LEVEL_DEBUG: LogRequest.Level
    LEVEL_INFO: LogRequest.Level
    LEVEL_WARN: LogRequest.Level
    LEVEL_ERROR: LogRequest.Level
    MSG_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    msg: str
    level: LogRequest.Level
    def __init__(self, msg: _Optional[str] = ..., level: _Optional[_Union[LogRequest.Level, str]] = ...) -> None: ...

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfigureRequest(_message.Message):
    __slots__ = ("config", "runtime_name", "runtime_version", "registration_timeout", "request_timeout", "NRI_version")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_NAME_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_VERSION_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    NRI_VERSION_FIELD_NUMBER: _ClassVar[int]
    config: str
    runtime_name: str
    runtime_version: str
    registration_timeout: int
    request_timeout: int
    NRI_version: str
    def __init__(self, config: _Optional[str] = ..., runtime_name: _Optional[str] = ..., runtime_version: _Optional[str] = ..., registration_timeout: _Optional[int] = ..., request_timeout: _Optional[int] = ..., NRI_version: _Optional[str] = ...) -> None: ...

class ConfigureResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: int
    def __init__(self, events: _Optional[int] = ...) -> None: ...

class SynchronizeRequest(_message.Message):
    __slots__ = ("pods", "containers", "more")
    PODS_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    pods: _containers.RepeatedCompositeFieldContainer[_container_pb2.PodSandbox]
    containers: _containers.RepeatedCompositeFieldContainer[_container_pb2.Container]
    more: bool
    def __init__(self, pods: _Optional[_Iterable[_Union[_container_pb2.PodSandbox, _Mapping]]] = ..., containers: _Optional[_Iterable[_Union[_container_pb2.Container, _Mapping]]] = ..., more: bool = ...) -> None: ...

class SynchronizeResponse(_message.Message):
    __slots__ = ("update", "more")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    update: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    more: bool
    def __init__(self, update: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ..., more: bool = ...) -> None: ...

class StateChangeEvent(_message.Message):
    __slots__ = ("event", "pod", "container")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    event: Event
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, event: _Optional[_Union[Event, str]] = ..., pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class RunPodSandboxRequest(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ...) -> None: ...

class RunPodSandboxResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdatePodSandboxRequest(_message.Message):
    __slots__ = ("pod", "overhead_linux_resources", "linux_resources")
    POD_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_LINUX_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LINUX_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    overhead_linux_resources: _linux_pb2.LinuxResources
    linux_resources: _linux_pb2.LinuxResources
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., overhead_linux_resources: _Optional[_Union[_linux_pb2.LinuxResources, _Mapping]] = ..., linux_resources: _Optional[_Union[_linux_pb2.LinuxResources, _Mapping]] = ...) -> None: ...

class UpdatePodSandboxResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PostUpdatePodSandboxRequest(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ...) -> None: ...

class PostUpdatePodSandboxResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopPodSandboxRequest(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ...) -> None: ...

class StopPodSandboxResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemovePodSandboxRequest(_message.Message):
    __slots__ = ("pod",)
    POD_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ...) -> None: ...

class RemovePodSandboxResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class CreateContainerResponse(_message.Message):
    __slots__ = ("adjust", "update", "evict")
    ADJUST_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    adjust: _adjustment_pb2.ContainerAdjustment
    update: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    evict: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerEviction]
    def __init__(self, adjust: _Optional[_Union[_adjustment_pb2.ContainerAdjustment, _Mapping]] = ..., update: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ..., evict: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerEviction, _Mapping]]] = ...) -> None: ...

class ValidateContainerAdjustmentRequest(_message.Message):
    __slots__ = ("pod", "container", "adjust", "update", "owners", "plugins")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    ADJUST_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    adjust: _adjustment_pb2.ContainerAdjustment
    update: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    owners: _adjustment_pb2.OwningPlugins
    plugins: _containers.RepeatedCompositeFieldContainer[PluginInstance]
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ..., adjust: _Optional[_Union[_adjustment_pb2.ContainerAdjustment, _Mapping]] = ..., update: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ..., owners: _Optional[_Union[_adjustment_pb2.OwningPlugins, _Mapping]] = ..., plugins: _Optional[_Iterable[_Union[PluginInstance, _Mapping]]] = ...) -> None: ...

class PluginInstance(_message.Message):
    __slots__ = ("name", "index")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    name: str
    index: str
    def __init__(self, name: _Optional[str] = ..., index: _Optional[str] = ...) -> None: ...

class ValidateContainerAdjustmentResponse(_message.Message):
    __slots__ = ("reject", "reason")
    REJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    reject: bool
    reason: str
    def __init__(self, reject: bool = ..., reason: _Optional[str] = ...) -> None: ...

class PostCreateContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class PostCreateContainerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class StartContainerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PostStartContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class PostStartContainerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdateContainerRequest(_message.Message):
    __slots__ = ("pod", "container", "linux_resources")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    LINUX_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    linux_resources: _linux_pb2.LinuxResources
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ..., linux_resources: _Optional[_Union[_linux_pb2.LinuxResources, _Mapping]] = ...) -> None: ...

class UpdateContainerResponse(_message.Message):
    __slots__ = ("update", "evict")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    update: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    evict: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerEviction]
    def __init__(self, update: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ..., evict: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerEviction, _Mapping]]] = ...) -> None: ...

class PostUpdateContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class PostUpdateContainerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class StopContainerResponse(_message.Message):
    __slots__ = ("update",)
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    update: _containers.RepeatedCompositeFieldContainer[_adjustment_pb2.ContainerUpdate]
    def __init__(self, update: _Optional[_Iterable[_Union[_adjustment_pb2.ContainerUpdate, _Mapping]]] = ...) -> None: ...

class RemoveContainerRequest(_message.Message):
    __slots__ = ("pod", "container")
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    pod: _container_pb2.PodSandbox
    container: _container_pb2.Container
    def __init__(self, pod: _Optional[_Union[_container_pb2.PodSandbox, _Mapping]] = ..., container: _Optional[_Union[_container_pb2.Container, _Mapping]] = ...) -> None: ...

class RemoveContainerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
