"""Give containers and their pods the knobs of their class before they run, as Koordinator's QoS hooks do.

A table in the conf leads from a class to knobs of ``nri.cgroups``, for pods and for containers. The pod's come
first: what protects a container must not be more than what protects its pod. Batch resources become shares, quota and
limit, and annotations become environment variables. Nothing of it happens for a pod that ``allow`` does not name.
"""

from __future__ import annotations

import os

from nri import __version__, skel
from nri.errors import NRIError, escape
from nri.plugins import annotated, shared
from nri.skel import Plugin, fields
from nri.skel.scopes import container_name
from nri.types.gojson import shorten
from nri.types.oci_values import CDI_DEVICE, VARIABLE
from nri.types.table import FLAG, Key, Map, Rule, Table, either, number, text
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.plugins.qos.batch import Batch
    from nri.plugins.qos.writing import Writer
    from nri.types.v1 import Request, Result

KEYS = ("koordinator.sh/qosClass", "koordinator.sh/priority-class")
"""The labels or annotations that have a container's class by default; the first one that it has counts."""

SPEC = "node.koordinator.sh/extended-resource-spec"
"""The annotation with batch resources: ``nri.plugins.qos.batch``, which is loaded if a pod has it."""


def _share(*of: str, most: int = 100) -> Rule:
    """Return the rule for a share of one of these, such as ``80% of limit``.

    :param most: percent, 100 or 1000.
    """

    def is_share(value: str) -> bool:
        percent, _, whole = value.partition("% of ")
        if whole not in of or not percent.isascii() or not percent.isdigit():
            return False
        return percent[0] != "0" and int(percent[:5]) <= most

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
    Key("memory.min", _BYTES),
    Key("memory.low", _BYTES),
    Key("memory.high", _BYTES),
    Key("memory.swap.max", _BYTES),
    Key("memory.oom.group", FLAG),
    Key("io.weight", number(1, 10000, whole=True, expected="an integer from 1 to 10000")),
    Key("pids.max", number(1, 4194304, whole=True, expected="an integer from 1 to 4194304")),
)
_ORDER = tuple(_KNOBS.keys)
_WRITTEN = (*_ORDER, "cpu.max", "memory.max")
"""The knobs that are written, in the order in which they are restored."""
_WOKEN = frozenset(["cpu.idle", "cpu.weight", "pod.cpu.idle", "pod.cpu.weight"])
"""The knobs, as the metadata name them, that an idle cgroup gives back when it is woken."""
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
    uses = (
        "nri.cgroups.systemd_bus",
        "nri.cgroups.knob_table",
        "nri.plugins.protection",
        "nri.plugins.qos.made",
        "nri.plugins.qos.writing",
    )

    def invoke(self, request: Request, conf: QoSConf) -> Result:
        """Do what the class, the batch resources and the annotations of a container ask for.

        The metadata has each value that was changed, with the one before.
        """
        metadata: dict[str, str] = {}
        changes: dict[str, Any] = {}
        try:
            changes = _Run(request, conf, metadata).act()
        except NRIError as error:
            shared.skip_elsewhere(error, metadata)
        return request.new_result(self.type, metadata=metadata, **changes)


class _Run:
    """One request, with the metadata of its result.

    :ivar before: the metadata of the last result.
    """

    def __init__(self, request: Request, conf: QoSConf, metadata: dict[str, str]) -> None:
        self.request = request
        self.conf = conf
        self.metadata = metadata
        self.before = shared.previous(request)

    def act(self) -> dict[str, Any]:
        """Do what the request asks for; return the changes of the result."""
        if self.request.release:
            self._release()
            return {}
        if self.request.state == State.DELETE:
            self._end()
            return {}
        batch = self._batch()
        if self.request.state == State.SETUP:
            return self._adjust(batch)
        if self.request.state == State.RESIZE:
            return self._resize(batch)
        self._apply(batch)
        return {}

    def _batch(self) -> Batch | None:
        """Return the batch resources of the container, for the sandbox those of the pod."""
        annotation = annotated.asked(
            self.request, self.conf.allow, "batch", (SPEC,), self.metadata, scopes=("",)
        )
        if annotation is None:
            return None
        from nri.plugins.qos.batch import read_batch

        if self.request.is_sandbox:
            return read_batch(annotation[1], None)
        return read_batch(annotation[1], container_name(self.request) or "")

    def _batch_of_pod(self, batch: Batch | None) -> Batch | None:
        """Return the pod's batch resources, if the container has some."""
        if batch is None or self.request.is_sandbox:
            return batch
        from nri.plugins.qos.batch import read_batch

        return read_batch(self.request.annotations[SPEC], None)

    def _class(self) -> str:
        """Return the class of the container; "" if it has none that counts."""
        for key in (self.conf.key, self.conf.priority_key):
            entry = shared.allowed_value(self.request, self.conf.allow, "class", key, self.metadata)
            if entry is not None:
                return entry[1]
        return ""

    def _adjust(self, batch: Batch | None) -> dict[str, Any]:
        """Return the changes of a container that is about to be created: all of them are its pod's wishes."""
        request = self.request
        conf = self.conf
        adjust: dict[str, Any] = {}
        if conf.env or conf.cdi_devices:
            from nri.plugins.qos import made

            env = made.variables(request, conf.allow, conf.env, self.metadata)
            if env:
                adjust["env"] = env
            devices = made.devices(request, conf.allow, conf.cdi_devices, self.metadata)
            if devices:
                adjust["cdiDevices"] = devices
        if batch is not None:
            adjust["linux"] = {"resources": batch.resources()}
        return {"adjust": adjust, "pod_asked": True} if adjust else {}

    def _apply(self, batch: Batch | None) -> None:
        """Write the knobs of the class and the batch resources, and give back others that were written."""
        class_ = self._class()
        knobs = self.conf.containers.get(class_, {})
        of_pod = self.conf.pods.get(class_, {})
        was_written = any(name.removeprefix("pod.") in _WRITTEN for name in self.before)
        has_knobs = bool(knobs or of_pod) or was_written
        if not has_knobs and batch is None:
            if class_:
                self.metadata["skipped"] = f"no knobs for the class {shorten(escape(class_), 100)}"
            return
        if class_:
            self.metadata["class"] = shorten(class_)
        cgroup = shared.cgroup(self.request, self.conf)
        writer = self._writer(cgroup)
        self._write(writer, knobs, of_pod, batch)
        computed = writer.notes.computed
        writer.give_back(_WRITTEN, but=computed)
        self._protect(cgroup, {*computed, *self.before}, own=of_pod)
        shared.note_untold(cgroup, self.metadata)

    def _write(
        self, writer: Writer, knobs: dict[str, Any], of_pod: dict[str, Any], batch: Batch | None
    ) -> None:
        """Write the pod's knobs, and the container's if the request is not for the sandbox.

        The pod is first, since it bounds the container. But a pod whose quota is lowered comes after it: v1 takes no
        quota that is less than one below it.
        """
        whole = None
        steps = []
        if writer.pod is not None:
            whole = self._batch_of_pod(batch)
            steps.append((writer.pod, of_pod, whole))
        elif of_pod:
            self.metadata["pod"] = shared.NO_POD
        if not self.request.is_sandbox:
            steps.append((writer.container, knobs, batch))
            if writer.is_pod_lowered(whole):
                steps.reverse()
        for level, of_class, resources in steps:
            level.apply(_ORDER, of_class, resources)

    def _resize(self, batch: Batch | None) -> dict[str, Any]:
        """Keep batch resources, and make way for what the runtime is about to write, or the kernel would refuse it:
        an idle cgroup takes no weight, and a quota must not be below the burst. ``update`` sets both again.
        """
        is_sandbox = self.request.is_sandbox
        of_class = self.conf.pods if is_sandbox else self.conf.containers
        is_idle = bool(of_class.get(self._class(), {}).get("cpu.idle"))
        quota = self._new_quota(batch)
        if quota or is_idle:
            cgroup = shared.cgroup(self.request, self.conf)
            writer = self._writer(cgroup)
            level = writer.pod if is_sandbox else writer.container
            if quota:
                writer.make_way(quota, of_pod=is_sandbox)
            if is_idle and level is not None:
                level.wake()
            shared.note_untold(cgroup, self.metadata)
        self._keep_notes(but=_WOKEN if is_idle else ())
        if batch is None or is_sandbox:
            return {}
        return {
            "updates": [{"id": self.request.id, "resources": batch.resources()}],
            "pod_asked": True,
        }

    def _new_quota(self, batch: Batch | None) -> int:
        """Return the quota that the container is about to get, in microseconds; 0 for none."""
        if batch is not None:
            return batch.quota or 0
        quota = shared.cpu_resources(self.request).get("quota")
        return max(quota, 0) if isinstance(quota, int) else 0

    def _keep_notes(self, but: Collection[str]) -> None:
        """Keep what was there before the first request, for a later one that gives it back."""
        from nri.plugins.qos.writing import CHANGED

        for name, value in self.before.items():
            if CHANGED in value and name not in but:
                self.metadata.setdefault(name, value)

    def _release(self) -> None:
        from nri.cgroups import GoneError

        cgroup = shared.cgroup(self.request, self.conf)
        try:
            self._writer(cgroup).give_back(_WRITTEN)
        except GoneError as error:
            shared.skip_gone(error, self.metadata)
        self._protect(cgroup, self.before)
        shared.note_untold(cgroup, self.metadata)

    def _writer(self, cgroup: Cgroup) -> Writer:
        from nri.plugins.qos.writing import Notes, Writer

        refuses = self.conf.lacking == "refuse"
        notes = Notes(self.metadata, self.before, refuses=refuses, run=self.conf.run)
        return Writer(cgroup, notes)

    def _protect(self, cgroup: Cgroup, changed: Collection[str], own: Collection[str] = ()) -> None:
        """Have the cgroups above the container's protect as much memory as those below them.

        :param changed: the knobs that were changed, as the metadata names them.
        :param own: the pod's own knobs in the conf.
        """
        if any(name.removeprefix("pod.") in shared.PROTECTING for name in changed):
            self._spread(cgroup, own=own)

    def _end(self) -> None:
        """Lower the protection of the cgroups above a container or sandbox that ends."""
        if not os.path.exists(shared.protection_file(self.conf.run)):
            return  # no cgroup has a value that could be lowered
        ends = "pod" if self.request.is_sandbox else "container"
        self._spread(shared.cgroup(self.request, self.conf), ends=ends)

    def _spread(self, cgroup: Cgroup, *, own: Collection[str] = (), ends: str = "") -> None:
        from nri.cgroups import Mounts, Systemd
        from nri.plugins.protection import spread

        systemd = Systemd(self.conf.run)
        mounts = Mounts.read(self.conf.mountinfo)
        self.metadata |= spread(cgroup, self.conf.run, mounts, systemd, own=own, ends=ends)
        shared.note_untold(systemd, self.metadata)


def main() -> None:
    """Run the plugin as this process."""
    skel.main(QoS())
