"""Give containers and their pods the knobs of their class before they run, as Koordinator's QoS hooks do.

A table in the conf leads from a class to knobs of ``nri.cgroups``, for pods and for containers. The pod's come
first: what protects a container must not be more than what protects its pod. Batch resources become shares, quota and
limit, and annotations become environment variables. Nothing of it happens for a pod that ``allow`` does not name.
"""

from __future__ import annotations

import errno
import os
import sys

from nri import __version__, skel
from nri.errors import NRIError, escape
from nri.plugins import annotated, shared
from nri.skel import Plugin, Refusal, fields, scoped, why_not_allowed
from nri.skel.scopes import container_name
from nri.types import DecodeError, gojson
from nri.types.gojson import describe, shorten
from nri.types.oci_values import CDI_DEVICE, VARIABLE
from nri.types.table import FLAG, Key, Map, Rule, Table, either, number, text
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request, Result

KEYS = ("koordinator.sh/qosClass", "koordinator.sh/priority-class")
"""The labels or annotations that have a container's class by default; the first one that it has counts."""


def _share(*of: str, most: int = 100) -> Rule:
    """Return the rule for a share of one of these, such as ``80% of limit``.

    :param most: percent, 100 or 1000.
    """

    def is_share(value: str) -> bool:
        head = next(
            (
                value.removesuffix(end)
                for end in [f"% of {whole}" for whole in of]
                if value.endswith(end)
            ),
            "",
        )
        return head.isascii() and head.isdigit() and 0 < int(head[:5]) <= most and head[0] != "0"

    pattern = rf"^([1-9][0-9]{{0,{len(str(most)) - 2}}}|{most})% of ({'|'.join(of)})(?![\s\S])"
    return text(matches=is_share, pattern=pattern, expected=f'a share such as "80% of {of[0]}"')


_BYTES = either(
    number(0, 2**63 - 1, whole=True, expected="a number of bytes"),
    _share("limit", "request"),
    expected='a number of bytes, or a share such as "80% of limit"',
)
_KNOBS = Table(
    Key("cpu.idle", FLAG),
    Key("cpu.weight", number(1, 10000, whole=True, expected="an integer from 1 to 10000")),
    Key(
        "cpu.max.burst",
        either(
            number(0, 2**44 - 1, whole=True, expected="a number of microseconds"),
            _share("limit", most=1000),
            expected='a number of microseconds, or a share of the quota such as "50% of limit"',
        ),
    ),
    Key("cpu.bvt_warp_ns", number(-2, 2, whole=True, expected="an integer from -2 to 2")),
    *[Key(name, _BYTES) for name in ("memory.min", "memory.low", "memory.high", "memory.swap.max")],
    Key("memory.oom.group", FLAG),
    Key("io.weight", number(1, 10000, whole=True, expected="an integer from 1 to 10000")),
    Key("pids.max", number(1, 4194304, whole=True, expected="an integer from 1 to 4194304")),
)
_ORDER = tuple(_KNOBS.keys)
_WRITTEN = (*_ORDER, "cpu.max", "memory.max")
"""The knobs that are written, in the order in which they are restored."""
_CHANGED = ", was "
_VARIABLE = Table(
    Key("annotation", text(1), required=True),
    Key(
        "items",
        text(1),
        description="keys that lead to the value in JSON, with [] for each item of an array",
    ),
)


_CDI_KIND = text(
    3,
    matches=lambda kind: "=" not in kind and CDI_DEVICE.accepts(f"{kind}=0"),
    pattern=CDI_DEVICE.keywords["pattern"].partition("=")[0] + r"(?![\s\S])",
    expected="a kind of CDI devices, VENDOR/CLASS",
)


class QoSConf(shared.SharedConf):
    """The plugin conf of ``qos``."""

    key: str = fields.text("label or annotation with a container's class", default=KEYS[0])
    priority_key: str = fields.text("the same, where the first is missing", default=KEYS[1])
    pods: dict[str, Any] = fields.mapping(
        _KNOBS, "for each class the knobs of a pod's own cgroup", default={}
    )
    containers: dict[str, Any] = fields.mapping(
        _KNOBS, "for each class the knobs of a container", default={}
    )
    lacking: str = fields.choice(
        *("ignore", "refuse"),
        default="ignore",
        description="whether a knob that the kernel lacks is ignored (and logged once), or its container "
        "refused",
    )
    env: dict[str, Any] = fields.value(
        Map(_VARIABLE, VARIABLE),
        "variables, each from an annotation; items is a path in its JSON: keys with dots between, [] for each "
        "item of an array",
        default={},
    )
    cdi_devices: dict[str, Any] = fields.value(
        Map(_VARIABLE, _CDI_KIND),
        "CDI devices, VENDOR/CLASS, each with its names from an annotation",
        default={},
    )
    allow: dict[str, Any] = annotated.allow("class", "batch", "env", "cdiDevices")


class QoS(Plugin):
    """The plugin ``qos``: knobs on ``create`` and ``update``, batch resources also on ``setup`` and ``resize``."""

    type = "qos"
    version = __version__
    description = (
        "Gives containers and pods the knobs of their class, batch resources, and variables for "
        "devices."
    )
    conf_class = QoSConf
    resident = True
    releases = True
    grants = True
    acts_on = (State.SETUP, State.CREATE, State.RESIZE, State.UPDATE, State.DELETE)
    uses = ("nri.cgroups.systemd_bus", "nri.cgroups.knob_table", "nri.plugins.protection")

    def invoke(self, request: Request, conf: QoSConf) -> Result:
        """Do what the class, the batch resources and the annotations of a container ask for.

        The metadata has each value that was changed, with the one before.
        """
        metadata: dict[str, str] = {}
        changes: dict[str, Any] = {}
        try:
            changes = self._act(request, conf, metadata)
        except NRIError as error:
            shared.skip_elsewhere(error, metadata)
        return request.new_result(self.type, metadata=metadata, **changes)

    def _act(self, request: Request, conf: QoSConf, metadata: dict[str, str]) -> dict[str, Any]:
        """Do what the request asks for; return the changes of the result."""
        if request.release:
            self._release(request, conf, metadata)
            return {}
        if request.state == State.DELETE:
            _spread_at_end(request, conf, metadata)
            return {}
        batch = _batch(request, conf, metadata)
        if request.state == State.SETUP:
            return _adjust(request, conf, batch, metadata)
        if request.state == State.RESIZE:
            return self._resize(request, conf, batch, metadata)
        self._apply(request, conf, batch, metadata)
        return {}

    def _release(self, request: Request, conf: QoSConf, metadata: dict[str, str]) -> None:
        from nri.cgroups import GoneError

        cgroup = shared.cgroup(request, conf)
        try:
            _Writer(cgroup, conf, metadata, shared.previous(request)).give_back(but=())
        except GoneError as error:
            shared.skip_gone(error, metadata)
        _spread(cgroup, conf, metadata, shared.previous(request))
        shared.note_untold(cgroup, metadata)

    def _apply(
        self, request: Request, conf: QoSConf, batch: Batch | None, metadata: dict[str, str]
    ) -> None:
        """Write the knobs of the class and the batch resources, and give back others that were written."""
        class_ = _class(request, conf, metadata)
        knobs, of_pod = (table.get(class_ or "", {}) for table in (conf.containers, conf.pods))
        before = shared.previous(request)
        was_written = any(name.removeprefix("pod.") in _WRITTEN for name in before)
        if knobs or of_pod or batch is not None or was_written:
            metadata |= {"class": shorten(class_)} if class_ else {}
            cgroup = shared.cgroup(request, conf)
            writer = _Writer(cgroup, conf, metadata, before)
            writer.apply(request, knobs, of_pod, batch)
            writer.give_back(but=writer.computed)
            _spread(cgroup, conf, metadata, {*writer.computed, *before}, own=set(of_pod))
            shared.note_untold(cgroup, metadata)
        elif class_ is not None:
            metadata["skipped"] = f"no knobs for the class {shorten(escape(class_), 100)}"

    def _resize(
        self, request: Request, conf: QoSConf, batch: Batch | None, metadata: dict[str, str]
    ) -> dict[str, Any]:
        """Keep batch resources, and make way for what the runtime is about to write, or the kernel would refuse it:
        an idle cgroup takes no weight, and a quota must not be below the burst. ``update`` sets both again.
        """
        if batch is None:
            cpu = shared.cpu_resources(request)
        else:
            cpu = batch.resources["cpu"]
        before = shared.previous(request)
        quota = cpu.get("quota")
        if not isinstance(quota, int) or quota < 0:
            quota = 0
        of_class = conf.pods if request.is_sandbox else conf.containers
        knobs = of_class.get(_class(request, conf, metadata) or "", {})
        wakes = bool(knobs.get("cpu.idle"))
        if quota or wakes:
            cgroup = shared.cgroup(request, conf)
            writer = _Writer(cgroup, conf, metadata, before)
            if quota:
                writer.lower_bursts(quota, of_pod=request.is_sandbox)
            if wakes:
                writer.wake(of_pod=request.is_sandbox)
            shared.note_untold(cgroup, metadata)
        # What was there first, for a later request that gives it back.
        over = _WOKEN if wakes else frozenset()
        for name in before.keys() - metadata.keys() - over:
            if _CHANGED in before[name]:
                metadata[name] = before[name]
        if batch is None or request.is_sandbox:
            return {}
        updates = [{"id": request.id, "resources": _without_none(batch.resources)}]
        return {"updates": updates, "pod_asked": True}


_WOKEN = frozenset(["cpu.idle", "cpu.weight", "pod.cpu.idle", "pod.cpu.weight"])
"""The knobs, as the metadata name them, that ``_Writer.wake`` gives back."""


def _spread(
    cgroup: Cgroup,
    conf: QoSConf,
    metadata: dict[str, str],
    changed: Collection[str],
    own: Collection[str] = (),
) -> None:
    """Have the cgroups above a container's protect as much memory as those below them, if its protection changes.

    :param changed: the knobs that were changed, as the metadata names them.
    :param own: the pod's own knobs in the conf.
    """
    if not any(name.removeprefix("pod.") in shared.PROTECTING for name in changed):
        return
    from nri.cgroups import Mounts, Systemd
    from nri.plugins.protection import spread

    systemd = Systemd(conf.run)
    metadata |= spread(cgroup, conf.run, Mounts.read(conf.mountinfo), systemd, own=own)
    shared.note_untold(systemd, metadata)


def _spread_at_end(request: Request, conf: QoSConf, metadata: dict[str, str]) -> None:
    """As ``_spread``, for a container or sandbox that ends."""
    if not os.path.exists(shared.protection_file(conf.run)):
        return  # no cgroup has a value that could be lowered
    from nri.cgroups import Mounts, Systemd
    from nri.plugins.protection import spread

    cgroup = shared.cgroup(request, conf)
    ends = "pod" if request.is_sandbox else "container"
    mounts = Mounts.read(conf.mountinfo)
    metadata |= spread(cgroup, conf.run, mounts, Systemd(conf.run), ends=ends)


def _adjust(
    request: Request, conf: QoSConf, batch: Batch | None, metadata: dict[str, str]
) -> dict[str, Any]:
    """Return the changes of a container that is about to be created: all of them are its pod's wishes."""
    adjust: dict[str, Any] = {}
    if env := _env(request, conf, metadata):
        adjust["env"] = env
    if devices := _cdi_devices(request, conf, metadata):
        adjust["cdiDevices"] = devices
    if batch is not None:
        adjust["linux"] = {"resources": _without_none(batch.resources)}
    return {"adjust": adjust, "pod_asked": True} if adjust else {}


def _class(request: Request, conf: QoSConf, metadata: dict[str, str]) -> str | None:
    """Return the class of a container; None if it has none that counts."""
    for key in (conf.key, conf.priority_key):
        if entry := scoped(request, key):
            reason = why_not_allowed(request, conf.allow.get("class") or False, "allow.class")
            if not reason:
                return entry[1]
            shared.ignore(metadata, entry[0], reason)
            return None
    return None


def _batch(request: Request, conf: QoSConf, metadata: dict[str, str]) -> Batch | None:
    """Return the batch resources of a container, for the sandbox those of the pod."""
    if (
        annotation := annotated.asked(request, conf.allow, "batch", (SPEC,), metadata, scopes=("",))
    ) is None:
        return None
    return read_batch(annotation[1], None if request.is_sandbox else container_name(request) or "")


def _without_none(resources: dict[str, dict[str, int]]) -> Any:
    """Return OCI resources without limits that are none."""
    kept = {}
    for kind, values in resources.items():
        kept[kind] = {key: limit for key, limit in values.items() if limit > 0}

    return {kind: values for kind, values in kept.items() if values}


def _env(request: Request, conf: QoSConf, metadata: dict[str, str]) -> dict[str, str]:
    """Return the variables that are made of annotations.

    :raises Refusal: an annotation has not what ``items`` leads to.
    """
    env: dict[str, str] = {}
    for name, where, values in _made_of(request, conf, "env", conf.env, metadata):
        env[name] = ",".join(values)
        if "\0" in env[name]:
            raise Refusal(f"{where}: found a NUL, expected a value of the variable {name}")
    if env:
        metadata["env"] = shorten(escape(", ".join(env)), 300)
    return env


def _cdi_devices(request: Request, conf: QoSConf, metadata: dict[str, str]) -> list[str]:
    """Return the names of the CDI devices that are made of annotations.

    :raises Refusal: an annotation has not what ``items`` leads to, or it is no device's name.
    """
    devices: list[str] = []
    for kind, where, values in _made_of(request, conf, "cdiDevices", conf.cdi_devices, metadata):
        for value in values:
            if not CDI_DEVICE.accepts(f"{kind}={value}"):
                raise Refusal(
                    f"{where}: found {describe(value)}, expected the name of a CDI device of {kind}"
                )
            devices.append(f"{kind}={value}")
    if devices:
        metadata["cdiDevices"] = shorten(", ".join(devices), 300)
    return devices


def _made_of(
    request: Request, conf: QoSConf, property_: str, table: dict[str, Any], metadata: dict[str, str]
) -> list[tuple[str, str, list[str]]]:
    """Return each name of a table whose annotation the pod has and may have: with its place, and its values."""
    made = []
    for name, of in table.items():
        if entry := annotated.asked(request, conf.allow, property_, (of["annotation"],), metadata):
            items = of.get("items")
            if items:
                values = _walk(_loaded(entry[1], entry[0]), items.split("."), entry[0])
            else:
                values = [entry[1]]
            made.append((name, entry[0], values))
    return made


def _loaded(document: str, where: str) -> object:
    try:
        return gojson.loads(document)
    except DecodeError as error:
        raise Refusal(f"{where}: {error}") from error


def _walk(value: object, keys: list[str], where: str) -> list[str]:
    """Return the texts and numbers at the end of some keys, ``KEY`` or ``KEY[]``, in a JSON value."""
    if not keys:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return [str(value)]
        raise Refusal(f"{where}: found {describe(value)}, expected a text or an integer")
    key = keys[0].removesuffix("[]")
    is_array = keys[0].endswith("[]")
    if not isinstance(value, dict) or key not in value:
        raise Refusal(f"{where}: found {describe(value)}, expected an object with the key {key!r}")
    if not is_array:
        return _walk(value[key], keys[1:], f"{where}.{key}")
    if not isinstance(value[key], list):
        raise Refusal(f"{where}.{key}: found {describe(value[key])}, expected an array")
    texts: list[str] = []
    for index, item in enumerate(value[key]):
        texts += _walk(item, keys[1:], f"{where}[{index}]")
    return texts


class _Writer:
    """Writes the knobs of a container and its pod; what differs from before all of it is in the metadata.

    :param before: the metadata of the last result, which has the values from before the first one.
    :ivar computed: the knobs that have a value now, as the metadata names them.
    """

    def __init__(
        self, cgroup: Cgroup, conf: QoSConf, metadata: dict[str, str], before: dict[str, str]
    ) -> None:
        self._cgroup = cgroup
        self._conf = conf
        self._metadata = metadata
        self._before = before
        self.computed: set[str] = set()

    def give_back(self, *, but: Collection[str]) -> None:
        """Restore the knobs that have been changed, unless another program has changed them since.

        :param but: those that stay.
        """
        for prefix, cgroup in (("", self._cgroup), ("pod.", self._pod())):
            for knob in _WRITTEN:
                now, is_change, was = self._before.get(f"{prefix}{knob}", "").partition(_CHANGED)
                if is_change and f"{prefix}{knob}" not in but and cgroup is not None:
                    self._restore(cgroup, prefix, knob, now, was)

    def _restore(self, cgroup: Cgroup, prefix: str, knob: str, now: str, was: str) -> None:
        def restore() -> None:
            is_idles = knob == "cpu.weight" and now == "0"  # the kernel has set another one since
            if is_idles or _shown(cgroup.read(knob)) == now:
                cgroup.write(knob, _value_of(knob, was))
                self._metadata[f"{prefix}{knob}"] = f"{was}, restored"

        self._attempt(restore, f"{prefix}{knob}")

    def apply(
        self, request: Request, knobs: dict[str, Any], of_pod: dict[str, Any], batch: Batch | None
    ) -> None:
        """Write the pod's knobs and the container's.

        The pod is first, since it bounds the container. But a pod whose quota is lowered comes after it: v1 takes no
        quota that is less than one below it.
        """
        pod = self._pod()
        whole = batch
        if pod is not None and batch is not None and not request.is_sandbox and request.spec:
            whole = read_batch(request.spec.annotations[SPEC], None)
        is_last = pod is not None and whole is not None and self._is_below(whole)
        if is_last and not request.is_sandbox:
            self._write_all(self._cgroup, "", knobs, batch)
        if pod is not None:
            self._write_all(pod, "pod.", of_pod, whole)
        elif of_pod:
            self._metadata["pod"] = (
                "none: the cgroup above the container's is not one that the kubelet made for a pod"
            )
        if not is_last and not request.is_sandbox:
            self._write_all(self._cgroup, "", knobs, batch)

    def _is_below(self, whole: Batch) -> bool:
        """Return whether the pod, with these batch resources, is to get a lower quota than the container has."""
        quota = whole.quota
        own = self._attempt(self._cgroup.cpu_quota, "")
        if quota is None or own is None or own.quota_us is None:
            return False
        return bool(quota * own.period_us < own.quota_us * PERIOD)

    def _pod(self) -> Cgroup | None:
        """Return the pod's own cgroup; None if the kubelet has not made the one above the container's."""
        pod = self._cgroup.parent()
        if pod is not None and pod.is_pod():
            return pod
        return None

    def lower_bursts(self, quota: int, *, of_pod: bool) -> None:
        """Lower the burst of the container or its pod to a quota that it is about to get.

        After a container's new quota the kubelet writes the pod's, which is lower by as much.
        """
        pod = self._pod()
        own = self._attempt(lambda: self._cgroup.read("cpu.max"), "")
        if not of_pod:
            self._lower_burst(self._cgroup, "", quota)
        if pod is None:
            whole = None
        else:
            whole = self._attempt(pod.cpu_quota, "")
        if pod is None or whole is None or whole.quota_us is None:
            return
        if of_pod:
            self._lower_burst(pod, "pod.", quota)
        elif own is not None and own.quota_us is not None and own.period_us == whole.period_us:
            self._lower_burst(pod, "pod.", max(whole.quota_us - max(own.quota_us - quota, 0), 0))

    def _lower_burst(self, cgroup: Cgroup, prefix: str, quota: int) -> None:
        burst = self._attempt(lambda: cgroup.read("cpu.max.burst"), "")
        if burst is not None and burst > quota:
            self._put(cgroup, prefix, "cpu.max.burst", quota)

    def wake(self, *, of_pod: bool) -> None:
        """Have the container's cgroup, or its pod's, not be idle."""
        cgroup = self._pod() if of_pod else self._cgroup
        if cgroup is not None and self._attempt(lambda: cgroup.read("cpu.idle"), ""):
            self._attempt(lambda: cgroup.write("cpu.idle", value=False), "")

    def _write_all(
        self, cgroup: Cgroup, prefix: str, knobs: dict[str, Any], batch: Batch | None
    ) -> None:
        from nri.cgroups import CgroupError

        if batch is not None:
            try:
                self._write_batch(cgroup, prefix, batch, is_idle=self._is_idle(cgroup, knobs))
            except CgroupError as error:
                if getattr(error.__cause__, "errno", 0) in (
                    errno.EINVAL,
                    errno.EBUSY,
                    errno.ERANGE,
                ):
                    raise Refusal(
                        f"{SPEC}: {error}"
                    ) from error  # a value that the kernel takes of no pod
                raise
        for name in [name for name in _ORDER if name in knobs]:
            if name == "cpu.weight" and self._is_idle(cgroup, knobs):
                continue
            value = self._value(cgroup, prefix, name, knobs[name], batch)
            if value is not None:
                self._put(cgroup, prefix, name, value)

    def _is_idle(self, cgroup: Cgroup, knobs: dict[str, Any]) -> bool:
        """Return whether the kernel refuses a weight: it is to be idle, and this kernel has that."""
        return (
            bool(knobs.get("cpu.idle"))
            and self._attempt(lambda: cgroup.read("cpu.idle"), "") is not None
        )

    def _write_batch(self, cgroup: Cgroup, prefix: str, batch: Batch, *, is_idle: bool) -> None:
        from nri.cgroups import Quota
        from nri.cgroups.knob_values import weight_of_shares

        cpu = batch.resources["cpu"]
        limit = batch.resources["memory"]["limit"]
        quota = Quota(batch.quota, cpu["period"])
        if prefix and quota.quota_us is not None:
            # In v1 no less than a container has that was not lowered yet: its own request comes.
            quota = Quota(max(quota.quota_us, cgroup.least_cpu_quota(PERIOD)), PERIOD)
        if quota.quota_us is not None:
            self._lower_burst(cgroup, prefix, quota.quota_us)
        if not is_idle:  # the kernel refuses a weight then
            self._put(cgroup, prefix, "cpu.weight", weight_of_shares(cpu["shares"]))
        self._put(cgroup, prefix, "cpu.max", quota)
        self._put(cgroup, prefix, "memory.max", limit if limit > 0 else None)

    def _value(
        self, cgroup: Cgroup, prefix: str, name: str, given: Any, batch: Batch | None
    ) -> Any:
        """Return the value of a knob; None if it is a share of what there is not."""
        if name == "cpu.max.burst":
            quota = self._attempt(lambda: cgroup.read("cpu.max"), name)
        else:
            quota = None
        most = None if quota is None else quota.quota_us
        if not isinstance(given, str):
            return given if most is None else min(given, most)
        share, _, of = given.partition("% of ")
        if name == "cpu.max.burst":  # the rule takes a share of the limit alone
            whole = most
        elif of == "limit":
            whole = self._attempt(lambda: cgroup.read("memory.max"), name)
        else:
            whole = batch.request if batch is not None else None
        if not whole:
            shared.ignore(self._metadata, f"{prefix}{name}", f"{given}: there is no {of}")
            return None
        value = int(whole) * int(share) // 100
        return (
            value if most is None else min(value, most)
        )  # the kernel takes no burst above the quota

    def _put(self, cgroup: Cgroup, prefix: str, name: str, value: Any) -> None:
        self.computed.add(f"{prefix}{name}")

        def write() -> None:
            was = _shown(cgroup.read(name))
            if name == "cpu.idle" and value and was == "0":
                weight = _shown(cgroup.read("cpu.weight"))
            else:
                weight = ""
            cgroup.write(name, value)
            if weight:  # which the kernel forgets
                self._metadata[f"{prefix}cpu.weight"] = f"0{_CHANGED}{weight}"
            last, is_change, original = self._before.get(f"{prefix}{name}", "").partition(_CHANGED)
            if is_change and last == was:  # it is what qos wrote itself
                was = original
            if (now := _shown(cgroup.read(name))) != was:
                self._metadata[f"{prefix}{name}"] = f"{now}{_CHANGED}{was}"

        self._attempt(write, f"{prefix}{name}")

    def _attempt(self, access: Callable[[], Any], name: str) -> Any:
        """Read or write a knob; None if this kernel lacks it.

        :param name: of the knob, for messages; "" if it does not matter that it lacks.
        :raises Refusal: it is lacking, and ``lacking`` is ``refuse``.
        :raises CgroupError: the kernel refuses the value.
        """
        from nri.cgroups import NoKnobError

        try:
            return access()
        except NoKnobError as error:
            if name and self._conf.lacking == "refuse":
                raise Refusal(
                    f"{error}; conf.lacking refuses a container whose class has it"
                ) from error
            if name:
                shared.ignore(self._metadata, name, "this kernel lacks it")
                _say_once(self._conf.run, name, str(error))
            return None


def _value_of(knob: str, text: str) -> Any:
    """Return the value of a text of ``_shown``."""
    from nri.cgroups import Quota

    first, _, period = text.partition("/")
    number = None if first == "max" else int(first)
    if knob == "cpu.max":
        return Quota(number, int(period))
    if knob in ("cpu.idle", "memory.oom.group"):
        return bool(number)
    return number


def _shown(value: Any) -> str:
    if value is None:
        return "max"
    return str(int(value) if isinstance(value, bool) else value)


def _say_once(run: str, name: str, reason: str) -> None:
    """Write to stderr, and so to the host's log, that a knob lacks: once until the machine is booted again."""
    try:
        os.makedirs(f"{run}/nri/qos", mode=0o700, exist_ok=True)
        os.close(
            os.open(
                f"{run}/nri/qos/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600
            )
        )
    except FileExistsError:
        return
    except OSError:
        pass  # it is said again
    sys.stderr.write(f"qos: {name} is ignored: {escape(reason)}\n")


# Batch and mid resources of Koordinator: CPUs and memory that pods request beside those of Kubernetes.
#
# A webhook of Koordinator writes what each container requests to the annotation ``SPEC``, since runtimes do not
# see extended resources: ``{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "1500",
# "kubernetes.io/batch-memory": "2Gi"}, "requests": {…}}}}``; CPUs are in thousandths. It lists no init containers; a
# webhook of one's own may, under ``initContainers``.

SPEC = "node.koordinator.sh/extended-resource-spec"
CPU = "kubernetes.io/batch-cpu"
MEMORY = "kubernetes.io/batch-memory"
_NAMES = {
    CPU: (CPU, "kubernetes.io/mid-cpu"),
    MEMORY: (MEMORY, "kubernetes.io/mid-memory"),
}
"""The resources of each kind: of the batch tier, and of the mid tier, whose unit is the same."""

PERIOD = 100_000
"""Microseconds, as the kubelet has it."""

_UNITS = {unit: (1000**power, 1) for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))}
_UNITS |= {f"{unit}i": (1024**power, 1) for power, unit in enumerate("KMGTPE", 1)}
_UNITS |= {unit: (1, 1000**power) for power, unit in enumerate("mun", 1)}
_MOST = 2**63 - 1
_LEAST_MEMORY = 4096


class Batch:
    """The batch resources of one container, or of all containers of a pod.

    :ivar request: of memory, in bytes; 0 for none.
    :ivar resources: ``cpu`` and ``memory`` of the OCI runtime specification, in its units; -1 is no limit.
    """

    def __init__(self, items: list[dict[str, Any]], init: list[dict[str, Any]]) -> None:
        """Take what each container requests: the greatest of *init*, or the sum of the others, as in the kubelet."""
        from nri.cgroups.knob_values import MAX_SHARES, MIN_SHARES
        from nri.cgroups.quota import MAX_QUOTA_US

        def total(kind: str, name: str) -> int:
            groups = [items, *[[item] for item in init]]
            sums: list[int] = []
            for some in groups:
                sums.append(sum([item.get(kind, {}).get(name, 0) for item in some]))

            return max(sums)

        limits = [item.get("limits", {}) for item in items + init]
        asked = total("requests", CPU)
        most = total("limits", CPU)
        memory = total("limits", MEMORY)
        self.request = total("requests", MEMORY)
        shares = min(max((asked or most) * 1024 // 1000, MIN_SHARES), MAX_SHARES)
        # A container without a limit leaves its pod without one; a limit of 0 is the least that the kernel takes.
        if all(CPU in limit for limit in limits):
            quota = min(max(most * PERIOD // 1000, 1000), MAX_QUOTA_US)
        else:
            quota = -1
        memory = min(max(memory, _LEAST_MEMORY), _MOST)
        self.resources: dict[str, Any] = {
            "cpu": {"shares": shares, "quota": quota, "period": PERIOD},
            "memory": {"limit": memory if all(MEMORY in limit for limit in limits) else -1},
        }

    @property
    def quota(self) -> int | None:
        """Of the CPU, in microseconds of a ``PERIOD``; None for none."""
        quota: int = self.resources["cpu"]["quota"]
        return quota if quota > 0 else None


def read_batch(text: str, container: str | None) -> Batch | None:
    """Return the batch resources of a container, or with None of the pod; None if it requests none.

    :raises Refusal: the annotation is not as Koordinator writes it.
    """
    try:
        value: Any = gojson.loads(text)
    except DecodeError as error:
        raise Refusal(f"{SPEC}: {error}") from error
    items: dict[str, list[dict[str, Any]]] = {"containers": [], "initContainers": []}
    for kind, batches in items.items():
        if isinstance(value, dict):
            listed = value.get(kind, {} if kind == "initContainers" else None)
        else:
            listed = None
        if not isinstance(listed, dict):
            raise Refusal(f"{SPEC}: found {describe(listed)} for {kind}, expected an object")
        names = [name for name in listed if container in (None, name)]
        for name in names:
            batches.append(_read_container(listed[name], f"{SPEC}: {kind}.{shorten(name)}"))

    if any([*items["containers"], *items["initContainers"]]):
        return Batch(items["containers"], items["initContainers"])
    return None


def _read_container(value: Any, where: str) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for kind in ("requests", "limits"):
        given = value.get(kind) if isinstance(value, dict) else value
        if given is not None and not isinstance(given, dict):
            raise Refusal(f"{where}.{kind}: found {describe(given)}, expected an object")
        for name, names in _NAMES.items():
            amounts = [
                quantity(item, f"{where}.{kind}.{key}")
                for key, item in (given or {}).items()
                if key in names
            ]

            if amounts:
                resources.setdefault(kind, {})[name] = min(sum(amounts), _MOST)
    return resources


def quantity(value: object, where: str) -> int:
    """Return a quantity of Kubernetes such as ``1500``, ``1.5k``, ``129e6`` or ``1Gi``, rounded up.

    Source: ``resource.Quantity`` of k8s.io/apimachinery.

    :raises Refusal: it is none, or negative, or more than 2**63 - 1.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    given = str(value) if is_number else value
    text = ""
    if isinstance(given, str) and len(given) < 40:
        text = given.removeprefix("+")
    unit = text.lstrip("0123456789.")
    whole, _, part = text[: len(text) - len(unit)].partition(".")
    number = f"{whole}{part}"
    sign = unit[1:2] if unit[1:2] in ("+", "-") else ""
    exponent = unit[1:].lstrip("+-")
    factor = _UNITS.get(unit)
    if (
        unit[:1] in ("e", "E")
        and unit[1:] == f"{sign}{exponent}"
        and exponent.isascii()
        and exponent.isdigit()
    ):
        power = 10 ** min(int(exponent), 99)
        factor = (1, power) if sign == "-" else (power, 1)
    if factor is None or not (number.isascii() and number.isdigit()):
        raise Refusal(
            f"{where}: found {describe(value)}, expected a quantity such as 1500, 129e6 or 2Gi"
        )
    amount: int = -(-int(number) * factor[0] // (factor[1] * 10 ** len(part)))
    if amount > _MOST:
        raise Refusal(f"{where}: found {describe(value)}, expected at most 2**63 - 1")
    return amount


def main() -> None:
    """Run the plugin as this process."""
    skel.main(QoS())
