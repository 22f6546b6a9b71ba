"""The facts that a host knows of the container of a request, for the conditions in the host configuration (``when``).

The bridge knows more than its requests say, and has its own (``Client``'s *facts*). All others judge by the request
itself, of which pods have written a part. So a fact counts here only if no pod can forge it:

- containerd writes the annotations ``io.kubernetes.cri.*`` of an OCI configuration after those of the pod;
- CRI-O writes the labels of the kubelet last, as annotations, also over its own (of a sandbox, a pod's annotation
  overrides those that begin with ``io.kubernetes.cri-o.``). Without a kubelet there are none, and an annotation of
  such a name is the pod's: so the list of labels that CRI-O writes has to agree.

On each runtime a pod can forge what the other one writes. So all that is found must agree: no honest runtime
contradicts itself, and a chain refuses the container if a condition asks for what is contradicted.
"""

from __future__ import annotations

from nri.client.oci import KIND_KEY, SANDBOX_ID_KEYS
from nri.config.when import Facts
from nri.types import DecodeError, gojson
from nri.types.gojson import shorten
from nri.types.jsonobject import string_map
from nri.types.v1 import NAMESPACE_LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from nri.types.v1 import Request

NAMESPACE_KEYS = ("io.kubernetes.cri.sandbox-namespace", NAMESPACE_LABEL)
"""The annotations with a pod's namespace, of containerd and of CRI-O. The second one is also the kubelet's label."""

LABELS_KEY = "io.kubernetes.cri-o.Labels"
"""CRI-O's annotation with the labels of a container or sandbox, JSON."""

NAME_KEY = "io.kubernetes.container.name"
"""The kubelet's label with the name of a container, which CRI-O writes as an annotation; ``POD`` for a sandbox."""


def facts_of(request: Request) -> Facts:
    """Return what the host knows of a request's container."""
    annotations = None if request.spec is None else request.spec.annotations
    told = request.annotations
    contradictions: dict[str, str] = {}
    labels = request.labels or None  # hooks have none, and the kubelet labels every pod
    return Facts(
        namespace=request.namespace or _namespace(told, contradictions),
        labels=labels,
        annotations=annotations,
        # A container of containerd's has those of its pod that containerd is configured to hand down.
        has_all_annotations=labels is not None or KIND_KEY not in told,
        is_sandbox=request.is_sandbox
        if labels is not None
        else _is_sandbox(request, told, contradictions),
        contradictions=contradictions,
    )


def _namespace(annotations: Mapping[str, str], contradictions: dict[str, str]) -> str | None:
    claims = {key: annotations[key] for key in NAMESPACE_KEYS if annotations.get(key)}
    if claims and LABELS_KEY in annotations:
        claims[LABELS_KEY] = _namespace_in(annotations[LABELS_KEY])
    namespace: str | None = _agreed("namespace", claims, contradictions, None)
    return namespace


def _namespace_in(labels: str) -> str:
    """Return the namespace in CRI-O's list of labels; "none" without one, or if it is no such list."""
    try:
        value = string_map(gojson.loads(labels), "labels")
    except DecodeError:
        return "none"
    return value.get(NAMESPACE_LABEL) or "none"


def _is_sandbox(
    request: Request, annotations: Mapping[str, str], contradictions: dict[str, str]
) -> bool | None:
    """Return whether a container is a sandbox by all that says so; False if nothing does."""
    ids = {"the sandbox's id": request.sandbox_id} | {
        key: annotations.get(key, "") for key in SANDBOX_ID_KEYS
    }
    claims = {source: id_ == request.id for source, id_ in ids.items() if id_}
    if KIND_KEY in annotations:
        claims[KIND_KEY] = annotations[KIND_KEY] == "sandbox"
    if NAME_KEY in annotations:
        claims[NAME_KEY] = annotations[NAME_KEY] == "POD"
    is_sandbox: bool | None = _agreed("is_sandbox", claims, contradictions, False)
    return is_sandbox


def _agreed(
    fact: str, claims: Mapping[str, Any], contradictions: dict[str, str], without: Any
) -> Any:
    """Return the value that all claims agree on; None if they contradict each other.

    :param without: the value without claims.
    """
    if len(set(claims.values())) > 1:
        contradictions[fact] = " and ".join(
            [shorten(f"{source}: {value}", 100) for source, value in claims.items()]
        )
        return None
    return next(iter(claims.values()), without)
