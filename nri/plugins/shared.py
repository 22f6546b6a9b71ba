"""Shared code of the plugins: fields of the plugin conf, values that a pod may set, the cgroup."""

from __future__ import annotations

from nri.errors import NRIError, escape
from nri.skel import cgroup_of, scoped, why_not_allowed
from nri.types import fields
from nri.types.conf import Conf
from nri.types.gojson import shorten
from nri.types.table import Key, Table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup, Systemd
    from nri.types.v1 import Request


DEFAULT_PERIOD = 100_000
"""Microseconds of a period of the kernel, where none was given."""

PROTECTING = ("memory.min", "memory.low")
"""The knobs that protect memory: ``nri.plugins.protection``."""

NO_POD = "none: the cgroup above the container's is not one that the kubelet made for a pod"
"""The metadata's ``pod`` where ``pod_of`` finds none."""


class SharedConf(Conf):
    """The fields of the plugins for containers of some class."""

    key: str = fields.text("annotation or label with a container's class", default="qos.class")
    mountinfo: str = fields.text(
        "list of mounts that tells where the cgroups are", default="/proc/self/mountinfo"
    )
    run: str = fields.text("the node's /run, with the sockets of systemd", default="/run")


def allow(*properties: str) -> Any:
    """Return the field ``allow``: a key for each property that a pod can set for its containers, open by default."""
    table = Table(*[Key(name, fields.NAMESPACES, default=True) for name in properties], nulls=True)
    return fields.value(
        table,
        f"pods that may set their {' or '.join(properties)}, for each: true (any, the default), false (none), or an "
        "array of namespaces",
        default={},
        read=table.read,
    )


def classes(description: str, *default: str) -> Any:
    """Return a field for a list of classes; an empty list is no class."""
    return fields.array(text(), description, expected="an array of strings", default=list(default))


def container_class(
    request: Request, conf: SharedConf, allowed: dict[str, Any], metadata: dict[str, str]
) -> str | None:
    """Return the class of the request's container, by the ``key`` of *conf*; see ``allowed_value``."""
    entry = allowed_value(request, allowed, "class", conf.key, metadata)
    return entry and entry[1]


def allowed_value(
    request: Request, allowed: dict[str, Any], property_: str, key: str, metadata: dict[str, str]
) -> tuple[str, str] | None:
    """Return the pod's own value of *key*, as ``nri.skel.scoped``; None if the pod may not set it.

    :param allowed: ``allow`` of the plugin conf.
    :param property_: the key of it that decides.
    :param metadata: the result's; a value that does not count is added to its ``ignored``.
    """
    entry = scoped(request, key)
    if entry is None:
        return None
    reason = why_not_allowed(request, allowed[property_], f"allow.{property_}")
    if reason:
        ignore(metadata, entry[0], reason)
        return None
    return entry


def ignore(metadata: dict[str, str], name: str, reason: str) -> None:
    """Add a value's name and the reason why it does not count to ``ignored`` in the metadata, as one short line."""
    ignored = shorten(escape(f"{shorten(name, 80)}: {reason}"), 300)
    metadata["ignored"] = f"{metadata['ignored']}; {ignored}" if "ignored" in metadata else ignored


def not_in(class_name: str | None, classes: tuple[str, ...]) -> str:
    """Return the reason why a container is not one of these classes, as one short line: ``class=batch, not in [ls]``.

    :param class_name: its class; None if it has none.
    """
    if class_name is None:
        label = "no class"
    else:
        label = f"class={shorten(class_name) or repr(class_name)}"
    return escape(f"{label}, not in [{shorten(', '.join(classes), 200)}]")


def cpu_resources(request: Request) -> dict[str, Any]:
    """Return ``linux.resources.cpu`` of the request's container, of any types; empty if there is none."""
    resources = request.shown.resources
    if isinstance(resources, dict):
        cpu = resources.get("cpu")
    else:
        cpu = None
    return cpu if isinstance(cpu, dict) else {}


def quota_to_restore(request: Request, noted: str) -> str:
    """Return the quota of a container whose own was removed: the runtime's now, if the request has one.

    :param noted: the quota that was removed, such as ``50000/100000``; "" if it is not known.
    """
    cpu = cpu_resources(request)
    if not isinstance(cpu.get("quota"), int):
        return noted
    period = cpu.get("period") or noted.partition("/")[2] or DEFAULT_PERIOD
    return f"{cpu['quota']}/{period}"


def protection_file(run: str) -> str:
    """Return the path of the file of ``nri.plugins.protection``; there is one while cgroups have values of it.

    :param run: the node's ``/run``.
    """
    return f"{run}/nri/qos/protection"


def restore_quota(cgroup: Cgroup, noted: str) -> bool:
    """Write a quota that was removed, such as ``50000/100000``; return whether there was none, and this is one."""
    from nri.cgroups import Quota

    quota, _, period = noted.partition("/")
    if not quota.isdigit() or not period.isdigit() or cgroup.cpu_quota().quota_us is not None:
        return False
    cgroup.write("cpu.max", Quota(int(quota), int(period)))
    return True


def cgroup(request: Request, conf: SharedConf) -> Cgroup:
    """Return the cgroup of the request's container.

    :raises CgroupError: when it cannot be found.
    """
    from nri.cgroups import Mounts, Systemd

    return cgroup_of(request, mounts=Mounts.read(conf.mountinfo), systemd=Systemd(conf.run))


def pod_of(cgroup: Cgroup) -> Cgroup | None:
    """Return the cgroup of a container's pod; None if the one above the container's is not a pod's own.

    It may be the cgroup of all pods, in which nothing must change for one container.
    """
    above = cgroup.parent()
    if above is not None and above.is_pod():
        return above
    return None


def skip_elsewhere(error: NRIError, metadata: dict[str, str]) -> None:
    """Add to the metadata that nothing was done, if the error is that the container is not in its cgroup.

    :raises NRIError: any other *error*, as it is.
    """
    # Not loaded before an error: for many containers nothing of cgroups is.
    from nri.cgroups import ElsewhereError

    if not isinstance(error, ElsewhereError):
        raise error
    metadata["skipped"] = shorten(escape(f"not in its cgroup: {error}"), 500)


def skip_gone(error: NRIError, metadata: dict[str, str]) -> None:
    """Add to the metadata that the container's cgroup is gone.

    :param error: a ``GoneError``.
    :raises ElsewhereError: *error*, if the container runs in another cgroup.
    """
    from nri.cgroups import ElsewhereError

    if isinstance(error, ElsewhereError):
        raise error
    metadata["skipped"] = "its cgroup is gone"


def previous(request: Request) -> dict[str, str]:
    """Return the metadata of the plugin's own last result for the container; empty if the host has none."""
    if request.prev_result is not None:
        return request.prev_result.metadata
    return {}


def note_untold(cgroup: Cgroup | Systemd, metadata: dict[str, str]) -> None:
    """Add to the metadata why systemd was not told of a change, if it was not: it may take the change back."""
    if cgroup.untold:
        metadata["systemd"] = shorten(escape(f"not told: {cgroup.untold}"), 300)
