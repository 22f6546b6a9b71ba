"""Kubernetes objects, made comparable, and held to the fields of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

UNORDERED = {"volumeMounts": "mountPath", "containers": "name", "volumes": "name"}
"""Lists whose order means nothing, each with the key that names an element. Init containers run in order."""

CONTAINER = "name image command readinessProbe resources securityContext volumeMounts"
FIELDS = {
    "ConfigMap": "apiVersion kind metadata data",
    "DaemonSet": "apiVersion kind metadata spec",
    "metadata": "name namespace labels annotations",
    "DaemonSet.spec": "selector minReadySeconds updateStrategy template",
    "selector": "matchLabels",
    "updateStrategy": "type rollingUpdate",
    "rollingUpdate": "maxSurge maxUnavailable",
    "template": "metadata spec",
    "template.spec": "priorityClassName automountServiceAccountToken hostNetwork hostPID dnsPolicy nodeSelector "
    "terminationGracePeriodSeconds affinity tolerations initContainers containers volumes",
    "tolerations": "key operator value effect",
    "affinity": "nodeAffinity",
    "nodeAffinity": "requiredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingIgnoredDuringExecution": "nodeSelectorTerms",
    "nodeSelectorTerms": "matchExpressions",
    "matchExpressions": "key operator values",
    "containers": CONTAINER,
    "initContainers": CONTAINER,
    "readinessProbe": "exec periodSeconds timeoutSeconds failureThreshold initialDelaySeconds successThreshold",
    "exec": "command",
    "resources": "requests limits",
    "securityContext": "runAsUser runAsNonRoot allowPrivilegeEscalation readOnlyRootFilesystem capabilities "
    "seccompProfile",
    "capabilities": "add drop",
    "seccompProfile": "type",
    "volumeMounts": "name mountPath subPath readOnly",
    "volumes": "name hostPath configMap",
    "hostPath": "path type",
    "configMap": "name",
}
"""By object: the fields that deploy/ uses, from the API reference of 1.22 and later (apps/v1, core v1). kubectl and
the API server refuse a field in another place, or, without validation, drop it silently."""

FREE = ("labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "data")
"""Objects whose keys are free; their values are text."""


def comparable(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """Return the objects by kind and name, with unordered lists in one order."""
    in_order = [_sorted(each) for each in objects]
    named = {(each["kind"], each["metadata"]["name"]): each for each in in_order}
    assert len(named) == len(in_order), "two objects have one name"
    return named


def _sorted(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [_sorted(item) for item in value]
        return sorted(items, key=lambda item: str(item[UNORDERED[key]])) if key in UNORDERED else items
    return value


def unknown_fields(value: Any, parent: str = "", key: str = "") -> list[str]:
    """Return the fields of an object that are in the wrong place, each with its parent."""
    if isinstance(value, list):
        return [fault for item in value for fault in unknown_fields(item, parent, key)]
    if not isinstance(value, dict):
        return []
    key = key or value["kind"]
    if key in FREE:
        return [f"{key}.{name}: {item!r} is no text" for name, item in value.items() if not isinstance(item, str)]
    known = FIELDS.get(f"{parent}.{key}") or FIELDS.get(key, "")
    faults = [f"{key}.{name}: unknown field" for name in value if name not in known.split()]
    return faults + [fault for name, item in value.items() for fault in unknown_fields(item, key, name)]
