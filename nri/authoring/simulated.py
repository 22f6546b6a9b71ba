"""The v0.1 plugins of ``nri simulate``: executables that the real bridge runs, connected to the embedded runtime.

So conditions, states, policies and deadlines of their entries count as on a node. A plugin's source file becomes a
script that runs it in a process of its own, on made-up cgroups (``nri.testing.CgroupTree``); a program in
another language sees the node's cgroups.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import runpy
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from nri import config
from nri.adaptation import Outcome, Runtime
from nri.adaptation.launched import parse_name
from nri.adaptation.lifecycle import LifecycleEvent, container_of, pod_of
from nri.adaptation.store import Store
from nri.authoring.source import (
    SourceError,
    about,
    content,
    entry_beside,
    find,
    is_v2_source,
    python,
)
from nri.cgroups import Mounts
from nri.cgroups.paths import expand
from nri.client import Step
from nri.client.resident import Residents
from nri.client.standing import Standing
from nri.client.standing import about as about_executable
from nri.client.verbs import ANSWER_WITHIN
from nri.config.entries import ConfigList, PluginEntry, is_type_name
from nri.errors import NRIError
from nri.testing import CgroupTree, Pod
from nri.testing.cgroup_files import files_of
from nri.testing.pods import Container, resources_of_pod
from nri.v1bridge import Bridge, BridgeOptions
from nri.v1bridge.runs import EventLog, Run
from nri.v2 import api, stub
from nri.v2.api.oci import resources_to_oci

_EMPTY_WITHIN = 2.0
"""Seconds that the processes which were killed have to leave the cgroups."""

STATES = ("setup", "resize", "update")
"""The states beside ``create`` and ``delete`` of a plugin without an entry, unless it says which it acts on."""

CONTROLLERS = ("cpu", "cpuset", "memory", "io", "blkio", "pids", "hugetlb")
# Empty in a new cgroup of v1, which then takes no process.
_INHERITED = ("cpuset.cpus", "cpuset.mems")
_SCRIPT = """\
#!{python}
# Its plugin was written with nri.skel.
import runpy
import sys
sys.path[:] = {path!r}
sys.argv[0] = {source!r}
"""
_RUN = "runpy.run_path(sys.argv[0], run_name='__main__')"


class Asked(NamedTuple):
    """One run of a v0.1 plugin."""

    step: Step
    writes: list[tuple[str, str]]
    """Names of cgroup files and the texts that the plugin wrote, in order; only for source files."""
    stderr: list[str]


class Installed(NamedTuple):
    """A v0.1 plugin that may run."""

    entry: PluginEntry
    states: list[str] | None = None
    """The states that it acts on, as it says; None if it does not."""
    note: str = ""
    """A probable mistake of its author; "" for none."""


class Plugins(NamedTuple):
    """The arguments of ``nri simulate``, sorted."""

    sources: list[str] = []
    """Source files and executables of v0.1 plugins."""
    v2: list[tuple[str, str, str]] = []
    """Index, name and path of executables and source files of v2 plugins."""
    conf_dir: str = ""
    """A host configuration."""


def sort(paths: Sequence[str], *, is_v2: bool) -> Plugins:
    """Return what the paths are; *is_v2* says it of executables that are not called ``NN-name``.

    :raises SourceError: one is of another kind.
    """
    plugins = Plugins([], [])
    for path in paths:
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        executables = [name for name in names if _is_numbered(name) and not name.endswith(".conf")]
        if _are_of_configuration(names):
            if plugins.conf_dir:
                raise SourceError(f"{path}: found a second host configuration, expected one")
            plugins = plugins._replace(conf_dir=os.path.abspath(path))
        elif executables:
            for name in executables:
                plugins.v2.append((*parse_name(name), os.path.abspath(os.path.join(path, name))))
        else:
            _add_plugin(plugins, path, is_v2=is_v2)
    if plugins.conf_dir and plugins.sources:
        raise SourceError(
            f"{plugins.sources[0]}: found beside the host configuration {plugins.conf_dir}: name "
            "it there"
        )
    return plugins


def _are_of_configuration(names: Sequence[str]) -> bool:
    """Return whether these are the files of a host configuration, and not of a plugin's source."""
    endings = {os.path.splitext(name)[1] for name in names}
    return ".conf" in endings and ".py" not in endings


def _add_plugin(plugins: Plugins, path: str, *, is_v2: bool) -> None:
    """Add the plugin of a source file, of its folder, or of an executable.

    :param is_v2: whether an executable is one of v2, whatever its name.
    :raises SourceError: there is none.
    """
    if os.path.isdir(path) or path.endswith(".py"):
        python()  # raises if there is none
        file = find(path)
        is_v2 = is_v2_source(content(file))
    else:
        file = os.path.abspath(path)
        if not os.access(file, os.X_OK):
            raise SourceError(
                f"{path}: found no executable, expected a plugin or a folder of *.conf"
            )
    name = os.path.splitext(os.path.basename(file))[0]
    if _is_numbered(name):
        plugins.v2.append((*parse_name(name), file))
    elif is_v2:
        plugins.v2.append((*parse_name(f"{len(plugins.v2):02d}-{name}"), file))
    else:
        plugins.sources.append(file)


def described(pod: Pod) -> tuple[api.PodSandbox, list[api.Container]]:
    """Return a made-up pod with its containers, as a runtime describes them."""
    sandbox = pod_of(pod.request("create"))
    members = []
    for member in pod.containers:
        members.append(container_of(sandbox, member.name, member.request("setup")))
    return sandbox, members


def _is_numbered(name: str) -> bool:
    return name[:2].isdigit() and name[2:3] == "-"


class Cgroups(ABC):
    """The cgroups of the made-up pods.

    :ivar top: the path above all cgroups that are made; "" for that of the kubelet.
    :ivar version: of the hierarchy with the CPUs, 1 or 2.
    :ivar note_on_executables: the note for a plugin that is an executable; "" if it needs none.
    """

    top = ""
    version = 2
    note_on_executables = ""

    def __init__(self) -> None:
        self._members: dict[str, Container] = {}  # of the pods that were added, by their ids

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Remove what the node would keep."""

    @abstractmethod
    def call(self, record: str) -> str:
        """Return the end of a script that runs a source file; *record* is the file for its writes."""

    @abstractmethod
    def make(self, path: str, resources: Mapping[str, Any]) -> None:
        """Make a cgroup and those above it; *path* is the one below the mount, the resources are in OCI's words.

        :raises NRIError: the kernel, or another program's delegation, does not allow it.
        """

    @abstractmethod
    def limit(self, path: str, resources: Mapping[str, Any]) -> None:
        """Write limits to a cgroup, as runtimes and the kubelet do.

        :raises NRIError: the kernel refuses them.
        """

    def add(self, pods: Sequence[Pod]) -> list[tuple[api.PodSandbox, list[api.Container]]]:
        """Make the cgroups of pods and their sandboxes, as the kubelet and a runtime do.

        :returns: the pods with their containers, as a runtime describes them.
        :raises NRIError: as ``make``.
        """
        pairs = []
        for pod in pods:
            sandbox, members = described(pod)
            self.make(pod.cgroup, resources_of_pod(pod))
            self.make(pod.sandbox_cgroup, resources_to_oci(sandbox.linux.resources) or {})
            for member in pod.containers:
                self._members[member.id] = member
            pairs.append((sandbox, members))
        return pairs

    def follow(self, store: Store, item: LifecycleEvent, outcome: Outcome) -> None:
        """Make the cgroup of a container that an event has created, and give limits, as a runtime does.

        :raises NRIError: as ``make`` and ``limit``.
        """
        is_new = item.event == api.Event.CREATE_CONTAINER
        changed = [update.container_id for update in outcome.updates]
        if item.container is not None and item.event in _OF_RESOURCES:
            changed.append(item.container.id)
        for id_ in dict.fromkeys(changed):
            linux = store.containers[id_].linux
            path = expand(linux.cgroups_path)
            resources = resources_to_oci(linux.resources) or {}
            if is_new and id_ == changed[-1]:
                self.make(path, resources)
                continue
            member = self._members[id_]
            member.resources = resources
            # In v1 its quota must not be less than the container's.
            self.limit(member.pod.cgroup, {})
            self.limit(path, resources)
            self.limit(member.pod.cgroup, resources_of_pod(member.pod))

    def pod(self, name: str, containers: int, cpus: float, memory: int, **about: Any) -> Pod:
        """Return a pod whose cgroups lie below ``top``, with containers of these limits; 0 is for none.

        :param about: other arguments of ``nri.testing.Pod``.
        """
        pod = Pod(name, cgroup_version=self.version, **about)
        if self.top:
            pod.cgroup_parent = f"{self.top}/pod{pod.uid}"
        cpu = {"shares": 512, "period": 100_000}
        if cpus:
            cpu["quota"] = int(cpus * 100_000)
        of_memory = {"limit": memory} if memory else {}
        resources = {"cpu": cpu, "memory": of_memory}
        for number in range(containers):
            pod.container(f"app-{number}", resources=resources)
        return pod


class FileCgroups(Cgroups):
    """Plain files, which the folder of the simulation has.

    :param kind: ``v1`` or ``v2``.
    :param nodes: NUMA nodes of their machine.
    """

    note_on_executables = (
        "it is an executable, which sees the node's cgroups: try it with --cgroups node"
    )

    def __init__(self, kind: str, place: str, nodes: int) -> None:
        super().__init__()
        root = f"{place}/cgroups"
        os.mkdir(root)
        self._tree = CgroupTree(kind, nodes=nodes, root=root)
        self._arguments = f"{kind!r}, {nodes}, {root!r}"
        self.version = self._tree.files.version

    def __exit__(self, *_: object) -> None:
        """Do nothing: the folder is removed."""

    def call(self, record: str) -> str:
        """As for the base class."""
        call = f"run_on_tree(sys.argv[0], {self._arguments}, {record!r})"
        return f"from nri.authoring.simulated import run_on_tree\n{call}"

    def make(self, path: str, resources: Mapping[str, Any]) -> None:
        """As for the base class."""
        self._tree.make(path)
        self.limit(path, resources)

    def limit(self, path: str, resources: Mapping[str, Any]) -> None:
        """As for the base class."""
        for knob, text in files_of(resources, self.version).items():
            self._tree.put(f"{path}/{knob}", text)


class NodeCgroups(Cgroups):
    """The node's own cgroups, in each hierarchy."""

    def __init__(self) -> None:
        super().__init__()
        self.top = f"/nri-simulate-{os.getpid()}"
        self._made: list[str] = []
        # Files of controllers that are enabled, and what undoes that.
        self.enabled: list[tuple[str, str]] = []
        self._mounts: dict[str, int] = {}
        mounts = Mounts.read()
        for mount in filter(None, map(mounts.serving, reversed(CONTROLLERS))):
            self._mounts[mount.point] = mount.version
            self.version = mount.version  # at last that of the first one

    def call(self, record: str) -> str:
        """As for the base class."""
        return _RUN

    def make(self, path: str, resources: Mapping[str, Any]) -> None:
        """As for the base class."""
        for point, version in self._mounts.items():
            for depth in range(2, path.count("/") + 2):
                self._make(point + "/".join(path.split("/")[:depth]), version)
        self.limit(path, resources)

    def limit(self, path: str, resources: Mapping[str, Any]) -> None:
        """As for the base class."""
        for point, version in self._mounts.items():
            for knob, text in files_of(resources, version).items():
                file = f"{point}{path}/{knob}"
                try:
                    with open(file, "r+") as opened:
                        opened.write(text)
                except FileNotFoundError:
                    continue  # another hierarchy has it, or its controller cannot be enabled here
                except OSError as error:
                    raise NRIError(f"{file} cannot be set to {text}: {error.strerror}") from error

    def __exit__(self, *_: object) -> None:
        """Remove the node's cgroups."""
        until = time.monotonic() + _EMPTY_WITHIN
        for directory in reversed(self._made):
            _remove(directory, until)
        for file, word in reversed(self.enabled):
            # Another program has begun to use it.
            with contextlib.suppress(OSError), open(file, "w") as switch:
                switch.write(word)

    def _make(self, directory: str, version: int) -> None:
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(directory)
        try:
            if version == 2:
                switch = f"{parent}/cgroup.subtree_control"
                with open(f"{parent}/cgroup.controllers") as available, open(switch) as enabled:
                    off = {*available.read().split()} - {*enabled.read().split()}
                for controller in sorted(off):
                    # Without a controller that cannot be enabled its knobs are missing: the plugin gets an error.
                    with contextlib.suppress(OSError):
                        with open(switch, "w") as file:
                            file.write(f"+{controller}")
                        self.enabled.append((switch, f"-{controller}"))
            # Noted before it is there: an interruption may come between the two.
            self._made.append(directory)
            os.mkdir(directory)
            if version == 2 or not os.path.exists(f"{directory}/cpuset.cpus"):
                return
            for knob in _INHERITED:
                with open(f"{parent}/{knob}") as source, open(f"{directory}/{knob}", "w") as target:
                    target.write(source.read())
        except OSError as error:
            reason = f"{error.strerror}; expected to be root on a node, or --cgroups v2"
            raise NRIError(f"the cgroup {directory} cannot be made: {reason}") from error


_OF_RESOURCES = (api.Event.CREATE_CONTAINER, api.Event.UPDATE_CONTAINER)
"""The events with new resources of their own container."""


def launchable(path: str, name: str, place: str) -> str:
    """Return an executable of a v2 plugin: *path*, or a script in the folder *place* that runs the source file."""
    if not path.endswith(".py"):
        return path
    return _write_script(f"{place}/{name}", path, _RUN)


def _write_script(script: str, source: str, call: str) -> str:
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            _SCRIPT.format(
                python=python(), path=[os.path.dirname(source), *sys.path], source=source
            )
        )
        file.write(f"{call}\n")
    os.chmod(script, 0o755)  # noqa: S103 - in a directory of its own
    return script


class Listener(Protocol):
    """Takes how plugins are asked."""

    def asked(self, asked: Asked) -> None:
        """Take a request that a plugin has answered."""

    def skipped(self, plugin: str, reason: str) -> None:
        """Take the type of a plugin that a condition keeps from running, and the reason."""


@contextlib.contextmanager
def bridged(
    runtime: Runtime,
    plugins: Plugins,
    conf: Any,
    bin_dirs: Sequence[str],
    made: Cgroups,
    place: str,
    listener: Listener,
) -> Iterator[list[Installed]]:
    """Connect a bridge with the v0.1 plugins, if there are any; give them.

    :param conf: of a single plugin; None for that of the entry beside its source.
    :param bin_dirs: the directories of the executables of a host configuration.
    :param place: a folder for files.
    :raises NRIError: a plugin cannot be loaded.
    """
    own = f"{place}/bin"
    record = f"{place}/writes"
    installed = _install(plugins.sources, conf, own, made, record)
    if plugins.conf_dir:
        conf_dir = plugins.conf_dir
        bin_dirs = [*bin_dirs, own]
    elif installed:
        conf_dir = f"{place}/conf"
        bin_dirs = [own]
        os.mkdir(conf_dir)
        with open(f"{conf_dir}/10.conf", "wb") as file:
            file.write(ConfigList(plugins=[plugin.entry for plugin in installed]).to_json())
    else:
        yield []
        return
    options = BridgeOptions(
        conf_dir=conf_dir,
        conf_file=f"{place}/none",
        bin_dirs=tuple(bin_dirs),
        record_dir=f"{place}/record",
        resident=False,
        late_create=False,
        check_owner=False,  # they are the author's own
    )
    entries = config.load(conf_dir, "", check_owner=False).plugins
    invoker = _AlsoOfSources(bin_dirs, check_owner=False)
    invoker.keep(entries)
    invoker.prepare(ANSWER_WITHIN)
    bridge = Bridge(
        options,
        invoker=invoker,
        event_log=_Shown(invoker, record, listener),
        follows=False,
    )
    ours, theirs = socket.socketpair()
    runner = stub.Runner(bridge, name="v1bridge", index="10", sock=theirs)
    thread = threading.Thread(target=runner.run, name="bridge")
    thread.start()
    try:
        runtime.attach(ours)
        yield installed
    finally:
        runtime.close()
        thread.join()
        bridge.close()
        invoker.close()


def _install(
    sources: Sequence[str], conf: Any, folder: str, cgroups: Cgroups, record: str
) -> list[Installed]:
    """Make the executables of v0.1 plugins."""
    os.mkdir(folder)
    installed = []
    for path in sources:
        is_source = path.endswith(".py")
        if is_source:
            said = about(path)
        else:
            said = {"type": _type_of(path)}
        type_ = said["type"]
        script = f"{folder}/{type_}"
        if os.path.lexists(script):
            raise SourceError(f"{path}: its type {type_!r} is that of another plugin")
        without = PluginEntry(type=type_, states=said.get("states") or STATES)
        entry = entry_beside(path, without)
        note = ""
        if is_source:
            _write_script(script, path, cgroups.call(record))
        else:
            os.symlink(path, script)
            note = cgroups.note_on_executables
        if conf is not None:
            entry = PluginEntry.of_accepted(entry.to_value() | {"conf": conf})
        installed.append(Installed(entry, said.get("states"), note))
    return installed


def _type_of(path: str) -> str:
    """Return the type of an executable.

    :raises SourceError: its name is none.
    """
    name = os.path.basename(path)
    if not is_type_name(name):
        raise SourceError(
            f"{path}: its name is no type of a plugin; expected letters, digits and . _ -"
        )
    return name


def _remove(directory: str, until: float) -> None:
    """Remove a cgroup. One that a plugin has put something into stays.

    :param until: a time of ``time.monotonic``, until which its last processes may still be ending.
    """
    while True:
        try:
            os.rmdir(directory)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() >= until:
                return
            time.sleep(0.01)
        else:
            return


class _AlsoOfSources(Residents):
    """The residents of a node: the script of a source file, in the last directory, does not change meanwhile."""

    def about(self, path: str, plugin: str) -> Standing:
        """As of a plugin of a build also of a source file."""
        return about_executable(
            path, plugin, may_be_script=os.path.dirname(path) == self.bin_dirs[-1]
        )


class _Shown(EventLog):
    """Shows what plugins are asked and answer, and which are left out; has residents ready before that."""

    def __init__(
        self,
        residents: Residents,
        record: str,
        listener: Listener,
    ) -> None:
        super().__init__()
        self._residents = residents
        self._record = record
        self._listener = listener

    def begin(self, run: Run) -> None:
        self._residents.prepare(ANSWER_WITHIN)
        for plugin, reason in run.client.skipped(run.request.state, run.request):
            self._listener.skipped(plugin.type, reason)

    def step(self, run: Run, step: Step) -> None:
        lines = [line for _, line in run.said]
        super().step(run, step)
        writes = []
        with contextlib.suppress(FileNotFoundError):
            with open(self._record, encoding="utf-8") as file:
                writes = [tuple(json.loads(line)) for line in file]
            os.unlink(self._record)
        self._listener.asked(Asked(step, writes, lines))


def run_on_tree(script: str, kind: str, nodes: int, root: str, record: str) -> None:
    """Be the plugin in a source file, on made-up cgroups. Its writes go to the file *record*."""
    with CgroupTree(kind, nodes=nodes, root=root) as tree:
        tree.writes = _Record(record)
        runpy.run_path(script, run_name="__main__")


class _Record(list[tuple[str, str]]):
    """Writes that are noted in a file at once: the process may go on, and may be killed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def append(self, write: tuple[str, str]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(write) + "\n")
