"""Reads what a container asks for: CPUs for itself, by annotation or by devices, or the CPUs of a pool."""

from __future__ import annotations

from nri.cgroups import CpuListError, parse_cpus
from nri.plugins import annotated, shared
from nri.plugins.konfine import COUNTED, EXCLUSIVE, RESOURCE
from nri.skel import Refusal, fields, why_not_allowed
from nri.skel.scopes import container_name
from nri.types.gojson import shorten
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.plugins.konfine import KonfineConf, PoolConf
    from nri.types.v1 import Request

    Set = frozenset[int]

RESTARTS = "io.kubernetes.container.restartCount"
"""The kubelet's annotation of a container: ``newContainerAnnotations`` in its ``kuberuntime/labels.go``."""

_MAX_SHARES = 262144
"""The kernel's most of ``cpu.shares``."""


class Wish:
    """The CPUs that a container asks for exclusively.

    :ivar asker: what asks for it, which begins a refusal.
    :ivar count: the number of CPUs; 0 for none.
    :ivar plus: whether it wants the shared ones as well.
    :ivar listed: those that the device plugin has allocated to it.
    """

    __slots__ = ("asker", "count", "listed", "plus")

    def __init__(
        self, asker: str = "", count: int = 0, plus: bool = False, listed: Set = frozenset()
    ) -> None:
        self.asker = asker
        self.count = count
        self.plus = plus
        self.listed = listed


def wish_of(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> Wish:
    """Return what a container asks for alone.

    :raises Refusal: it asks wrongly.
    """
    if request.is_sandbox:
        return Wish()
    if COUNTED in request.own_annotations and conf.exclusive.counted:
        return _counted_wish(request.annotations[COUNTED])
    if COUNTED in request.annotations:
        reason = "it is the pod's, not the kubelet's"
        if not conf.exclusive.counted:
            reason = "conf.exclusive.counted is false"
        shared.ignore(metadata, COUNTED, reason)
    annotation = annotated.asked(request, conf.allow, "exclusive", (EXCLUSIVE,), metadata)
    if annotation is None:
        return Wish()
    key, text = annotation
    wish = _annotated_wish(key, text.strip())
    if "/container." not in key and _is_extra(request):
        shared.ignore(metadata, key, "it is for the pod's containers that request CPUs")
        return Wish()
    return wish


def _counted_wish(text: str) -> Wish:
    """Return the wish for the CPUs that the device plugin has allocated.

    :raises Refusal: the list is not one.
    """
    try:
        listed = parse_cpus(text)
    except CpuListError as error:
        raise Refusal(f"{COUNTED}: {error}") from None
    if not listed:
        expected = "expected the CPUs that the device plugin has allocated"
        raise Refusal(f"{COUNTED}: found an empty list, {expected}")
    return Wish(f"the resource {RESOURCE}", len(listed), listed=listed)


def _annotated_wish(key: str, text: str) -> Wish:
    """Return the wish in an annotation, ``4`` or ``4+shared``.

    :raises Refusal: it is no such number.
    """
    count = text.removesuffix("+shared")
    is_number = count.isascii() and count.isdigit() and len(count) < 5
    if not is_number or not 0 < int(count) <= fields.MAX_CPU:
        wrong = f"found {shorten(repr(text))}, expected a number of CPUs, 1 to {fields.MAX_CPU}"
        raise Refusal(f"{key}: {wrong}")
    return Wish(key, int(count), plus=count != text)


def _is_extra(request: Request) -> bool:
    """Return whether a container requests no CPUs, and its pod does: such as that of ``kubectl debug``.

    A wish for the whole pod is that of its ordinary containers.
    """
    has_shares = "shares" in shared.cpu_resources(request)
    return has_shares and not requested(request) and "besteffort" not in request.cgroups_path


def is_first(request: Request, wish: Wish) -> bool:
    """Return whether this is a container's first start in its pod, and it requests CPUs: init containers are over."""
    if request.is_sandbox or request.state not in (State.SETUP, State.CREATE):
        return False
    has_restarted = request.annotations.get(RESTARTS, "0") != "0"
    return not has_restarted and bool(wish.count or requested(request))


def pool_of(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> str:
    """Return the name of the pool that a container is in, "" for none.

    Labels and annotations are the pod's own words, so they count for pods of ``allow.pools`` alone.
    """
    if request.is_sandbox:
        return ""
    class_ = shared.container_class(request, conf, conf.allow, {})
    for pool in conf.pools:
        if not _takes(pool, request, class_):
            continue
        reason = ""
        if pool.labels or pool.annotations:
            reason = why_not_allowed(request, conf.allow["pools"], "allow.pools")
        if not reason:
            return pool.name
        shared.ignore(metadata, f"pool {pool.name}", reason)
    return ""


def _takes(pool: PoolConf, request: Request, class_: str | None) -> bool:
    """Return whether all conditions of a pool hold for a container."""
    if pool.classes and class_ not in pool.classes:
        return False
    if pool.namespaces and request.namespace not in pool.namespaces:
        return False
    has_labels = pool.labels.items() <= request.labels.items()
    return has_labels and pool.annotations.items() <= request.annotations.items()


def requested(request: Request) -> int:
    """Return the CPUs that a container requests, in thousandths: what the kubelet makes shares of."""
    shares = shared.cpu_resources(request).get("shares")
    if isinstance(shares, int) and 2 < shares <= _MAX_SHARES:
        return shares * 1000 // 1024
    return 0


def name_of(request: Request) -> str:
    """Return the name of the request's container for people: ``NAMESPACE/POD/CONTAINER``, or its short id."""
    labels = request.labels
    names = [
        labels.get("io.kubernetes.pod.namespace"),
        labels.get("io.kubernetes.pod.name"),
        container_name(request),
    ]
    return "/".join(filter(None, names)) or request.id[:12]
