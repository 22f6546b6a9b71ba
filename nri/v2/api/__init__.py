"""NRI v2: the messages that a container runtime and its plugins exchange.

    from nri.v2 import api

    api.ContainerUpdate(container_id="4f1e", linux={"resources": {"cpu": {"quota": {"value": -1}}}})

This package holds the protobuf API, generated from ``proto/*.proto`` (which explain each field) by ``tools/protoc``;
the table of events (``nri.v2.api.events``); the rules for plugins' names (``nri.v2.api.names``); and the
conversion between v2 messages and OCI's JSON (``nri.v2.api.oci``). Sockets, ttRPC and
decisions don't belong here. It imports nothing but protobuf.

An enum's values are attributes of the enum: ``api.Event.RUN_POD_SANDBOX``. Messages keep unknown fields.
"""

# ruff: noqa: F403 - the names come from the .proto files, and from __all__ of the others
from typing import TYPE_CHECKING

from nri.v2.api import adjustment_pb2, container_pb2, events, linux_pb2, optional_pb2, runtime_pb2
from nri.v2.api.adjustment_pb2 import *
from nri.v2.api.container_pb2 import *
from nri.v2.api.linux_pb2 import *
from nri.v2.api.optional_pb2 import *
from nri.v2.api.runtime_pb2 import *

if not TYPE_CHECKING:  # a type checker takes the names from the generated modules
    __all__ = ["events"]
    for _module in (adjustment_pb2, container_pb2, linux_pb2, optional_pb2, runtime_pb2):
        __all__ += list(_module.DESCRIPTOR.message_types_by_name)
        __all__ += list(_module.DESCRIPTOR.enum_types_by_name)
