"""From ``containerEdits`` of CDI specifications to an ``adjust``.

The rules are those of pkg/cdi/container-edits.go: what is missing of a device node is taken from the node on the
host, its owner from the process; where two edits set the same, the later one counts.
"""

from __future__ import annotations

import os
import stat

from nri.adjust.apply import clean
from nri.adjust.errors import AdjustError
from nri.errors import escape
from nri.types.jsonobject import integer, mismatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Edits = tuple[str, dict[str, Any]]

_KINDS = {stat.S_IFBLK: "b", stat.S_IFCHR: "c", stat.S_IFIFO: "p"}
_ALL = "rwm"


def adjust_of(many: Iterable[Edits], config: dict[str, Any]) -> dict[str, Any]:
    """Return the ``adjust`` of several edits.

    :param many: each with the file and the device that it is from, for errors.
    :param config: the container's OCI configuration, for the defaults; it is not changed.
    :returns: an ``adjust`` with two keys more: ``additionalGids``, and ``access`` of a device.
    :raises AdjustError: a device node that an edit needs is missing on the host.
    :raises DecodeError: a part of *config* has a wrong type.
    """
    env: dict[str, str] = {}
    devices: dict[str, dict[str, Any]] = {}
    net_devices: dict[str, dict[str, str]] = {}
    mounts: dict[str, dict[str, Any]] = {}
    hooks: dict[str, list[dict[str, Any]]] = {}
    gids: dict[int, None] = {}
    rdt: dict[str, Any] = {}
    owner, maps_ids = _owner(config), _has_user_namespace(config)
    for where, edits in many:
        env |= dict([variable.split("=", 1) for variable in edits.get("env", [])])
        for node in edits.get("deviceNodes", []):
            path = clean(node["path"])
            devices.pop(path, None)  # a later one goes to the end
            devices[path] = _device(path, node, owner, where)
        net_devices |= {each["hostInterfaceName"]: {"name": each["name"]} for each in edits.get("netDevices", [])}
        for mount in edits.get("mounts", []):
            path = clean(mount["containerPath"])
            mounts.pop(path, None)
            mounts[path] = _mount(mount, maps_ids=maps_ids)
        for hook in edits.get("hooks", []):
            hooks.setdefault(hook["hookName"], []).append(
                {key: value for key, value in hook.items() if key != "hookName"}
            )
        if "intelRdt" in edits:
            rdt = {"remove": True} | {key: value for key, value in edits["intelRdt"].items() if value}
        gids |= dict.fromkeys([gid for gid in edits.get("additionalGids", []) if gid])
    linux = _filled({"devices": [*devices.values()], "intelRdt": rdt, "netDevices": net_devices})
    return _filled({"env": env, "mounts": mounts, "hooks": hooks, "linux": linux, "additionalGids": [*gids]})


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value}


def _device(path: str, node: dict[str, Any], owner: dict[str, int], where: str) -> dict[str, Any]:
    type_, major, minor = node.get("type", ""), node.get("major", 0), node.get("minor", 0)
    host_path = node.get("hostPath") or path
    mode = node.get("fileMode")
    needs_host = not type_ or (major == 0 and type_ != "p")
    try:
        status = os.lstat(host_path)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "")
        wrong = "" if kind else "it is no device node"
    except (OSError, ValueError) as error:
        status, kind = None, ""
        wrong = str(error.strerror if isinstance(error, OSError) else error)
    if wrong and needs_host:
        raise AdjustError(f"{where}: the device node {escape(host_path)} is not on this host: {wrong}")
    if status is not None and kind:
        mode = status.st_mode if mode is None else mode
        if needs_host:
            if type_ and type_.replace("u", "c") != kind:
                raise AdjustError(
                    f"{where}: the device node {escape(host_path)} has the type {kind}, expected {type_}"
                )
            type_ = type_ or kind
            if type_ != "p" and major == 0:
                major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    device = {"path": path, "type": type_}
    if type_ != "p":
        device |= {"major": major, "minor": minor}
    if mode is not None:
        device["fileMode"] = stat.S_IMODE(mode)
    device |= owner | {key: node[key] for key in ("uid", "gid") if key in node}
    access = node.get("permissions") or _ALL
    if access != _ALL:
        device["access"] = "" if access == "none" else access
    return device


def _mount(mount: dict[str, Any], *, maps_ids: bool) -> dict[str, Any]:
    options = list(mount.get("options", []))
    if maps_ids and not {"idmap", "ridmap"} & set(options):
        binds = [option for option in options if option in ("bind", "rbind")]
        if binds or mount.get("type") == "bind":
            options.append("ridmap" if binds[-1:] == ["rbind"] else "idmap")
    return {"source": mount["hostPath"]} | _filled({"type": mount.get("type"), "options": options})


def _owner(config: dict[str, Any]) -> dict[str, int]:
    """Return the owner of device nodes that have none: the user and group of the process, unless they are root."""
    user = _object(_object(config.get("process"), "process").get("user"), "process.user")
    ids = {key: integer(user.get(key), f"process.user.{key}") for key in ("uid", "gid")}
    return {key: value for key, value in ids.items() if 0 < value < 2**32}


def _has_user_namespace(config: dict[str, Any]) -> bool:
    listed = _object(config.get("linux"), "linux").get("namespaces") or []
    if not isinstance(listed, list):
        raise mismatch(listed, "linux.namespaces", "an array")
    return any(isinstance(namespace, dict) and namespace.get("type") == "user" for namespace in listed)


def _object(value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise mismatch(value, where, "an object")
    return value
