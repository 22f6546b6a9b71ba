"""Writing of knobs to a container's cgroup and its pod's, with what each was before in the metadata.

A host passes the metadata of a plugin's last result on, so a later request gives back what an earlier one changed.
"""

from __future__ import annotations

import errno
import os
import sys

from nri.cgroups import CgroupError, NoKnobError, Quota
from nri.cgroups.knob_table import find
from nri.cgroups.knob_values import weight_of_shares
from nri.errors import escape
from nri.plugins import shared
from nri.plugins.qos import SPEC
from nri.plugins.qos.batch import PERIOD
from nri.skel import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.plugins.qos.batch import Batch

CHANGED = ", was "
"""The separator, in the metadata, of a knob's new value and the one before."""

OF_POD = "pod."
"""The prefix, in the metadata, of the knobs of a pod's own cgroup."""

_REFUSED = (errno.EINVAL, errno.EBUSY, errno.ERANGE)
"""The kernel's answers to a value that it takes of no pod."""


class Notes:
    """The notes of one request: its metadata, those of the last one, and what happens if a knob is lacking.

    :param before: the metadata of the last result.
    :param refuses: whether a container whose class has a knob that the kernel lacks is refused.
    :param run: the node's ``/run``.
    :ivar computed: the knobs that have a value now, as the metadata name them.
    """

    def __init__(
        self, metadata: dict[str, str], before: dict[str, str], *, refuses: bool, run: str
    ) -> None:
        self.metadata = metadata
        self.before = before
        self.refuses = refuses
        self.run = run
        self.computed: set[str] = set()

    def written_before(self, name: str) -> tuple[str, str]:
        """Return the value that an earlier request has written to a knob, and the one before it; "" if none has."""
        value, is_change, was = self.before.get(name, "").partition(CHANGED)
        return (value, was) if is_change else ("", "")

    def lack(self, name: str, error: NoKnobError) -> None:
        """Note that the kernel lacks a knob.

        :raises Refusal: the container is refused for that.
        """
        if self.refuses:
            raise Refusal(
                f"{error}; conf.lacking refuses a container whose class has it"
            ) from error
        shared.ignore(self.metadata, name, "this kernel lacks it")
        _say_once(self.run, name, str(error))


class Level:
    """A container's cgroup, or its pod's.

    :param prefix: "" or ``OF_POD``.
    """

    def __init__(self, cgroup: Cgroup, prefix: str, notes: Notes) -> None:
        self.cgroup = cgroup
        self._prefix = prefix
        self._notes = notes

    def read(self, knob: str) -> Any:
        """Return the value of a knob; None for no limit, and if this kernel lacks it."""
        try:
            return self.cgroup.read(knob)
        except NoKnobError:
            return None

    def quota(self) -> Any:
        """Return the CFS quota, a ``Quota``; None for no limit, and if this kernel lacks it."""
        quota = self.read("cpu.max")
        if quota is None or quota.quota_us is None:
            return None
        return quota

    def apply(self, order: Collection[str], knobs: dict[str, Any], batch: Batch | None) -> None:
        """Write batch resources, and then the knobs of a class.

        :param order: the names of all knobs, in the order in which they are written.
        """
        # The kernel refuses a weight of an idle cgroup.
        is_idle = bool(knobs.get("cpu.idle")) and self.read("cpu.idle") is not None
        if batch is not None:
            self._apply_batch(batch, is_idle=is_idle)
        given = dict(knobs)
        if is_idle:
            given.pop("cpu.weight", None)
        for knob in order:
            if knob in given:
                self._give(knob, given[knob], batch)

    def lower_burst(self, quota: int) -> None:
        """Lower the burst to a quota that the cgroup is about to get: the kernel takes none that is below it."""
        burst = self.read("cpu.max.burst")
        if burst is not None and burst > quota:
            self._put("cpu.max.burst", quota)

    def wake(self) -> None:
        """Have the cgroup not be idle."""
        if self.read("cpu.idle"):
            self.cgroup.write("cpu.idle", value=False)

    def give_back(self, knob: str, *, but: Collection[str]) -> None:
        """Restore a knob that has been changed, unless another program has changed it since.

        :param but: the knobs that stay, as the metadata name them.
        """
        name = f"{self._prefix}{knob}"
        value, was = self._notes.written_before(name)
        if not value or name in but:
            return
        is_idles = knob == "cpu.weight" and value == "0"  # the kernel has set another one since
        try:
            if is_idles or self._shown(knob) == value:
                self.cgroup.write(knob, find(knob).values.parse(was))
                self._notes.metadata[name] = f"{was}, restored"
        except NoKnobError as error:
            self._notes.lack(name, error)

    def _apply_batch(self, batch: Batch, *, is_idle: bool) -> None:
        quota = batch.quota
        if self._prefix and quota is not None:
            # In v1 no less than a container has that was not lowered yet: its own request comes.
            quota = max(quota, self.cgroup.least_cpu_quota(PERIOD))
        try:
            if quota is not None:
                self.lower_burst(quota)
            if not is_idle:
                self._put("cpu.weight", weight_of_shares(batch.shares))
            self._put("cpu.max", Quota(quota, PERIOD))
            self._put("memory.max", batch.memory)
        except CgroupError as error:
            if getattr(error.__cause__, "errno", 0) in _REFUSED:
                raise Refusal(f"{SPEC}: {error}") from error
            raise

    def _give(self, knob: str, given: Any, batch: Batch | None) -> None:
        """Give the cgroup a knob of its class, which may be a share."""
        value = given
        if isinstance(given, str):
            name = f"{self._prefix}{knob}"
            try:
                value = self._share(knob, given, batch)
            except NoKnobError as error:
                self._notes.lack(name, error)
                return
            if value is None:
                _, _, whole = given.partition("% of ")
                shared.ignore(self._notes.metadata, name, f"{given}: there is no {whole}")
                return
        if knob == "cpu.max.burst":
            value = self._at_most_the_quota(value)
        self._put(knob, value)

    def _share(self, knob: str, share: str, batch: Batch | None) -> int | None:
        """Return a share such as ``80% of limit``; None if there is nothing to have a share of."""
        percent, _, of = share.partition("% of ")
        if knob == "cpu.max.burst":  # the rule takes a share of the limit alone
            whole = self.cgroup.read("cpu.max").quota_us
        elif of == "limit":
            whole = self.cgroup.read("memory.max")
        elif batch is not None:
            whole = batch.request
        else:
            whole = None
        return whole * int(percent) // 100 if whole else None

    def _at_most_the_quota(self, burst: int) -> int:
        """Return a burst that the kernel takes: none is above the quota."""
        quota = self.quota()
        return burst if quota is None else min(burst, quota.quota_us)

    def _put(self, knob: str, value: Any) -> None:
        """Write a knob, and note its value from before the first request."""
        self._notes.computed.add(f"{self._prefix}{knob}")
        try:
            was = self._shown(knob)
            if knob == "cpu.idle" and value and was == "0":
                # The kernel forgets the weight.
                weight = self._shown("cpu.weight")
                self._notes.metadata[f"{self._prefix}cpu.weight"] = f"0{CHANGED}{weight}"
            self.cgroup.write(knob, value)
            self._note(knob, was)
        except NoKnobError as error:
            self._notes.lack(f"{self._prefix}{knob}", error)

    def _note(self, knob: str, was: str) -> None:
        name = f"{self._prefix}{knob}"
        written, before = self._notes.written_before(name)
        if written == was:  # qos has written that itself
            was = before
        now = self._shown(knob)
        if now != was:
            self._notes.metadata[name] = f"{now}{CHANGED}{was}"

    def _shown(self, knob: str) -> str:
        """Return the value of a knob as the metadata have it."""
        return find(knob).values.word(self.cgroup.read(knob))


class Writer:
    """Writes the knobs of a container and its pod.

    :ivar container: the container's cgroup.
    :ivar pod: the pod's own; None if the kubelet has not made the cgroup above the container's.
    """

    def __init__(self, cgroup: Cgroup, notes: Notes) -> None:
        self.notes = notes
        self.container = Level(cgroup, "", notes)
        self.pod: Level | None = None
        self._levels = [self.container]
        pod = shared.pod_of(cgroup)
        if pod is not None:
            self.pod = Level(pod, OF_POD, notes)
            self._levels.append(self.pod)

    def is_pod_lowered(self, batch: Batch | None) -> bool:
        """Return whether the pod, with these batch resources, is to get a lower quota than the container has."""
        own = self.container.quota()
        if batch is None or own is None:
            return False
        return Quota(batch.quota, PERIOD).is_tighter_than(own)

    def make_way(self, quota: int, *, of_pod: bool) -> None:
        """Lower the burst of the container or its pod to a quota that the runtime is about to write.

        After a container's new quota the kubelet writes the pod's, which is lower by as much.
        """
        if of_pod:
            if self.pod is not None:
                self.pod.lower_burst(quota)
            return
        own = self.container.quota()
        self.container.lower_burst(quota)
        if self.pod is None or own is None:
            return
        whole = self.pod.quota()
        if whole is not None and whole.period_us == own.period_us:
            less = max(own.quota_us - quota, 0)
            self.pod.lower_burst(max(whole.quota_us - less, 0))

    def give_back(self, knobs: Collection[str], *, but: Collection[str] = ()) -> None:
        """Restore the knobs that have been changed, unless another program has changed them since.

        :param knobs: all of them, in the order in which they are restored.
        :param but: those that stay, as the metadata name them.
        """
        for level in self._levels:
            for knob in knobs:
                level.give_back(knob, but=but)


def _say_once(run: str, name: str, reason: str) -> None:
    """Write to stderr, and so to the host's log, that a knob is lacking: once until the machine is booted again."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        os.makedirs(f"{run}/nri/qos", mode=0o700, exist_ok=True)
        os.close(os.open(f"{run}/nri/qos/{name}", flags, 0o600))
    except FileExistsError:
        return
    except OSError:
        pass  # the next request reports it again
    sys.stderr.write(f"qos: {name} is ignored: {escape(reason)}\n")
