"""NRI v2: the messages that a container runtime and its plugins exchange.

    from nri import api

    api.ContainerUpdate(container_id="4f1e", linux={"resources": {"cpu": {"quota": {"value": -1}}}})

This package holds the protobuf API, generated from ``proto/*.proto`` (which explain each field) by ``tools/protoc``;
the table of events (:mod:`nri.api.events`); the rules for plugins' names (:mod:`nri.api.names`); and the conversion
of v2 messages to OCI's JSON (:mod:`nri.api.convert`). Sockets, ttRPC and decisions don't belong here. It imports
nothing but protobuf, and nothing else of this project.

An enum's values are attributes of the enum: ``api.Event.RUN_POD_SANDBOX``. Messages keep unknown fields.
"""

# ruff: noqa: F403, F405 - __all__ has the names
from nri.api import convert, events
from nri.api.adjustment_pb2 import *
from nri.api.container_pb2 import *
from nri.api.linux_pb2 import *
from nri.api.optional_pb2 import *
from nri.api.runtime_pb2 import *

__all__ = [
    "CDIDevice",
    "CompoundFieldOwners",
    "ConfigureRequest",
    "ConfigureResponse",
    "Container",
    "ContainerAdjustment",
    "ContainerEviction",
    "ContainerState",
    "ContainerUpdate",
    "CreateContainerRequest",
    "CreateContainerResponse",
    "Empty",
    "Event",
    "Field",
    "FieldOwners",
    "Hook",
    "Hooks",
    "HugepageLimit",
    "IOPrioClass",
    "Image",
    "KeyValue",
    "LinuxCPU",
    "LinuxContainer",
    "LinuxContainerAdjustment",
    "LinuxContainerUpdate",
    "LinuxDevice",
    "LinuxDeviceCgroup",
    "LinuxIOPriority",
    "LinuxMemory",
    "LinuxMemoryPolicy",
    "LinuxNamespace",
    "LinuxNetDevice",
    "LinuxPids",
    "LinuxPodSandbox",
    "LinuxRdt",
    "LinuxResources",
    "LinuxScheduler",
    "LinuxSchedulerFlag",
    "LinuxSchedulerPolicy",
    "LinuxSeccomp",
    "LinuxSeccompArg",
    "LinuxSyscall",
    "LogRequest",
    "Mount",
    "MpolFlag",
    "MpolMode",
    "OptionalBool",
    "OptionalFileMode",
    "OptionalInt",
    "OptionalInt32",
    "OptionalInt64",
    "OptionalRepeatedString",
    "OptionalString",
    "OptionalUInt32",
    "OptionalUInt64",
    "OwningPlugins",
    "POSIXRlimit",
    "PluginInstance",
    "PodSandbox",
    "PostCreateContainerRequest",
    "PostCreateContainerResponse",
    "PostStartContainerRequest",
    "PostStartContainerResponse",
    "PostUpdateContainerRequest",
    "PostUpdateContainerResponse",
    "PostUpdatePodSandboxRequest",
    "PostUpdatePodSandboxResponse",
    "RegisterPluginRequest",
    "RemoveContainerRequest",
    "RemoveContainerResponse",
    "RemovePodSandboxRequest",
    "RemovePodSandboxResponse",
    "RunPodSandboxRequest",
    "RunPodSandboxResponse",
    "SecurityProfile",
    "StartContainerRequest",
    "StartContainerResponse",
    "StateChangeEvent",
    "StopContainerRequest",
    "StopContainerResponse",
    "StopPodSandboxRequest",
    "StopPodSandboxResponse",
    "SynchronizeRequest",
    "SynchronizeResponse",
    "UpdateContainerRequest",
    "UpdateContainerResponse",
    "UpdateContainersRequest",
    "UpdateContainersResponse",
    "UpdatePodSandboxRequest",
    "UpdatePodSandboxResponse",
    "User",
    "ValidateContainerAdjustmentRequest",
    "ValidateContainerAdjustmentResponse",
    "convert",
    "events",
]
