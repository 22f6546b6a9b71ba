"""What the sample plugins share: their steps, the keys of ``conf``, who may say what of a container, its cgroup."""

from __future__ import annotations

from nri.errors import escape
from nri.skel import Plugin, scoped
from nri.types.errors import DecodeError
from nri.types.gojson import shorten
from nri.types.jsonobject import mismatch, string, strings
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request, Result

DEFAULT_KEY = "qos.class"
"""The annotation, or label, that says a container's class."""

MOUNTINFO = "/proc/self/mountinfo"

NAMESPACE = "io.kubernetes.pod.namespace"
"""The sandbox's label with its pod's namespace. The kubelet writes it over whatever a pod says (``newPodLabels`` in
its ``kuberuntime/labels.go``). Annotations of that name are anybody's, and do not count."""


class SamplePlugin(Plugin):
    """A plugin that acts on ``create`` and ``update``, and answers the other states without doing anything."""

    conf_schema: dict[str, Any]

    def invoke(self, request: Request) -> Result:
        """Hold the conf against its keys, and act; what was done is in the result's metadata."""
        result = request.new_result(self.type)
        if request.state in (State.CREATE, State.UPDATE):
            conf = known_keys(request.conf, self.conf_schema["properties"])
            self.act(request, conf, result.metadata)
        return result

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> None:
        """Do the plugin's work.

        :param metadata: the result's, to be filled.
        """
        raise NotImplementedError


def schema(properties: dict[str, Any], *said: str) -> dict[str, Any]:
    """The JSON Schema of a conf that has these keys and those that all plugins have.

    :param said: what pods may say of themselves, and ``allow`` may allow or not.
    """
    allowed = {
        "anyOf": [{"type": ["boolean", "null"]}, {"type": "array", "items": {"type": "string", "minLength": 1}}]
    }
    common = {
        "key": {
            "type": ["string", "null"],
            "minLength": 1,
            "description": f"annotation (or label) that says a container's class (default {DEFAULT_KEY})",
        },
        "allow": {
            "type": ["object", "null"],
            "properties": dict.fromkeys(said, allowed),
            "additionalProperties": False,
            "description": f"which pods may say their {' or '.join(said)}, for each: true (any, the default), "
            "false (none), or an array of namespaces",
        },
        "mountinfo": {
            "type": ["string", "null"],
            "minLength": 1,
            "description": f"the list of mounts that tells where the cgroups are (default {MOUNTINFO})",
        },
    }
    return {
        "type": "object",
        "properties": properties | common,
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }


def classes_schema(default: str, what: str) -> dict[str, Any]:
    """The JSON Schema of a list of classes."""
    description = f'{what} (default ["{default}"])'
    return {"type": ["array", "null"], "items": {"type": "string"}, "description": description}


def known_keys(conf: object, keys: dict[str, Any]) -> dict[str, Any]:
    """The plugin's conf as an object, {} for none; a value that is null counts as none, too.

    :param keys: the ``properties`` of its schema.
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
    _allow(conf, keys["allow"]["properties"])
    return conf


def _allow(conf: dict[str, Any], known: Iterable[str]) -> None:
    allow = conf.get("allow")
    if allow is None:
        return
    if not isinstance(allow, dict):
        raise mismatch(allow, "conf.allow", "an object")
    for said, value in allow.items():
        if said not in known:
            raise DecodeError(f"conf.allow: found the key {shorten(repr(said))}, expected one of {', '.join(known)}")
        if value is None or isinstance(value, bool):
            continue
        where = f"conf.allow.{said}"
        if not isinstance(value, list):
            raise mismatch(value, where, "true, false, or an array of namespaces")
        for index, namespace in enumerate(value):
            if not isinstance(namespace, str) or not namespace:
                raise mismatch(namespace, f"{where}[{index}]", "the name of a namespace")


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


def container_class(request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> str | None:
    """The class that the request's container has, by the ``key`` of ``conf``; None where nothing is said.

    :param metadata: see :func:`said`.
    """
    found = said(request, conf, "class", text(conf, "key", DEFAULT_KEY), metadata)
    return None if found is None else found[1]


def said(
    request: Request, conf: dict[str, Any], what: str, key: str, metadata: dict[str, str]
) -> tuple[str, str] | None:
    """What the workload says of itself under ``key``, as :func:`nri.skel.scoped`; None where it may not.

    :param what: the key of ``allow`` that decides.
    :param metadata: the result's; what is said and does not count is added to its ``ignored``.
    """
    found = scoped(request, key)
    allowed = (conf.get("allow") or {}).get(what)
    if found is None or allowed is None or allowed is True:
        return found
    namespace = request.labels.get(NAMESPACE)
    if allowed and namespace in allowed:
        return found
    why = f"is not for the namespace {shorten(namespace)}" if namespace else "needs a namespace, and none is known"
    ignore(metadata, found[0], f"allow.{what} {why if allowed else 'is for nobody'}")
    return None


def ignore(metadata: dict[str, str], what: str, why: str) -> None:
    """Add what a pod says, and why it does not count, to the ``ignored`` of a result's metadata: one short line."""
    ignored = shorten(escape(f"{shorten(what, 80)}: {why}"), 300)
    metadata["ignored"] = f"{metadata['ignored']}; {ignored}" if "ignored" in metadata else ignored


def cgroup(request: Request, conf: dict[str, Any]) -> Cgroup:
    """The cgroup of the request's container.

    :raises CgroupError: when there is none to be found.
    """
    from nri.cgroups import Mounts, find

    path = request.spec.cgroups_path if request.spec is not None else ""
    return find(path, request.pid, request.id, mounts=Mounts.read(text(conf, "mountinfo", MOUNTINFO)))
