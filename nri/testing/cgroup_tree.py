"""A node's cgroups for a test: plain files that answer a write as the kernel would, and a record of the writes.

    with CgroupTree("v1", driver="systemd") as tree:
        tree.add(web)
        invoke(Batch(), web.request("create"))
        assert tree.written == {"web/cpuset.cpus": "2-3"}

While the tree is active, ``nri.cgroups.find`` of this process looks in it: ``nri.cgroups.knobs``, which alone
reads and writes files, is patched. A file is named ``CGROUP/KNOB``, where
CGROUP is a container's name, ``pod`` for the pod's own cgroup, or ``sandbox``; the names of a second pod begin with
the pod's, as in ``other/web/cpu.max``; any other cgroup has its path, as in ``/kubepods/cpu.max``.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn, Self

from nri.cgroups import cpulist, knobs, quota, units
from nri.cgroups.cpuset import Numbers
from nri.cgroups.knob import number
from nri.cgroups.knob_table import BFQ_V1, TABLE
from nri.cgroups.knob_values import DefaultWeight
from nri.testing import machines
from nri.testing.cgroup_files import UNLIMITED, CgroupFiles, files_of, write
from nri.testing.pods import DRIVERS, Container, Pod, check_value, resources_of, resources_of_pod

KINDS = ("v1", "v2", "hybrid")
_OWN = "/system.slice/containerd.service"
_PUT = knobs.put


class CgroupTree:
    """Cgroups of plain files, which this process takes for the node's while the tree is active, in its ``with``.

    :param kind: ``v1``, ``v2`` or ``hybrid``.
    :param driver: ``cgroupfs`` or ``systemd``, whose paths differ. No systemd runs, as ``Cgroup.untold`` says.
    :param cpus: the machine's CPUs.
    :param nodes: its NUMA nodes, each with memory and with as many of the CPUs as any other, in their order.
    :param root: an existing directory for the cgroups; by default one that is removed with the tree.
    :ivar writes: every write that the kernel took, in order: the file's name and the text.
    :ivar run: the directory in place of ``/run``.
    :ivar sys: the sysfs of the machine, which ``nri.cgroups.topology`` reads where *nodes* are given; else ``/sys``.
    """

    def __init__(
        self,
        kind: str = "v2",
        *,
        driver: str = "cgroupfs",
        cpus: str = "0-7",
        nodes: int = 0,
        root: str | os.PathLike[str] = "",
    ) -> None:
        check_value("kind", kind, KINDS)
        check_value("driver", driver, DRIVERS)
        self.kind = kind
        self.driver = driver
        self.cpus = cpus
        self._base = tempfile.mkdtemp(prefix="nri-")  # short: a socket's path has at most 107 bytes
        weakref.finalize(self, shutil.rmtree, self._base, ignore_errors=True)
        top = os.path.abspath(root) if root else f"{self._base}/cgroup"
        self._mems = frozenset(range(max(nodes, 1)))
        self.files = CgroupFiles(top, kind, cpus, cpulist.render(self._mems))
        # In v1 a runtime must give CPUs to each cgroup.
        self.files.new["cpuset"] = {**self.files.new["cpuset"], "cpuset.cpus": cpus}
        if nodes:
            self.sys = _machine(f"{self._base}/sys", cpulist.parse(cpus), nodes)
        else:
            self.sys = "/sys"
        self.mountinfo = f"{self._base}/mountinfo"
        write(self.mountinfo, self.files.mountinfo)
        self.run = f"{self._base}/run"
        os.mkdir(self.run)
        self.writes: list[tuple[str, str]] = []
        self._paths: dict[str, str] = {}  # of the cgroups that have a name
        self._names: dict[str, str] = {}  # of these paths
        self._pods: list[Pod] = []
        # In hybrid, v2 may lie inside a mount of v1.
        self._mounts = sorted(self.files.points.values(), key=len, reverse=True)
        self._refusals: dict[str, int] = {}
        self._lacking: list[str] = []
        self._files = {"/proc/self/mountinfo": self.mountinfo}  # each in place of another one
        self._put_process("self", _OWN)
        self._put_process("1", "/init.scope")
        self._undone = ExitStack()

    def __enter__(self) -> Self:
        if knobs.put is not _PUT:
            raise RuntimeError("a CgroupTree is active already: expected one at a time")
        slurp = knobs.slurp
        init = units.Systemd.__init__

        def systemd(self_: units.Systemd, run: str = units.RUN) -> None:
            # No test talks to the machine's systemd.
            own = self.run if run == units.RUN else run
            init(self_, own)

        replacements = (
            (knobs, "slurp", lambda path, *options: slurp(self._locate(path), *options)),
            (knobs, "put", self._write),
            (units.Systemd, "__init__", systemd),
        )
        for owner, name, replacement in replacements:
            self._undone.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        return self

    def __exit__(self, *_: object) -> None:
        self._undone.close()

    # The cgroups

    def add(self, owner: Pod | Container) -> None:
        """Make the cgroups of a container and of its pod, or of a pod, its sandbox and its containers.

        They have the limits of the containers' resources, and a process. A container that was added before gets the
        limits anew.
        """
        pod = owner.pod
        if pod.cgroup_driver != self.driver:
            raise ValueError(
                f"{pod} has the cgroup driver {pod.cgroup_driver!r}: expected this tree's, "
                f"{self.driver!r}"
            )
        if pod.kubelet:
            self._make(pod, "pod", pod.cgroup, resources_of_pod(pod))
        if isinstance(owner, Pod) and pod.profile.has_pods:
            self._make(pod, "sandbox", pod.sandbox_cgroup, {}, pod.pid)
        for container in owner.members:
            resources = resources_of(container)
            self._make(pod, container.name, container.cgroup, resources, container.pid)
        for name in self._lacking:
            self._drop(name)
        self._settle()

    def make(self, path: str) -> None:
        """Make a cgroup that belongs to no pod, and those above it; *path* is the one below the mount."""
        self.files.make(path)
        self._settle()

    def remove(self, cgroup: str) -> None:
        """Remove a cgroup, as when its container has ended."""
        for point in self.files.points.values():
            shutil.rmtree(point + self._path(cgroup), ignore_errors=True)

    def directory(self, cgroup: str, controller: str = "cpu") -> str:
        """Return a cgroup's directory, in the hierarchy that serves a controller."""
        points = self.files.points
        return points.get(controller, points.get("", "")) + self._path(cgroup)

    def get(self, name: str) -> str:
        """Return the text of a file, without the end of its line."""
        with open(self._file(name), encoding="ascii") as file:
            return file.read().strip()

    def put(self, name: str, text: str) -> None:
        """Set a file, whatever the kernel would say of the text. This is no write of the plugin's."""
        write(self._file(name), f"{text}\n")
        self._settle()

    # The kernel's refusals

    def refuse(self, name: str, number: int) -> None:
        """Have the kernel answer each write to a file with an error, such as ``errno.EBUSY``; 0 for none any more."""
        self._refusals[name] = number

    def lack(self, name: str) -> None:
        """Remove a file from one cgroup, ``web/memory.high``, or from all: a kernel or a parent without it."""
        self._lacking.append(name)
        self._drop(name)

    # What was written

    @property
    def written(self) -> dict[str, str]:
        """The files that were written, each with its last text, in the order of their first writes."""
        return dict(self.writes)

    def forget(self) -> None:
        """Forget the writes so far."""
        self.writes.clear()

    def _make(
        self, pod: Pod, name: str, path: str, resources: dict[str, Any], pid: int = 0
    ) -> None:
        self.make(path)
        if pod not in self._pods:
            self._pods.append(pod)
        name = name if pod is self._pods[0] else f"{pod.name}/{name}"
        if self._paths.setdefault(name, path) != path:
            raise ValueError(
                f"there are two cgroups {name!r} in this tree: {self._paths[name]} and {path}"
            )
        self._names.setdefault(path, name)
        for knob, text in files_of(resources, self.files.version).items():
            self.files.put(path, knob, f"{text}\n")
        if pid:
            self._put_process(str(pid), path)
            if self.kind == "v2":
                self.files.put(path, "cgroup.procs", f"{pid}\n")
                self.files.put(path, "cgroup.events", "populated 1\nfrozen 0\n")

    def _settle(self) -> None:
        self.files.settle(cpulist.parse(self.cpus))

    def _file(self, name: str) -> str:
        cgroup, slash, knob = name.rpartition("/")
        if not slash:
            raise KeyError(
                f"{name!r} names no file of a cgroup: expected CGROUP/KNOB, such as 'web/cpu.max'"
            )
        return self.files.file(self._path(cgroup), knob)

    def _path(self, cgroup: str) -> str:
        """Return the path of a cgroup below the mount.

        :raises KeyError: there is none of that name.
        """
        if cgroup.startswith("/"):
            return cgroup
        if cgroup not in self._paths:
            named = ", ".join(self._paths) or "none"
            raise KeyError(f"there is no cgroup {cgroup!r} in this tree: expected {named}")
        return self._paths[cgroup]

    def _drop(self, name: str) -> None:
        names = [name]
        if "/" not in name:
            names = [f"{cgroup}/{name}" for cgroup in self._paths]
        for file in names:
            with suppress(FileNotFoundError, KeyError):
                os.unlink(self._file(file))

    # As the kernel

    def _locate(self, path: str) -> str:
        if path.startswith("/sys/devices/"):
            return self.sys + path.removeprefix("/sys")
        return self._files.get(path, path)

    def _put_process(self, pid: str, cgroup: str) -> None:
        """Put a process into a cgroup of all hierarchies."""
        lines = []
        for index, name in enumerate(self.files.points, start=1):
            hierarchy = index if name else 0
            lines.append(f"{hierarchy}:{name}:{cgroup}\n")
        file = f"{self._base}/process-{pid}"
        write(file, "".join(lines))
        self._files[f"/proc/{pid}/cgroup"] = file

    def _write(self, path: str, data: bytes) -> int:
        mount = self._mount_of(path)
        if not mount or not os.path.exists(path):
            return _PUT(path, data)
        if not data:
            return 0  # such a write does not reach the file's parser
        directory, knob = os.path.split(path)
        text = data.decode("ascii")
        below = directory.removeprefix(mount)
        name = f"{self._names.get(below, below)}/{knob}"
        if self._refusals.get(name):
            _refuse(self._refusals[name])
        version = 2 if mount == self.files.points.get("") else 1
        write(path, f"{self._written(directory, version, knob, text.strip())}\n")
        self.writes.append((name, text))
        self._settle()
        return len(data)

    def _mount_of(self, path: str) -> str:
        for mount in self._mounts:
            if path.startswith(f"{mount}/"):
                return mount
        return ""

    # The effect of a write, by the table of knobs. It is refused with EINVAL if its text is no value of a knob, or a
    # quota is below the burst, and with ERANGE or EINVAL if a CPU does not exist. A file that is not in the table
    # takes any text. v1's rules between a cgroup and its parent or children are not imitated: see ``refuse``.
    #
    # Sources: ``kernel/cgroup/cpuset.c`` and ``kernel/sched/core.c`` (tg_set_cfs_bandwidth).

    def _written(self, directory: str, version: int, file: str, text: str) -> str:
        """Return the new text of a file to which *text* is written; raise OSError if the kernel would refuse it."""
        values, can_be_written = _VALUES.get((file, version), (None, True))
        if not can_be_written:
            _refuse(errno.EINVAL)
        if values is None:
            return text
        try:
            if file in (quota.KNOB[version], quota.PERIOD_V1):
                return _bandwidth(directory, version, file, text)
            item = values.parse(text)
        except ValueError:
            _refuse(errno.EINVAL)
        if isinstance(values, Numbers):
            return self._written_list(file, item)
        if not values.accepts(item):
            _refuse(errno.EINVAL)
        if file == _BURST[version]:
            _check_burst(item, _quota(directory, version))
        if file in ("cpu.shares", BFQ_V1):
            return text
        if isinstance(values, DefaultWeight):
            return f"default {item}"
        if values.word(item) == "-1":
            return UNLIMITED
        return values.word(values.stored(item))

    def _written_list(self, file: str, item: frozenset[int]) -> str:
        """Return the new text of a list of CPUs or memory nodes; raise OSError if the machine lacks one of them."""
        is_of_cpus = file == "cpuset.cpus"
        there = cpulist.parse(self.cpus) if is_of_cpus else self._mems
        if not item <= there:  # one that the machine cannot have, or one that is offline
            if is_of_cpus and max(item) > max(there):
                _refuse(errno.ERANGE)
            _refuse(errno.EINVAL)
        return cpulist.render(item)


_VALUES = {
    (name, version): (file.values, knob.can_be_written)
    for knob in TABLE.values()
    for version, file in knob.files.items()
    for name in file.names()
}
_BURST = {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}


def _refuse(number: int) -> NoReturn:
    """Raise the error of a system call."""
    raise OSError(number, os.strerror(number))


def _bandwidth(directory: str, version: int, file: str, text: str) -> str:
    values = quota.CPU_MAX.files[version].values
    limit, period = values.word(_quota(directory, version)).split("/")
    if file == quota.PERIOD_V1:
        period = text
    elif version == 1:
        limit = str(max(number(text), -1))
    else:
        limit, *others = text.split()
        period = [*others, period][0]  # without another one it stays
    new = values.parse(f"{limit} {period}")
    if not quota.CPU_MAX.values.accepts(new):
        _refuse(errno.EINVAL)
    burst = knobs.read_optional(f"{directory}/{_BURST[version]}")
    _check_burst(int(burst or 0), new)
    steps = quota.CPU_MAX.files[version].steps(directory, new, quota.Quota(None, 0))
    return dict(steps)[file]


def _quota(directory: str, version: int) -> quota.Quota:
    return quota.CPU_MAX.files[version].read(directory)  # type: ignore[no-any-return]


def _check_burst(burst: int, limit: quota.Quota) -> None:
    if limit.quota_us is not None and burst > limit.quota_us:
        _refuse(errno.EINVAL)


def _machine(sys: str, cpus: frozenset[int], nodes: int) -> str:
    """Make the sysfs of a machine; return its path."""
    if nodes < 1 or cpus != frozenset(range(len(cpus))) or len(cpus) % nodes:
        raise ValueError(
            f"nodes: found {nodes} for the CPUs {cpulist.render(cpus)}; expected a number that divides "
            "them evenly, and CPUs from 0 on"
        )
    return machines.make(Path(sys), packages=nodes, cores=len(cpus) // nodes)
