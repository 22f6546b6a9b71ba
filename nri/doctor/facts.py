"""The facts about a node that the rules of ``nri doctor`` are about."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import shlex
import stat
from typing import Any, NamedTuple

from nri import trust
from nri.cgroups import Mounts
from nri.cgroups.paths import memberships
from nri.config import ConfigError
from nri.config.loading import read_options
from nri.config.site import Site
from nri.doctor import engines
from nri.doctor.checking import check_host
from nri.doctor.engines import PLUGIN_CONF_DIR, PLUGIN_DIR, Engine
from nri.doctor.node import FAULT, UNSEEN, Findings, Node, Process, is_executable
from nri.node.in_use import InUse
from nri.places import CONTAINERD_CONF_FILE, DEFAULT_SOCKET, beside
from nri.process import watchdog
from nri.status import AskError, NoBridgeError, judge, status
from nri.status.client import UNUSABLE, Reading
from nri.v1bridge.log import IDENTIFIER
from nri.v1bridge.options import BridgeOptions

SERVICE = "nri-v1bridge.service"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{SERVICE}"
OUTSIDE_OPTIONS = "/etc/nri/v1bridge.json"
"""The options that the systemd unit of this project names."""

POD = "-l app.kubernetes.io/name=nri-v1bridge --field-selector spec.nodeName=NODE"
"""Selects the pod of the DaemonSet on a node, for kubectl."""

MAX_NAMES = 1000
"""Names of a directory that are looked at."""

_LAUNCHED = re.compile(r"\d\d-.")


class PluginFile(NamedTuple):
    """A file in a runtime's directory of v2 plugins.

    :ivar directory: of the runtime, as it names it.
    :ivar mode: of what the path leads to; 0 if that does not exist.
    :ivar is_link: whether it is a link, which a runtime takes for an executable whatever it leads to.
    """

    directory: str
    name: str
    mode: int
    is_link: bool = False

    @property
    def path(self) -> str:
        """Its path."""
        return f"{self.directory}/{self.name}"

    @property
    def fault(self) -> str:
        """The code of the rule that it breaks, "" if it breaks none."""
        is_launched = _LAUNCHED.match(self.name)
        if is_executable(self.mode):
            return "" if is_launched else "plugin-name"
        if not is_launched:
            return "plugin-name" if self.is_link else ""
        return "not-executable" if self.mode else "dangling"

    @property
    def has_bridges_name(self) -> bool:
        """True if it has the name by which a runtime launches the bridge."""
        return self.name[2:] == "-v1bridge"

    @property
    def is_bridge(self) -> bool:
        """True if a runtime launches the bridge by it."""
        return self.has_bridges_name and not self.fault


class Serving(NamedTuple):
    """A runtime, and the bridges for it.

    :ivar launched: the path of the one that it launches, "" if there is none.
    :ivar outside: the process or unit of the one that connects to it, "" if there is none.
    """

    engine: Engine
    launched: str
    outside: str

    @property
    def obstacle(self) -> str:
        """The code of the rule that keeps a bridge from serving it, "" if nothing does."""
        if not (self.launched or self.outside):
            return ""
        if self.engine.is_native:
            return "no-v2"
        if self.engine.nri is False:
            return "nri-off"
        if self.launched and self.outside:
            return "two-bridges"
        if self.outside and not self.engine.accepts:
            return "connections-off"
        return ""

    @property
    def ways(self) -> list[str]:
        """The bridge as a way in which plugins run, if it is one."""
        if self.obstacle:
            return []
        if self.launched:
            return [f"the bridge, launched as {self.launched}"]
        if self.outside:
            return ["the bridge, from outside"]
        return []


class Listener(NamedTuple):
    """A runtime that accepts plugins, and whether there is a socket where it does."""

    engine: Engine
    has_socket: bool


class Meeting(NamedTuple):
    """A runtime that accepts plugins, and a bridge that is to connect to it at the socket ``wanted``."""

    engine: Engine
    process: Process
    wanted: str


class NotRoots(NamedTuple):
    """A path that others than root can change, and what is wrong with it."""

    path: str
    wrong: str

    @property
    def quoted(self) -> str:
        """The path, for a shell."""
        return shlex.quote(self.path)


class Throttling(NamedTuple):
    """The share of the periods in which a CPU limit has stopped a cgroup."""

    percent: int
    cgroup: str


class Ways(NamedTuple):
    """An engine, and what runs plugins for its containers.

    :ivar ours: nri-runc, OCI hooks and the bridge, as a phrase each.
    :ivar own: the types of the plugins of conf.json, if the engine runs them itself.
    :ivar again: those of them that one of ours runs, too; for a sentence.
    :ivar conf_dir: the directory of the configuration.
    """

    engine: Engine
    ours: list[str]
    own: tuple[str, ...]
    again: str
    conf_dir: str

    @property
    def listed(self) -> str:
        """Ours, for a sentence."""
        return " and ".join(self.ours)

    @property
    def fewer(self) -> str:
        """The fix for two of ours."""
        if self.engine.hooks:
            return f"rm {' '.join(self.engine.hooks)}"
        return f"name runc in place of it in {self.engine.file}"

    @property
    def sentences(self) -> list[str]:
        """Each of the ways, as a sentence."""
        ways = [*self.ours]
        if self.own:
            ways.append(f"containerd itself, {CONTAINERD_CONF_FILE}")
        return [f"{self.engine.about}: {way}" for way in ways]


class Answer(NamedTuple):
    """The answer of a bridge.

    :ivar causes: why it is not well, without values of files.
    :ivar pod: its own, NAMESPACE/NAME; "" if it runs in none.
    :ivar fault: why the rest of the answer cannot be used, "" if it can be.
    """

    pid: int
    version: str
    commit: str
    state: str
    causes: tuple[str, ...] = ()
    pod: str = ""
    fault: str = ""

    @property
    def build(self) -> tuple[str, str]:
        """The version and the commit."""
        return self.version, self.commit

    @classmethod
    def of(cls, document: dict[str, Any]) -> Answer:
        """Return the answer in a status; of another build's, what it has of ours.

        :raises Exception: one of ``UNUSABLE``: it does not say which bridge it is.
        """
        bridge = document["bridge"]
        commit = str(bridge["commit"] or "unknown")
        answer = cls(int(bridge["pid"]), str(bridge["version"]), commit, str(bridge["state"]))
        try:
            verdict = judge(document)
            return answer._replace(
                causes=tuple(verdict.causes),
                pod=str(document["ownPod"] or ""),
            )
        except UNUSABLE as error:
            return answer._replace(fault=f"{type(error).__name__}: {error}")


class Facts:
    """The facts about a node; each ``look_at_…`` adds those of a subject, and uses what those before it added.

    :ivar findings: what has been found so far.
    :ivar engines: the engines in use.
    :ivar runtimes: those that Kubernetes can use.
    :ivar outside: the bridges that no runtime has launched.
    :ivar files: of the directories of v2 plugins.
    :ivar options: those of the bridge.
    :ivar not_roots: what others than root can change.
    :ivar configuration: of the plugins.
    :ivar in_use: the set of files that is in use.
    :ivar answers: what the bridge has answered; empty if it has not.
    :ivar silence: why there is no answer, "" if there is one.
    :ivar has_none: whether no process listens for questions.
    :ivar is_whole: False if a subject could not be looked at: what is not seen may still be there.
    """

    def __init__(self, node: Node, findings: Findings) -> None:
        self.node = node
        self.findings = findings
        self.engines: list[Engine] = []
        self.runtimes: list[Engine] = []
        self.outside: list[Process] = []
        self.files: list[PluginFile] = []
        self.options = BridgeOptions()
        self.not_roots: list[NotRoots] = []
        self.configuration = Configuration()
        self.in_use = InUse(self.options.site, writes=False)
        self.answers: list[Answer] = []
        self.silence = ""
        self.has_none = False
        self.is_whole = True

    # How they are found

    def look_at_engines(self) -> None:
        """Add the engines, and the bridges from outside."""
        processes = self.node.processes()
        self.outside = [process for process in processes if _is_bridge(process)]
        self.engines = engines.look(self.node, processes, self.findings)
        self.runtimes = [engine for engine in self.engines if engine.serves]

    def look_at_plugin_files(self) -> None:
        """Add the files in the directories of v2 plugins."""
        for directory in self.plugin_dirs():
            for name in self.node.names(directory)[:MAX_NAMES]:
                path = f"{directory}/{name}"
                mode = self.node.mode(path)
                self.files.append(PluginFile(directory, name, mode, self.node.is_link(path)))

    def look_at_options(self) -> None:
        """Add the options of the bridge that runs, else of the one that would be launched."""
        if self.outside and not self.here:
            process = f"process {self.outside[0].pid}"
            text = f"the options of {process}: it sees other files than this command"
            self.findings.add(UNSEEN, "options", text)
            return
        for path in self._options_files():
            try:
                self.options, faults = read_options(self.node.root + path, BridgeOptions)
            except FileNotFoundError:
                continue
            for fault in faults:
                self.findings.add(FAULT, "options", fault, f"correct {path}")
            return

    def _options_files(self) -> list[str]:
        """Return the files that may have the options of a bridge; the first one that exists has them."""
        paths = []
        for process in self.here:
            paths.append(process.option("--config"))
        if self.launched:
            directory = PLUGIN_CONF_DIR
            for engine in self.runtimes[:1]:
                directory = engine.conf_dir
            paths += [f"{directory}/10-v1bridge.conf", f"{directory}/v1bridge.conf"]
        paths.append(OUTSIDE_OPTIONS)
        return list(filter(None, paths))

    def look_at_owners(self) -> None:
        """Add what others can change of what ``nri check`` does not judge."""
        places = [PLUGIN_CONF_DIR, os.path.dirname(self.options.record_dir), PLUGIN_DIR]
        for file in self.files:
            places.append(file.path)
        for place in places:
            path = self.node.root + place
            with contextlib.suppress(OSError, ValueError):
                for each in (path, *trust.directories(path)):
                    wrong = trust.judge(os.stat(each))
                    if wrong:
                        shown = each.removeprefix(self.node.root) or "/"
                        self.not_roots.append(NotRoots(shown, wrong))

    def look_at_configuration(self) -> None:
        """Add the configuration of the plugins."""
        root = self.node.root
        options = self.options
        site = options.site.replace(
            conf_dir=root + options.conf_dir,
            conf_file=root + options.conf_file,
            record_dir=root + options.record_dir,
            bin_dirs=[root + path for path in options.bin_dirs],
        )
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.listdir(site.conf_dir)  # else what this user cannot see would be a fault
        self.in_use = InUse(site, writes=False)
        self.in_use.look()
        is_file_read = any(engine.reads_file for engine in self.engines)
        self.configuration = Configuration.of(site, is_file_read=is_file_read)

    def look_at_status(self) -> None:
        """Ask the bridge."""
        path = self.node.root + beside(self.options.record_dir, ".sock")
        try:
            with Reading(path):
                self.answers = [Answer.of(self._ask(path))]
        except NoBridgeError as error:
            self.silence = str(error)
            self.has_none = True
        except AskError as error:
            if isinstance(error.__cause__, PermissionError):
                self.is_whole = False
                self.findings.add(UNSEEN, "unseen", str(error))
            self.silence = str(error)

    def _ask(self, path: str) -> dict[str, Any]:
        """Return the status; of a bridge in another mount namespace by its own root directory."""
        try:
            return status(path)
        except NoBridgeError:
            below = path.removeprefix(self.node.root)
            for process in self.outside:
                with contextlib.suppress(NoBridgeError):
                    return status(f"{self.node.root}/proc/{process.pid}/root{below}")
            raise

    # What follows from them

    def missing_programs(self) -> list[tuple[Engine, str]]:
        """Return the programs that an engine names, and that do not exist."""
        missing = []
        for engine in self.engines:
            for path in engine.runtimes:
                if path.startswith("/") and not self.node.mode(path):
                    missing.append((engine, path))
        return missing

    def plugin_dirs(self) -> list[str]:
        """Return the directories of v2 plugins."""
        directories = [engine.plugin_dir for engine in self.runtimes]
        return [*dict.fromkeys(directories or [PLUGIN_DIR])]

    @property
    def here(self) -> list[Process]:
        """The bridges from outside that see the files that we see."""
        return [process for process in self.outside if process.is_here]

    @property
    def launched(self) -> list[PluginFile]:
        """The bridges that a runtime launches."""
        return [file for file in self.files if file.is_bridge]

    @property
    def not_launched(self) -> list[str]:
        """The bridges that no runtime launches: the processes, and the unit if systemd starts it."""
        names = [f"process {process.pid}" for process in self.outside]
        if self.node.mode(WANTED):
            names.append(SERVICE)
        return names

    def serving(self) -> list[Serving]:
        """Return the runtimes that a bridge can serve, each with the bridges for it."""
        outside = "".join(self.not_launched[:1])
        found = []
        for engine in self.runtimes:
            paths = [file.path for file in self.launched if file.directory == engine.plugin_dir]
            found.append(Serving(engine, "".join(paths[:1]), outside))
        return found

    @property
    def is_expected(self) -> bool:
        """True if a bridge should run, or something listens for questions."""
        for engine, launched, _ in self.serving():
            if launched and engine.is_on:
                return True
        return not self.has_none or self.not_launched != []

    def listening(self) -> list[Listener]:
        """Return the running engines that accept plugins at a socket."""
        found = []
        for engine in self.runtimes:
            if engine.is_on and engine.accepts:
                has_socket = stat.S_ISSOCK(self.node.mode(engine.socket))
                found.append(Listener(engine, has_socket))
        return found

    def meetings(self) -> list[Meeting]:
        """Return the engines with a socket, each with each bridge from outside whose files we see."""
        found = []
        for engine, _ in self.listening():
            for process in self.here:
                wanted = process.option("--socket") or DEFAULT_SOCKET
                found.append(Meeting(engine, process, wanted))
        return found

    def ways(self) -> list[Ways]:
        """Return what runs plugins for the containers of each engine."""
        bridges = {serving.engine: serving.ways for serving in self.serving()}
        found: list[Ways] = []
        for engine in self.engines:
            ours = [*engine.ways, *bridges.get(engine, [])]
            own: tuple[str, ...] = ()
            if engine.reads_file:
                own = self.configuration.in_file
            theirs = self.configuration.in_directory
            if engine.runtimes:
                # nri-runc reads the file, too, if there is nothing in the directory.
                theirs = self.configuration.types
            again = [type_ for type_ in own if ours and type_ in theirs]
            found.append(Ways(engine, ours, own, ", ".join(again), self.options.conf_dir))
        return found

    def without_directory(self) -> list[Engine]:
        """Return each containerd that runs the file's plugins alone, if nothing runs the directory's."""
        is_read = any(ways.ours for ways in self.ways())
        if is_read or self.launched or not self.configuration.in_directory:
            return []
        return [engine for engine in self.runtimes if engine.is_native]

    @property
    def restart(self) -> str:
        """The command that restarts the bridge."""
        if self.launched and not self.outside:
            return self.runtimes[0].restart if self.runtimes else "restart the runtime"
        namespace, pod = self.own_pod
        if pod:
            return f"kubectl -n {namespace} delete {pod}"
        return f"systemctl restart {SERVICE}"

    @property
    def log_command(self) -> str:
        """The command that shows the end of the log of a bridge with these options."""
        namespace, pod = self.own_pod
        if self.options.log_file:
            return f"tail -n 20 {self.options.log_file}"
        if pod:
            return f"kubectl -n {namespace} logs -c bridge --tail 20 {pod}"
        return f"journalctl -t {IDENTIFIER} -n 20"

    @property
    def own_pod(self) -> tuple[str, str]:
        """The namespace of the bridge's pod, and the pod as kubectl takes it; "" if it runs in none."""
        for answer in self.answers:
            if answer.pod:
                namespace, _, name = answer.pod.partition("/")
                return namespace, f"pod/{name}"
        for process in self.outside:
            if "kubepods" in self.text(f"/proc/{process.pid}/cgroup"):
                return "kube-system", f"$(kubectl -n kube-system get pods {POD} -o name)"
        return "", ""

    @functools.cached_property
    def mounts(self) -> Mounts:
        """The mounts of cgroups."""
        return Mounts.parse(self.text("/proc/self/mountinfo"))

    def throttling(self, answer: Answer) -> Throttling:
        """Return how often a CPU limit has stopped the bridge."""
        mount = self.mounts.serving("cpu")
        if mount is None:
            return Throttling(0, "")
        cgroups = memberships(self.text(f"/proc/{answer.pid}/cgroup"))
        cgroup = cgroups.get("cpu", cgroups.get("", ""))  # v1, or v2
        path = mount.below_host(cgroup) or "/not-visible"
        statistics = self.text(f"{mount.point}{path}/cpu.stat")
        counts = dict(re.findall(r"(?m)^(\w+) (\d+)$", statistics))
        periods = int(counts.get("nr_periods", 0))
        if periods == 0:
            return Throttling(0, cgroup)
        return Throttling(int(counts.get("nr_throttled", 0)) * 100 // periods, cgroup)

    def text(self, path: str) -> str:
        """Return the text of a file, "" if it cannot be read."""
        try:
            return self.node.read(path)
        except OSError:
            return ""


class Configuration(NamedTuple):
    """The configuration of the plugins, as ``nri check`` judges it.

    :ivar faults: the places of what ``nri check`` finds, without the values that it quotes.
    :ivar in_directory: the types of the plugins that only our hosts run.
    :ivar in_file: the types in conf.json, which containerd may run itself.
    """

    faults: tuple[str, ...] = ()
    in_directory: tuple[str, ...] = ()
    in_file: tuple[str, ...] = ()

    @classmethod
    def of(cls, site: Site, *, is_file_read: bool) -> Configuration:
        """Return the configuration of a site.

        :param is_file_read: a runtime reads conf.json itself.
        """
        checked, faults = check_host(site)
        plugins = [entry.plugin for entry in checked]
        in_directory = [plugin.type for plugin in plugins if plugin.source != site.conf_file]
        in_file = []
        try:
            for plugin in site.replace(conf_dir="").load().plugins:
                in_file.append(plugin.type)
        except ConfigError as error:
            if is_file_read:
                faults = (*faults, *error.faults)
        places = [f"{fault.file}:{fault.line}:{fault.column}: {fault.path}" for fault in faults]
        return cls(tuple(places), tuple(in_directory), tuple(in_file))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of all plugins that are to run."""
        return self.in_directory or self.in_file


def _is_bridge(process: Process) -> bool:
    """Return whether a process is ``nri bridge``, or a ``v1bridge`` that a runtime did not launch as NN-v1bridge."""
    if process.name == watchdog.NAME or "--help" in process.arguments:
        return False
    words = [os.path.basename(word) for word in process.arguments[:6]]
    if words[0].startswith(("nri", "python")):
        return ("nri", "bridge") in itertools.pairwise(words)
    return words[0] == "v1bridge"
