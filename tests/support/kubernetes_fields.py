"""The fields of Kubernetes objects that deploy/ uses, from the API reference of 1.22 and later (apps/v1, core v1).

kubectl and the API server refuse a field in another place, or, without validation, drop it silently.
"""

from __future__ import annotations

from typing import Any

ANY = "any text"
"""Keys that are free, with values that are text."""

TEXT, NUMBER, TRUTH = "text", "a number", "true or false"
NUMBER_OR_PERCENT = "a number or a percentage"

PROBE = {
    "exec": {"command": [TEXT]},
    "periodSeconds": NUMBER,
    "timeoutSeconds": NUMBER,
    "failureThreshold": NUMBER,
    "initialDelaySeconds": NUMBER,
    "successThreshold": NUMBER,
}
CONTAINER = {
    "name": TEXT,
    "image": TEXT,
    "command": [TEXT],
    "readinessProbe": PROBE,
    "resources": {"requests": ANY, "limits": ANY},
    "securityContext": {
        "runAsUser": NUMBER,
        "runAsNonRoot": TRUTH,
        "allowPrivilegeEscalation": TRUTH,
        "readOnlyRootFilesystem": TRUTH,
        "capabilities": {"add": [TEXT], "drop": [TEXT]},
        "seccompProfile": {"type": TEXT},
    },
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT, "subPath": TEXT, "readOnly": TRUTH}],
}
NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": TEXT, "operator": TEXT, "values": [TEXT]}]}]
    }
}
POD = {
    "priorityClassName": TEXT,
    "automountServiceAccountToken": TRUTH,
    "hostNetwork": TRUTH,
    "hostPID": TRUTH,
    "dnsPolicy": TEXT,
    "terminationGracePeriodSeconds": NUMBER,
    "nodeSelector": ANY,
    "affinity": {"nodeAffinity": NODE_AFFINITY},
    "tolerations": [{"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT}],
    "initContainers": [CONTAINER],
    "containers": [CONTAINER],
    "volumes": [{"name": TEXT, "hostPath": {"path": TEXT, "type": TEXT}, "configMap": {"name": TEXT}}],
}
METADATA = {"name": TEXT, "namespace": TEXT, "labels": ANY, "annotations": ANY}
KINDS: dict[tuple[str, str], Any] = {
    ("v1", "ConfigMap"): {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA, "data": ANY},
    ("apps/v1", "DaemonSet"): {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": METADATA,
        "spec": {
            "selector": {"matchLabels": ANY},
            "minReadySeconds": NUMBER,
            "updateStrategy": {
                "type": TEXT,
                "rollingUpdate": {"maxSurge": NUMBER_OR_PERCENT, "maxUnavailable": NUMBER_OR_PERCENT},
            },
            "template": {"metadata": METADATA, "spec": POD},
        },
    },
}


def faults(found: dict[str, Any]) -> list[str]:
    """Return what is wrong with an object, each with its path."""
    return _faults(found, KINDS[found["apiVersion"], found["kind"]], found["kind"])


def _faults(value: Any, expected: Any, path: str) -> list[str]:
    if isinstance(expected, dict) and isinstance(value, dict):
        unknown = [f"{path}.{key}: unknown field" for key in value.keys() - expected.keys()]
        known = [_faults(value[key], expected[key], f"{path}.{key}") for key in value.keys() & expected.keys()]
        return unknown + [fault for each in known for fault in each]
    if isinstance(expected, list) and isinstance(value, list):
        return [fault for at, item in enumerate(value) for fault in _faults(item, expected[0], f"{path}[{at}]")]
    is_right = {
        ANY: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        TEXT: isinstance(value, str),
        NUMBER: type(value) is int,
        TRUTH: type(value) is bool,
        NUMBER_OR_PERCENT: type(value) is int or (isinstance(value, str) and value.removesuffix("%").isdigit()),
    }
    if isinstance(expected, str) and is_right[expected]:
        return []
    return [f"{path}: found {value!r}, expected {expected if isinstance(expected, str) else type(expected).__name__}"]
