"""Give containers devices, mounts, network interfaces, sysctls and scheduling that their pods ask for by annotation.

Each of them is root on the node for those who may ask: no pod may, unless ``allow`` in the conf names the namespace.
The annotations are those of NRI's v2 plugin of this name.
"""

from __future__ import annotations

import os

from nri import __version__, skel
from nri.errors import escape
from nri.plugins import annotated
from nri.skel import Plugin, Refusal
from nri.types.conf import Conf
from nri.types.gojson import describe, shorten
from nri.types.oci_values import (
    CDI_DEVICE,
    FILE_MODE,
    IO_CLASSES,
    IO_PRIORITY_LEVEL,
    MEMORY_FLAG,
    MEMORY_MODE,
    PLAIN,
    POLICIES,
    SCHEDULING,
    UINT32,
    flags,
)
from nri.types.table import PATH, Key, Map, Rule, Table, array, number, words
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.types.table import Rule
    from nri.types.v1 import Request, Result

_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SYSCTL = _LETTERS | _DIGITS | frozenset("_-.:/*@")


def _matching(accepts: Callable[[str], bool], expected: str, longest: int = 4095) -> Rule:
    return Rule(
        str,
        lambda value: len(value) <= longest and accepts(value),
        expected,
        {},
    )


def _is_interface(value: str) -> bool:
    # dev_valid_name() of the kernel. In adjust, a '-' in front removes; for the kernel, '%d' is a number to choose.
    is_plain = not any(sign in "/:%\0" or sign.isspace() for sign in value)
    is_short = len(value.encode("utf-8", "replace")) < 16
    return is_plain and is_short and value[:1] not in ("", "-", ".")


def _is_sysctl(value: str) -> bool:
    return value[:1].isalnum() and _SYSCTL.issuperset(value) and ".." not in value.split("/")


_INTERFACE = _matching(_is_interface, "the name of a network interface, of 1 to 15 characters")

DEVICES = array(
    Table(
        Key("path", PATH, required=True),
        Key("type", words("c", "b", "u", "p"), required=True),
        # The kernel drops higher bits, and makes another device.
        Key(
            "major",
            number(0, 4095, whole=True, expected="an integer from 0 to 4095"),
            required=True,
        ),
        Key(
            "minor",
            number(0, 1048575, whole=True, expected="an integer from 0 to 1048575"),
            required=True,
        ),
        Key("file_mode", FILE_MODE),
        Key("uid", UINT32),
        Key("gid", UINT32),
    )
)
MOUNTS = array(
    Table(
        Key("source", PLAIN),
        Key("destination", PATH, required=True),
        Key("type", PLAIN),
        Key("options", array(PLAIN)),
    )
)
CDI_DEVICES = array(CDI_DEVICE, unique=True)
NET_DEVICES = array(Table(Key("hostIf", _INTERFACE, required=True), Key("name", _INTERFACE)))
SYSCTL = Map(PLAIN, _matching(_is_sysctl, "the name of a sysctl", 256))
MEMORY_POLICY = Table(
    Key("mode", MEMORY_MODE, required=True),
    Key(
        "nodes",
        _matching((_DIGITS | frozenset(",-")).issuperset, 'a list of NUMA nodes such as "0-1,3"'),
    ),
    Key("flags", array(MEMORY_FLAG)),
)
IO_PRIORITY = Table(
    Key("class", flags("IOPRIO_CLASS_", "NONE", *IO_CLASSES), required=True),
    Key("priority", IO_PRIORITY_LEVEL),
)
SCHEDULER = Table(
    Key("policy", flags("SCHED_", "NONE", *POLICIES), required=True),
    *SCHEDULING,
)


def _devices(value: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    _once([_clean(device["path"]) for device in value], where, "path")
    made = []
    for device in value:
        mode = {
            "fileMode": device.pop("file_mode", 0),
            "uid": device.pop("uid", 0),
            "gid": device.pop("gid", 0),
        }
        # For NRI's plugin, too, 0 is no value: the runtime's default counts.
        given = {key: number for key, number in mode.items() if number}
        made.append(device | {"path": _clean(device["path"])} | given)
    return made


def _mounts(value: list[dict[str, Any]], where: str) -> dict[str, Any]:
    _once([_clean(mount["destination"]) for mount in value], where, "destination")
    made = {}
    for index, mount in enumerate(value):
        is_bind = mount.get("type") == "bind" or {"bind", "rbind"} & set(mount.get("options", []))
        if is_bind and not PATH.accepts(mount.get("source")):
            if "source" in mount:
                source = describe(mount["source"])
            else:
                source = "none"
            raise Refusal(
                f"{where}[{index}].source: found {source}, expected {PATH.expected} for a bind mount"
            )
        made[_clean(mount.pop("destination"))] = mount
    return made


def _net_devices(value: list[dict[str, str]], where: str) -> dict[str, Any]:
    _once([device["hostIf"] for device in value], where, "hostIf")
    _once([device.get("name", device["hostIf"]) for device in value], where, "name")
    return {device["hostIf"]: {"name": device.get("name", device["hostIf"])} for device in value}


def _clean(path: str) -> str:
    """Return an absolute path as ``adjust`` has it: without empty parts and dots."""
    return os.path.normpath(f"/{path.lstrip('/')}")


def _once(names: list[str], where: str, key: str) -> None:
    """Do nothing if all *names* differ.

    :raises Refusal: one is given twice.
    """
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            raise Refusal(
                f"{where}[{index}].{key}: found {shorten(repr(name))} again, expected it once"
            )
        seen.add(name)


def _or_none(value: Any, where: str) -> Any:
    """Return the value, or None if it stands for no change."""
    if "NONE" in (value.get("class", "")[-4:], value.get("policy", "")[-4:]):
        return None
    return value


def _unchanged(value: Any, where: str) -> Any:
    return value


class Injection:
    """Something that a pod can ask for.

    :param kind: its key in ``allow`` and in the result's metadata.
    :param keys: the keys of its annotation; the first one is preferred.
    :param rule: the rule of the annotation's document.
    :param place: the keys in ``adjust`` that lead to it.
    :param make: returns the value at that place of a document and the annotation's key, for errors.
    """

    def __init__(
        self,
        kind: str,
        keys: tuple[str, ...],
        rule: Rule,
        place: tuple[str, ...],
        make: Callable[[Any, str], Any] = _unchanged,
    ) -> None:
        self.kind = kind
        self.keys = keys
        self.rule = rule
        self.place = place
        self.make = make


def _both(name: str) -> tuple[str, str]:
    return f"{name}.noderesource.dev", f"{name}.nri.io"


INJECTIONS = (
    Injection("devices", _both("devices"), DEVICES, ("linux", "devices"), _devices),
    Injection("mounts", _both("mounts"), MOUNTS, ("mounts",), _mounts),
    Injection("cdiDevices", _both("cdi-devices"), CDI_DEVICES, ("cdiDevices",)),
    Injection(
        "netDevices", _both("network-devices"), NET_DEVICES, ("linux", "netDevices"), _net_devices
    ),
    Injection("sysctl", ("sysctl.noderesource.dev",), SYSCTL, ("linux", "sysctl")),
    Injection("memoryPolicy", _both("memory-policy"), MEMORY_POLICY, ("linux", "memoryPolicy")),
    Injection("ioPriority", _both("io-priority"), IO_PRIORITY, ("linux", "ioPriority"), _or_none),
    Injection("scheduler", _both("scheduling-policy"), SCHEDULER, ("scheduler",), _or_none),
)
"""All that a pod can ask for."""


class DeviceInjectorConf(Conf):
    """The plugin conf of ``device-injector``."""

    allow: dict[str, Any] = annotated.allow(*[injection.kind for injection in INJECTIONS])


class DeviceInjector(Plugin):
    """The plugin ``device-injector``: adjusts containers on ``setup`` as the annotations of their pods say."""

    type = "device-injector"
    version = __version__
    description = (
        "Injects devices, mounts and other things that allowed pods ask for by annotation."
    )
    resident = True
    grants = True
    acts_on = (State.SETUP,)
    uses = ("nri.plugins.plain_yaml",)
    conf_class = DeviceInjectorConf

    def invoke(self, request: Request, conf: DeviceInjectorConf) -> Result:
        """Answer with what the pod asks for; the metadata names it."""
        metadata: dict[str, str] = {}
        if request.is_sandbox:
            adjust = None
        else:
            adjust = _adjust(request, conf, metadata)
        return request.new_result(
            self.type, metadata=metadata, adjust=adjust, pod_asked=adjust is not None
        )


def _adjust(request: Request, conf: DeviceInjectorConf, metadata: dict[str, str]) -> Any:
    adjust: dict[str, Any] = {}
    for injection in INJECTIONS:
        annotation = annotated.asked(request, conf.allow, injection.kind, injection.keys, metadata)
        if annotation is None:
            continue
        key, text = annotation
        value = annotated.read(injection.rule, text, key)
        if not value:
            continue
        made = injection.make(value, key)
        if made:
            _put(adjust, injection.place, made)
            metadata[injection.kind] = shorten(escape(", ".join(_names(injection.rule, made))), 300)
    return adjust or None


def _put(adjust: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for key in place[:-1]:
        adjust = adjust.setdefault(key, {})
    adjust[place[-1]] = value


def _names(rule: Rule, made: Any) -> list[str]:
    """Return the names of what is injected: a list's items or their paths, a map's keys, or a policy."""
    if isinstance(rule, Table):
        return [made[rule.required[0]]]
    paths: list[str] = []
    for item in made:
        if isinstance(item, dict):
            paths.append(item["path"])
        else:
            paths.append(item)
    return paths


def main() -> None:
    """Run the plugin as this process."""
    skel.main(DeviceInjector())
