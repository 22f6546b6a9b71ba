"""What the plugins' ``conf`` have in common: their keys, the class of a container, where cgroups are mounted."""

from __future__ import annotations

from nri.skel import scoped
from nri.types.errors import DecodeError
from nri.types.gojson import shorten
from nri.types.message import mismatch, string, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request

DEFAULT_KEY = "qos.class"
"""The annotation, or label, that says a container's class."""

MOUNTINFO = "/proc/self/mountinfo"

KEY_SCHEMA = {
    "type": ["string", "null"],
    "minLength": 1,
    "description": f"annotation (or label) that says a container's class (default {DEFAULT_KEY})",
}
MOUNTINFO_SCHEMA = {
    "type": ["string", "null"],
    "minLength": 1,
    "description": f"the list of mounts that tells where the cgroups are (default {MOUNTINFO})",
}


def classes_schema(default: str, what: str) -> dict[str, Any]:
    """The JSON Schema of a list of classes."""
    description = f'{what} (default ["{default}"])'
    return {"type": ["array", "null"], "items": {"type": "string"}, "description": description}


def known_keys(conf: object, keys: Iterable[str]) -> dict[str, Any]:
    """The plugin's conf as an object, {} for none; a value that is null counts as none, too.

    :raises DecodeError: when it is something else, or has a key that is neither in ``keys`` nor begins with ``x-``.
        A misspelt key would be a limit that nobody sees missing. Also for the keys that all plugins have, so that
        a fault in them is found at once, not with the first container that needs them.
    """
    if conf is None:
        return {}
    if not isinstance(conf, dict):
        raise mismatch(conf, "conf", "an object")
    for key in conf:
        if key not in keys and not key.startswith("x-"):
            raise DecodeError(f"conf: found the key {shorten(repr(key))}, expected one of {', '.join(keys)}")
    text(conf, "key", DEFAULT_KEY)
    text(conf, "mountinfo", MOUNTINFO)
    return conf


def text(conf: dict[str, Any], key: str, default: str) -> str:
    """A string of ``conf``, not empty.

    :raises DecodeError: when it is something else.
    """
    value = string(conf.get(key), f"conf.{key}")
    if not value and conf.get(key) is not None:
        raise mismatch(value, f"conf.{key}", "a string that is not empty")
    return value or default


def classes(conf: dict[str, Any], key: str, default: str) -> tuple[str, ...]:
    """A list of classes of ``conf``; an empty list is no class.

    :raises DecodeError: when it is something else.
    """
    value = conf.get(key)
    if value is None:
        return (default,)
    found = strings(value, f"conf.{key}")
    if None in value:
        raise mismatch(None, f"conf.{key}[{value.index(None)}]", "a string")
    return found


def container_class(request: Request, conf: dict[str, Any]) -> str | None:
    """The class that the request's container has, by the ``key`` of ``conf``; None where nothing is said."""
    found = scoped(request, text(conf, "key", DEFAULT_KEY))
    return None if found is None else found[1]


def cgroup(request: Request, conf: dict[str, Any]) -> Cgroup:
    """The cgroup of the request's container.

    :raises CgroupError: when there is none to be found.
    """
    from nri.cgroups import Mounts, find

    path = request.spec.cgroups_path if request.spec is not None else ""
    return find(path, request.pid, mounts=Mounts.read(text(conf, "mountinfo", MOUNTINFO)))
