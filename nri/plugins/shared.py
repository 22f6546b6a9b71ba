"""Shared code of the plugins: fields of the plugin conf, values that a pod may set, the cgroup."""

from __future__ import annotations

from nri.errors import escape
from nri.skel import scoped
from nri.types import fields
from nri.types.conf import Conf
from nri.types.gojson import shorten
from nri.types.table import FLAG, Key, Table, array, either, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup, Systemd
    from nri.types.v1 import Request

NAMESPACE = "io.kubernetes.pod.namespace"
"""The sandbox's label with its pod's namespace. The kubelet overwrites any value of the pod (``newPodLabels`` in its
``kuberuntime/labels.go``). Any pod can set an annotation of that name, so annotations do not count."""

SUBGROUP = "run.oci.systemd.subgroup"
"""crun's annotation: crun(1), "EXTENSIONS TO OCI"."""

NAMESPACES = either(
    FLAG,
    array(text(1, expected="the name of a namespace")),
    expected="true, false, or an array of namespaces",
)
"""The rule for a value of ``allow``."""


class SharedConf(Conf):
    """The fields of the plugins for containers of some class."""

    key: str = fields.text("annotation or label with a container's class", default="qos.class")
    mountinfo: str = fields.text("list of mounts that tells where the cgroups are", default="/proc/self/mountinfo")
    run: str = fields.text("the node's /run, with the sockets of systemd", default="/run")


def allow(*properties: str) -> Any:
    """Return the field ``allow``: a key for each property that a pod can set for its containers, open by default."""
    return fields.value(
        Table(*[Key(name, NAMESPACES) for name in properties], nulls=True),
        f"pods that may set their {' or '.join(properties)}, for each: true (any, the default), false (none), or an "
        "array of namespaces",
        default={},
    )


def classes(description: str, *default: str) -> Any:
    """Return a field for a list of classes; an empty list is no class."""
    return fields.array(text(), description, expected="an array of strings", default=list(default))


def container_class(
    request: Request, conf: SharedConf, allowed: dict[str, Any], metadata: dict[str, str]
) -> str | None:
    """Return the class of the request's container, by the ``key`` of *conf*; see :func:`allowed_value`."""
    entry = allowed_value(request, allowed, "class", conf.key, metadata)
    return entry and entry[1]


def allowed_value(
    request: Request, allowed: dict[str, Any], property_: str, key: str, metadata: dict[str, str]
) -> tuple[str, str] | None:
    """Return the pod's own value of *key*, as :func:`nri.skel.scoped`; None if the pod may not set it.

    :param allowed: ``allow`` of the plugin conf.
    :param property_: the key of it that decides.
    :param metadata: the result's; a value that does not count is added to its ``ignored``.
    """
    entry = scoped(request, key)
    pods = allowed.get(property_)
    if entry is None or pods is None:
        return entry
    reason = why_not_allowed(request, property_, pods)
    if reason:
        ignore(metadata, entry[0], reason)
    return None if reason else entry


def why_not_allowed(request: Request, property_: str, allowed: bool | list[str]) -> str:
    """Return the reason why the request's pod may not set a property; "" if it may.

    :param property_: the key of ``allow``.
    :param allowed: its value: any pod, none, or the pods of some namespaces.
    """
    if allowed is True:
        return ""
    namespace = request.labels.get(NAMESPACE)
    if allowed and namespace in allowed:
        return ""
    reason = f"is not for the namespace {shorten(namespace)}" if namespace else "needs a namespace, and none is known"
    return f"allow.{property_} {reason if allowed else 'is for no pod'}"


def ignore(metadata: dict[str, str], name: str, reason: str) -> None:
    """Add a value's name and the reason why it does not count to ``ignored`` in the metadata, as one short line."""
    ignored = shorten(escape(f"{shorten(name, 80)}: {reason}"), 300)
    metadata["ignored"] = f"{metadata['ignored']}; {ignored}" if "ignored" in metadata else ignored


def not_in(class_name: str | None, classes: tuple[str, ...]) -> str:
    """Return the reason why a container is not one of these classes, as one short line: ``class=batch, not in [ls]``.

    :param class_name: its class; None if it has none.
    """
    label = "no class" if class_name is None else f"class={shorten(class_name) or repr(class_name)}"
    return escape(f"{label}, not in [{shorten(', '.join(classes), 200)}]")


def cpu_resources(request: Request) -> dict[str, Any]:
    """Return ``linux.resources.cpu`` of the request's container, of any types; empty if there is none."""
    resources = request.spec.resources if request.spec is not None else None
    cpu = resources.get("cpu") if isinstance(resources, dict) else None
    return cpu if isinstance(cpu, dict) else {}


def cgroup(request: Request, conf: SharedConf) -> Cgroup:
    """Return the cgroup of the request's container.

    :raises CgroupError: when it cannot be found.
    """
    from nri.cgroups import Mounts, Systemd, find

    path = request.spec.cgroups_path if request.spec is not None else ""
    mounts, systemd = Mounts.read(conf.mountinfo), Systemd(conf.run)
    return find(path, request.pid, request.id, mounts=mounts, systemd=systemd, subgroup=subgroup(request))


def subgroup(request: Request) -> str:
    """Return the name of the child that crun makes of the container's scope; "" for its default."""
    return "" if request.spec is None else request.spec.annotations.get(SUBGROUP, "")


def previous(request: Request) -> dict[str, str]:
    """Return the metadata of the plugin's own last result for the container; empty if the host has none."""
    return request.prev_result.metadata if request.prev_result is not None else {}


def note_untold(cgroup: Cgroup | Systemd, metadata: dict[str, str]) -> None:
    """Add to the metadata why systemd was not told of a change, if it was not: it may take the change back."""
    if cgroup.untold:
        metadata["systemd"] = shorten(escape(f"not told: {cgroup.untold}"), 300)
