"""Code that the sample plugins share: steps, keys of a plugin conf, values that a pod may set, the cgroup."""

from __future__ import annotations

from nri.errors import NRIError, escape
from nri.skel import Plugin, scoped
from nri.types.gojson import shorten
from nri.types.table import FLAG, Key, Table, array, either, text
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request, Result

NAMESPACE = "io.kubernetes.pod.namespace"
"""The sandbox's label with its pod's namespace. The kubelet overwrites any value of the pod (``newPodLabels`` in its
``kuberuntime/labels.go``). Any pod can set an annotation of that name, so annotations do not count."""

NAMESPACES = either(
    FLAG,
    array(text(1, expected="the name of a namespace")),
    expected="true, false, or an array of namespaces",
)
"""The rule for a value of ``allow``."""


class SamplePlugin(Plugin):
    """A plugin that acts on some states, and answers the others without doing anything."""

    conf_table: Table
    acts_on: tuple[str, ...] = (State.CREATE, State.UPDATE)
    uses: tuple[str, ...] = ("nri.cgroups.systemd_bus", "nri.types.table_explained")

    @property
    def conf_schema(self) -> dict[str, Any]:  # type: ignore[override] # made when it is read
        """The JSON Schema of the plugin conf."""
        from nri.types.table_explained import schema

        return schema(self.conf_table)

    def invoke(self, request: Request) -> Result:
        """Check the plugin conf, then act."""
        if request.state not in self.acts_on:
            return request.new_result(self.type)
        conf = self.conf_table.read(request.conf)
        if conf is None:
            from nri.types.table_explained import refusal

            raise refusal(self.conf_table, request.conf, "conf")
        metadata: dict[str, str] = {}
        adjust = self.act(request, conf, metadata)
        if adjust and request.extensions.get("adjust", 0) < 1:
            raise NRIError(
                f"{self.type}: the request lacks the extension adjust: this host would drop what is asked for "
                f"({shorten(', '.join(adjust))}); expected a host that applies changes"
            )
        return request.new_result(self.type, metadata=metadata, adjust=adjust or None)

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> dict[str, Any] | None:
        """Do the plugin's work and note it in the result's *metadata*; *conf* has each key of ``conf_table``.

        :returns: ``adjust`` of the result, for an answer to ``setup``; None for none.
        """
        raise NotImplementedError


def table(*keys: Key, settable: tuple[str, ...]) -> Table:
    """Return the table of a plugin conf: *keys*, and the keys that all sample plugins have.

    All of them are checked for every container, so that a mistake is found with the first one.

    :param settable: the properties that a pod can set for its containers, the keys of ``allow``.
    """
    return Table(
        *keys,
        _text_key("key", "qos.class", "annotation (or label) with a container's class"),
        Key(
            "allow",
            Table(*[Key(each, NAMESPACES) for each in settable], nulls=True),
            default={},
            description=f"pods that may set their {' or '.join(settable)}, for each: true (any, the default), "
            "false (none), or an array of namespaces",
        ),
        _text_key("mountinfo", "/proc/self/mountinfo", "the list of mounts that tells where the cgroups are"),
        _text_key("run", "/run", "where the node's /run is, with the sockets of systemd"),
        notes=True,
        nulls=True,
    )


def _text_key(name: str, default: str, description: str) -> Key:
    return Key(name, text(1), default=default, description=f"{description} (default {default})")


def classes_key(name: str, default: str, description: str) -> Key:
    """Return a key for a list of classes; an empty list is no class."""
    rule = array(text(), expected="an array of strings")
    return Key(name, rule, default=[default], description=f'{description} (default ["{default}"])')


def container_class(request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> str | None:
    """Return the class of the request's container, by the ``key`` of *conf*; see :func:`allowed_value`."""
    found = allowed_value(request, conf, "class", conf["key"], metadata)
    return found and found[1]


def allowed_value(
    request: Request, conf: dict[str, Any], what: str, key: str, metadata: dict[str, str]
) -> tuple[str, str] | None:
    """Return the pod's own value of *key*, as :func:`nri.skel.scoped`; None if the pod may not set it.

    :param what: the key of ``allow`` that decides.
    :param metadata: the result's; a value that does not count is added to its ``ignored``.
    """
    found = scoped(request, key)
    allowed = conf["allow"].get(what)
    if found is None or allowed is None:
        return found
    why = why_not_allowed(request, what, allowed)
    if why:
        ignore(metadata, found[0], why)
    return None if why else found


def why_not_allowed(request: Request, what: str, allowed: bool | list[str]) -> str:
    """Return the reason why the request's pod may not set a property; "" if it may.

    :param what: the key of ``allow``.
    :param allowed: its value: any pod, none, or the pods of some namespaces.
    """
    if allowed is True:
        return ""
    namespace = request.labels.get(NAMESPACE)
    if allowed and namespace in allowed:
        return ""
    why = f"is not for the namespace {shorten(namespace)}" if namespace else "needs a namespace, and none is known"
    return f"allow.{what} {why if allowed else 'is for nobody'}"


def ignore(metadata: dict[str, str], what: str, why: str) -> None:
    """Add a value's name and the reason why it does not count to ``ignored`` in the metadata, as one short line."""
    ignored = shorten(escape(f"{shorten(what, 80)}: {why}"), 300)
    metadata["ignored"] = f"{metadata['ignored']}; {ignored}" if "ignored" in metadata else ignored


def cgroup(request: Request, conf: dict[str, Any]) -> Cgroup:
    """Return the cgroup of the request's container.

    :raises CgroupError: when it cannot be found.
    """
    from nri.cgroups import Mounts, Systemd, find

    path = request.spec.cgroups_path if request.spec is not None else ""
    mounts, systemd = Mounts.read(conf["mountinfo"]), Systemd(conf["run"])
    return find(path, request.pid, request.id, mounts=mounts, systemd=systemd)


def note_untold(cgroup: Cgroup, metadata: dict[str, str]) -> None:
    """Add to the metadata why systemd was not told of a change, if it was not: it may take the change back."""
    if cgroup.untold:
        metadata["systemd"] = shorten(escape(f"not told: {cgroup.untold}"), 300)
