"""Which devices the kubelet has given to pods that exist, by its PodResources API, version v1.

The reference is the page "Device Plugins" of Kubernetes, "Monitoring device plugin resources", and
pkg/kubelet/apis/podresources. A kubelet without the API, or a pod without its socket, is no fault: then nothing is
known.
"""

from __future__ import annotations

import grpc

from nri.kubernetes import podresources_pb2 as api
from nri.kubernetes.kubelet import call

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"

ANSWERS_WITHIN = 2.0
"""Seconds that the kubelet has to answer."""

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer, as the kubelet's own clients take."""


def listed(socket: str, resource: str) -> frozenset[str] | None:
    """Return the ids of the devices of a resource that pods have; None if the kubelet does not say.

    :param socket: the path of the kubelet's socket.
    """
    try:
        answer = call(
            socket,
            "/v1.PodResourcesLister/List",
            api.ListPodResourcesRequest(),
            api.ListPodResourcesResponse,
            ANSWERS_WITHIN,
            MAX_ANSWER,
        )
    except grpc.RpcError:
        return None
    ids: set[str] = set()
    for pod in answer.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                if devices.resource_name == resource:
                    ids.update(devices.device_ids)
    return frozenset(ids)
