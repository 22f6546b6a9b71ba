"""The examination of a node, subject by subject. Each cause is reported once, with the command that fixes it."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import stat
from typing import TYPE_CHECKING, Any

from nri import __commit__, __version__, trust
from nri.cgroups import Mounts
from nri.config import ConfigError, refused
from nri.config.loading import unread
from nri.doctor import engines
from nri.doctor.checking import check_host
from nri.doctor.engines import PLUGIN_CONF_DIR, PLUGIN_DIR
from nri.doctor.node import (
    FAULT,
    MAX_LINE,
    NOTE,
    OK,
    UNSEEN,
    Findings,
    reason,
    same_path,
    without_secrets,
)
from nri.errors import escape
from nri.node.in_use import InUse, how_long
from nri.places import CONTAINERD_CONF_FILE, DEFAULT_SOCKET, RUNTIME_OPTIONS_FILE, beside
from nri.process import watchdog
from nri.runc.options import load as load_runtime_options
from nri.status import AskError, NoBridgeError, judge, status
from nri.status.client import UNUSABLE, unusable
from nri.status.judging import CONNECTED, WELL
from nri.types.gojson import shorten
from nri.v1bridge.log import DIRECTORY, IDENTIFIER
from nri.v1bridge.options import BridgeOptions
from nri.version import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config import Fault
    from nri.config.site import Site
    from nri.doctor.checking import Checked
    from nri.doctor.engines import Engine
    from nri.doctor.node import Node, Process


SERVICE = "nri-v1bridge.service"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{SERVICE}"
OUTSIDE_OPTIONS = "/etc/nri/v1bridge.json"
"""The options that the systemd unit of this project names."""

LINES = 20
MAX_NAMES = 1000
"""Lines of the bridge's log that are shown, and names of a directory."""

LEAST = 0.5
"""Seconds that a plugin needs for an event: a process on a busy node takes a tenth of that to start."""

SELECTOR = "-l app.kubernetes.io/name=nri-v1bridge"
"""The labels of the DaemonSet's pods, for kubectl."""

_NAME = re.compile(r"\d\d-.")
_OF_PLUGIN = re.compile(r"(?:; the end of its stderr:|; it wrote ).*", re.DOTALL)


def examine(node: Node) -> tuple[Findings, list[str]]:
    """Return all findings about a node, and the last lines of the bridge's log."""
    examination = _Examination(node)
    for subject, look in (
        ("versions", examination.versions),
        ("engines", examination.engines),
        ("bridge", examination.bridge),
        ("files and owners", examination.files),
        ("configuration", examination.configuration),
        ("what runs the plugins", examination.ways),
        ("status of the bridge", examination.status),
        ("log", examination.last_lines),
    ):
        examination.findings.subject = subject
        try:
            look()
        except OSError as error:
            examination.findings.add(UNSEEN, "unseen", reason(error))
        except Exception as error:  # the other subjects count; its text may quote a file
            text = f"nri doctor failed here: {type(error).__name__}"
            examination.findings.add(UNSEEN, "failed", text, "please report this as a bug")
    return examination.findings, examination.log


class _Examination:
    """One run; each method is a subject, and uses what those before it have found."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.findings = Findings()
        self._add = self.findings.add
        self.log: list[str] = []
        self._processes: list[Process] = []
        self._engines: list[Engine] = []
        self._launched: list[str] = []  # bridges that a runtime launches
        self._outside: list[Process] = []  # bridges that were started otherwise
        self._options = BridgeOptions()
        self._in_directory: list[str] = []  # types of plugins
        self._in_file: list[str] = []  # the same, in conf.json
        self._faulty: set[str] = set()  # types of plugins that nri check finds wrong
        self._not_roots: list[str] = []  # files and directories that others can change
        self._pod = ""  # the bridge's, NAMESPACE/NAME
        self._is_valid = True
        self._log = ""  # the place that it goes to

    def versions(self) -> None:
        """This build, Python, the kernel, the distribution, cgroups."""
        system = os.uname()
        self._add(OK, "nri", f"nri {describe()}, Python {platform.python_version()}")
        self._add(OK, "kernel", f"{system.sysname} {system.release} {system.machine}")
        name = re.search(
            r"^PRETTY_NAME=[\"']?([^\"'\n]{1,100})", self._text("/etc/os-release"), re.MULTILINE
        )
        self._add(
            OK,
            "distribution",
            name[1] if name else "unknown distribution: no name in /etc/os-release",
        )
        if os.geteuid() != 0:
            text = (
                f"run as user {os.geteuid()}: processes, logs and files of root are seen in part "
                "or not at all"
            )
            self._add(UNSEEN, "not-root", text, "sudo nri doctor")
        version = Mounts.parse(self._text("/proc/self/mountinfo")).version
        if version == "none":
            text = "no cgroup hierarchy with controllers is mounted: plugins find no cgroup"
            self._add(
                FAULT,
                "no-cgroups",
                text,
                "run this command on the host; mount cgroups at /sys/fs/cgroup",
            )
        else:
            self._add(OK, "cgroups", f"cgroup {version}")

    def engines(self) -> None:
        """containerd, CRI-O, podman and docker, and how they are set."""
        self._processes = self.node.processes()
        self._engines = engines.look(self.node, self._processes, self.findings)

    def bridge(self) -> None:
        """The bridges that a runtime launches, those from outside, their options, and the runtimes' sockets."""
        serving = [engine for engine in self._engines if engine.serves]
        for directory in dict.fromkeys([engine.plugin_dir for engine in serving] or [PLUGIN_DIR]):
            for name in self.node.names(directory)[:MAX_NAMES]:
                self._look_at_plugin(f"{directory}/{name}", name)
        self._outside = [process for process in self._processes if _is_bridge(process)]
        for process in self._outside:
            self._add(OK, "outside", f"process {process.pid} runs from outside")
        self._read_options(serving)
        for engine in [engine for engine in serving if engine.nri]:
            if 0 < engines.seconds(engine.request_timeout) < LEAST:
                given = f"plugin_request_timeout = {engine.request_timeout}"
                text = (
                    f"{engine.about} has {given}: it cuts the bridge off after that, and goes on "
                    "without plugins"
                )
                self._add(
                    FAULT,
                    "timeout",
                    text,
                    f"set 2s, the default, in {engine.file}; {engine.restart}",
                )
            if engine.accepts and engine.pid:
                self._look_at_socket(engine)

    def _look_at_plugin(self, path: str, name: str) -> None:
        """Look at a file in a runtime's directory of v2 plugins."""
        mode = self.node.mode(path)
        is_executable = stat.S_ISREG(mode) and mode & 0o111
        if not mode:
            return  # a link to nothing, which is found with the other files
        if not _NAME.match(name):
            if is_executable:
                text = (
                    f"{path}: a name without two digits and a dash in front keeps containerd from "
                    "starting"
                )
                self._add(FAULT, "plugin-name", text, f"move {path} away")
        elif not is_executable:
            self._add(
                FAULT, "not-executable", f"{path} is not an executable file", f"chmod 0755 {path}"
            )
        elif name[3:] == "v1bridge":
            self._launched.append(path)
            self._add(OK, "launched", f"{path} is launched by the runtime")

    def _read_options(self, serving: list[Engine]) -> None:
        """Read the options of the bridge that runs, else of the one that would be launched."""
        if self._outside and not any(process.is_here for process in self._outside):
            text = (
                f"the options of process {self._outside[0].pid}: it sees other files than this "
                "command"
            )
            self._add(UNSEEN, "options", text)
            return
        named = [
            path
            for process in self._outside
            if process.is_here and (path := process.option("--config"))
        ]
        directory = next((engine.conf_dir for engine in serving), PLUGIN_CONF_DIR)
        if self._launched:
            launched = [f"{directory}/10-v1bridge.conf", f"{directory}/v1bridge.conf"]
        else:
            launched = []
        for path in [*named, *([] if self._outside else launched), OUTSIDE_OPTIONS]:
            try:
                self._options, faults = BridgeOptions.of_text(self.node.read(path, errors="strict"))
            except FileNotFoundError:
                continue
            except UnicodeDecodeError:
                text = (
                    f"{path} is not UTF-8: a runtime can't pass it on; containerd 1.7 ends, 2.x "
                    "drops the bridge"
                )
                self._add(FAULT, "options", text, f"correct {path}")
                return
            except OSError as error:
                self._add(FAULT, "options", reason(error), f"correct {path}")
                continue
            for fault in faults:
                self._add(FAULT, "options", f"{path}: {fault}", f"correct {path}")
            return

    def _look_at_socket(self, engine: Engine) -> None:
        if not stat.S_ISSOCK(self.node.mode(engine.socket)):
            text = (
                f"{engine.about} has NRI on, and {engine.socket} is no socket: it was not "
                "restarted since"
            )
            self._add(FAULT, "no-socket", text, engine.restart)
            return
        self._add(OK, "socket", f"{engine.about} has the socket {engine.socket}")
        for process in [process for process in self._outside if process.is_here]:
            wanted = process.option("--socket") or DEFAULT_SOCKET
            if same_path(wanted) != same_path(engine.socket):
                text = (
                    f"process {process.pid} connects to {wanted}, and {engine.about} listens on "
                    f"{engine.socket}"
                )
                self._add(
                    FAULT, "other-socket", text, f"start the bridge with --socket {engine.socket}"
                )

    def configuration(self) -> None:
        """The findings of ``nri check``, without the values that it quotes."""
        root = self.node.root
        options = self._options
        directory = root + options.conf_dir
        file = root + options.conf_file
        site = options.site.replace(
            conf_dir=directory,
            conf_file=file,
            record_dir=root + options.record_dir,
            bin_dirs=[root + path for path in options.bin_dirs],
        )
        for note in unread(directory, is_standard=options.conf_dir == BridgeOptions().conf_dir):
            self._add(NOTE, "unread", *[item.replace(root, "") for item in note])
        self._look_at_set_in_use(site)
        checked, faults = check_host(site)
        entries = [entry.plugin for entry in checked]
        self._is_valid = bool(checked) or not faults
        self._in_directory = [plugin.type for plugin in entries if plugin.source != file]
        try:
            self._in_file = [plugin.type for plugin in site.replace(conf_dir="").load().plugins]
        except ConfigError as error:
            faults = (*faults, *error.faults)
        self._list_faults(checked, faults)
        if fault_ := load_runtime_options(root + RUNTIME_OPTIONS_FILE).fault:
            self._add(
                FAULT,
                "runtime-options",
                fault_.removeprefix(root),
                f"correct {RUNTIME_OPTIONS_FILE}",
            )

    def _look_at_set_in_use(self, site: Site) -> None:
        """Add files that are missing, and a set that was refused."""
        root = self.node.root
        used = InUse(site, writes=False)
        used.look()
        if used.missing:
            paths = ", ".join([path.removeprefix(root) for path in used.missing])
            text = f"missing, and still in use {how_long(used)}: {paths}"
            self._add(
                FAULT,
                "missing",
                text,
                'put it back; for no plugins write a file with "plugins": []',
            )
        if last := refused.read(site.conf_dir):
            text = (
                "a configuration was refused, and an older one is in use: "
                f"{last.source or 'source unknown'}"
            )
            path = refused.path_of(self._options.conf_dir)
            fix = f"nri status shows its faults; correct them, and apply it again; or rm {path}"
            self._add(FAULT, "refused-configuration", text, fix)

    def _list_faults(self, checked: list[Checked], faults: Sequence[Fault]) -> None:
        """Add what ``nri check`` finds; of a plugin's text only what quotes no value."""
        root = self.node.root
        for fault in [fault for fault in faults if not self._is_of_owner(fault)]:
            is_quoted = not checked or ".conf" in fault.path
            if is_quoted:
                message = "it is not valid"
            else:
                message = _OF_PLUGIN.sub("", fault.message)
            where = f"{fault.file.removeprefix(root)}:{fault.line}:{fault.column}: {fault.path}"
            code = "plugin" if checked else "invalid"
            self._add(FAULT, code, f"{where}: {message}", "nri check shows what was found")
        self._faulty = {entry.plugin.type for entry in checked if entry.faults}
        for entry in checked:
            for text in entry.notes:
                self._add(NOTE, "plugin", _OF_PLUGIN.sub("", text))
            if not entry.faults:
                self._add(
                    OK, "plugin", f"{entry.plugin.type}: version {entry.version or 'unknown'}"
                )

    def ways(self) -> None:
        """The programs that run the plugins: none, or two for the same containers."""
        ways: list[str] = []
        before = len(self.findings)
        for engine in self._engines:
            ways += [f"{engine.about}: {way}" for way in self._ways_of(engine)]
        for way in ways:
            self._add(OK, "way", way)
        if not self._is_valid:
            return
        configured = self._in_directory or self._in_file
        if not configured:
            self._add(NOTE, "no-plugins", "no plugin is configured")
        elif not ways and not any(finding.level == FAULT for finding in self.findings[before:]):
            text = f"plugins are configured ({_listed(configured)}), and nothing runs them"
            self._add(FAULT, "no-way", text, self._way())

    def _ways_of(self, engine: Engine) -> list[str]:
        """Return what runs plugins for the containers of an engine; add a fault if each runs twice."""
        ways = [f"nri-runc ({path})" for path in engine.runtimes]
        ways += [f"OCI hooks ({path})" for path in engine.hooks[:1]]
        if engine.serves:
            ways += filter(None, [self._served(engine)])
        if len(ways) > 1:
            text = f"{engine.about}: {' and '.join(ways)} run every plugin twice"
            fix = f"name runc in place of it in {engine.file}"
            if engine.hooks:
                fix = f"rm {' '.join(engine.hooks)}"
            self._add(FAULT, "twice", text, fix)
        elif engine.name == "containerd":
            ways += filter(None, [self._native(engine, bool(ways))])
        return ways

    def _served(self, engine: Engine) -> str:
        """Return how the bridge serves a runtime, "" if it does not; add what keeps it from that."""
        is_enabled = bool(self.node.mode(WANTED))
        launched = [path for path in self._launched if path.startswith(f"{engine.plugin_dir}/")]
        if not launched and not self._outside and not is_enabled:
            if engine.nri is False:
                self._add(NOTE, "nri-off", f"{engine.about}: NRI is off", engine.switch_on)
            return ""
        if engine.is_native:
            text = f"{engine.about} has no NRI v2, so the bridge can't serve it"
            fix = (
                f"name the plugins in {CONTAINERD_CONF_FILE}, or use nri-runc: "
                "docs/podman-docker-crio.md"
            )
            self._add(FAULT, "no-v2", text, fix)
        elif engine.nri is False:
            self._add(
                FAULT,
                "nri-off",
                f"{engine.about}: NRI is off, so no bridge can serve it",
                engine.switch_on,
            )
        elif launched and (self._outside or is_enabled):
            if self._outside:
                which = f"process {self._outside[0].pid}"
            else:
                which = SERVICE
            text = (
                f"{engine.about} launches {launched[0]}, and {which} runs from outside: one of "
                "them is too many"
            )
            fix = f"systemctl disable --now {SERVICE}; or rm {launched[0]}, then {engine.restart}"
            self._add(FAULT, "two-bridges", text, fix)
        elif not launched and not engine.accepts:
            text = f"{engine.about} accepts no connections, so a bridge from outside can't serve it"
            fix = (
                "set disable_connections (nri_disable_connections in CRI-O) to false in "
                f"{engine.file}"
            )
            self._add(FAULT, "connections-off", text, f"{fix}; {engine.restart}")
        else:
            if launched:
                return f"the bridge, launched as {launched[0]}"
            return "the bridge, from outside"
        return ""

    def _native(self, engine: Engine, has_way: bool) -> str:
        """Return how containerd itself runs plugins of conf.json; add those that run twice, or never."""
        runs_file = bool(self._in_file) and (engine.is_native or engine.version >= (2,))
        if runs_file and has_way and self._add_twice(engine):
            return ""
        if engine.is_native and self._in_file:
            return f"containerd itself, {CONTAINERD_CONF_FILE}"
        if engine.is_native and self._in_directory and not (has_way or self._launched):
            unread = _listed(self._in_directory)
            text = f"{engine.about} does not read {self._options.conf_dir}: {unread} never run"
            fix = (
                f"name them in {CONTAINERD_CONF_FILE}, or use nri-runc: docs/podman-docker-crio.md"
            )
            self._add(FAULT, "directory-unread", text, fix)
        if runs_file and not engine.is_native and not has_way:
            return f"containerd itself, for the sandbox only, {CONTAINERD_CONF_FILE}"
        return ""

    def _add_twice(self, engine: Engine) -> bool:
        """Add the plugins of conf.json that containerd and another way run for each pod; return whether some do."""
        if engine.runtimes and not self._in_directory:
            by_wrapper = self._in_file
        else:
            by_wrapper = []
        both = by_wrapper or [plugin for plugin in self._in_file if plugin in self._in_directory]
        if not both:
            return False
        which = CONTAINERD_CONF_FILE
        if not engine.is_native:
            which += " for the sandbox"
        text = (
            f"{_listed(both)} run twice for each pod: {engine.about} itself runs those of {which}"
        )
        fix = f"rm {CONTAINERD_CONF_FILE}"
        if by_wrapper:
            fix = f"move them to {self._options.conf_dir}; {fix}"
        self._add(FAULT, "twice", text, fix)
        return True

    def _way(self) -> str:
        serving = [engine for engine in self._engines if engine.serves and not engine.is_native]
        if not serving:
            return "choose a way: docs/install.md"
        if serving[0].nri is False:
            first = f"{serving[0].switch_on}; "
        else:
            first = ""
        return f"{first}ln -s ../lib/v1bridge {PLUGIN_DIR}/10-v1bridge; {serving[0].restart}"

    def status(self) -> None:
        """The status of the bridge; without an answer, whether one is expected."""
        path = self.node.root + beside(self._options.record_dir, ".sock")
        try:
            self._look_at_status(self._ask(path))
        except UNUSABLE as error:
            self._add(
                NOTE,
                "unusable",
                str(unusable(path, error)).removeprefix(self.node.root),
                self._restart(),
            )
        except NoBridgeError as error:
            self._without_bridge(str(error).removeprefix(self.node.root))
        except AskError as error:
            if self._outside or self._launched:
                level = FAULT
            else:
                level = UNSEEN
            self._add(level, "hangs", f"the bridge does not answer: {error}", self._restart())

    def _ask(self, path: str) -> dict[str, Any]:
        """Return the status; of a bridge in another mount namespace by its own root directory."""
        try:
            return status(path)
        except NoBridgeError:
            below = path.removeprefix(self.node.root)
            for process in [process for process in self._outside if not process.is_here]:
                with contextlib.suppress(NoBridgeError):
                    return status(f"{self.node.root}/proc/{process.pid}/root{below}")
            raise

    def _look_at_status(self, document: dict[str, Any]) -> None:
        bridge = document["bridge"]
        self._log = str(document["log"]["to"] or "")
        self._pod = str(document["ownPod"] or "")
        self._look_at_cpu(str(bridge["pid"]))
        self._add(
            OK,
            "answers",
            f"process {bridge['pid']} is v1bridge {bridge['version']}: {bridge['state']}",
        )
        if (bridge["version"], bridge["commit"] or "") != (__version__, __commit__):
            text = (
                f"it is v1bridge {bridge['version']} (commit {bridge['commit'] or 'unknown'}), "
                "and this is nri"
            )
            self._add(
                NOTE,
                "old-bridge",
                f"{text} {describe()}: it was not restarted since",
                self._restart(),
            )
        verdict = judge(document)
        for text in verdict.causes if verdict.code != WELL else ():
            if self._is_explained(text):
                self._add(NOTE, "degraded", text)
            elif bridge["state"] != CONNECTED:
                self._add(
                    FAULT,
                    "not-connected",
                    f"process {bridge['pid']}: {text}",
                    "the log has the reason",
                )
            else:
                self._add(
                    FAULT,
                    "degraded",
                    text,
                    "nri status; nri status --pod NAMESPACE/NAME shows its error",
                )
        if bridge["state"] == CONNECTED and not document["runtime"]["synchronized"]:
            text = (
                "the runtime has not said what exists: what started before this bridge may run "
                "without its plugins"
            )
            self._add(NOTE, "not-synchronized", text, "start these containers anew")
        if without := {entry["id"] for entry in document["withoutPlugins"]}:
            text = f"{len(without)} pods and containers run without their plugins, or without one of them"
            self._add(NOTE, "without", text, "nri status names them; start them anew")

    def _is_explained(self, cause: str) -> bool:
        """Return whether a fault that was found already is why the bridge is not well for this cause."""
        codes = {finding.code for finding in self.findings if finding.level == FAULT}
        if cause.startswith("the configuration is not valid"):
            return "invalid" in codes
        if "is writable by others" in cause or "is another user's" in cause:
            return "not-roots" in codes
        words = cause.replace(":", " ").split()
        return any(type_ in words for type_ in self._faulty)

    def _without_bridge(self, why: str) -> None:
        launching = [
            engine for engine in self._engines if engine.serves and engine.pid and engine.nri
        ]
        run = os.path.dirname(self._options.record_dir)
        if {run, os.path.dirname(run)} & set(self._not_roots):
            self._add(
                NOTE,
                "no-socket-there",
                f"no bridge makes its socket below {run}, which others can change: {why}",
            )
        elif self._outside:
            text = f"process {self._outside[0].pid} is a bridge, and {why}"
            self._add(FAULT, "not-answering", text, self._restart())
        elif self.node.mode(WANTED):
            self._add(
                FAULT,
                "not-running",
                f"{SERVICE} is enabled, and no bridge runs: {why}",
                self._restart(),
            )
        elif self._launched and launching:
            text = (
                f"{launching[0].about} should have launched {self._launched[0]}, and no bridge "
                f"answers: {why}"
            )
            self._add(FAULT, "not-running", text, launching[0].restart)
        else:
            self._add(OK, "none", "no bridge runs")

    def _restart(self) -> str:
        if self._launched and not self._outside:
            return next(
                (engine.restart for engine in self._engines if engine.serves), "restart the runtime"
            )
        return self._kubectl("delete pod") or f"systemctl restart {SERVICE}"

    def _kubectl(self, verb: str) -> str:
        """Return a command about the bridge's pod; "" if it runs in none."""
        namespace, _, pod = self._pod.partition("/")
        if not pod and not any(
            "kubepods" in self._text(f"/proc/{bridge.pid}/cgroup") for bridge in self._outside
        ):
            return ""
        namespace = namespace or "kube-system"
        which = f"POD, which is this node's: kubectl -n {namespace} get pods {SELECTOR} -o wide"
        return f"kubectl -n {namespace} {verb} {pod or which}"

    def _look_at_cpu(self, pid: str) -> None:
        """Find out whether a limit stops the bridge, which every pod start waits for."""
        mount = Mounts.parse(self._text("/proc/self/mountinfo")).serving("cpu")
        lines = [
            line.split(":", 2)
            for line in self._text(f"/proc/{pid}/cgroup").splitlines()
            if line.count(":") > 1
        ]
        path = next(
            (path for _, names, path in lines if names == "" or "cpu" in names.split(",")), ""
        )
        if mount is not None and path:
            below = mount.below_host(path)
        else:
            below = None
        if mount is None or below is None:
            return
        stat_ = dict(
            re.findall(r"^(\w+) (\d+)$", self._text(f"{mount.point}{below}/cpu.stat"), re.MULTILINE)
        )
        periods, throttled = (int(stat_.get(key, 0)) for key in ("nr_periods", "nr_throttled"))
        if throttled * 10 >= periods > 0:
            text = (
                f"a CPU limit has stopped the bridge in {throttled * 100 // periods} % of its "
                f"periods: {path}"
            )
            self._add(
                FAULT,
                "no-cpu",
                f"{text}; each pod start waits for it",
                "remove the CPU limit of its pod or unit",
            )

    def files(self) -> None:
        """Users that can change programs of root, and file systems that forbid what is needed."""
        options = self._options
        node = self.node
        programs = [*options.bin_dirs, PLUGIN_DIR]
        directories = ["/etc/nri", "/opt/nri", options.conf_dir, PLUGIN_CONF_DIR, *programs]
        run = os.path.dirname(options.record_dir)
        paths = [*directories, CONTAINERD_CONF_FILE, RUNTIME_OPTIONS_FILE, OUTSIDE_OPTIONS, run]
        for directory in directories[2:]:
            names = node.names(directory)[:MAX_NAMES]
            paths += [f"{directory}/{name}" for name in names if not name.startswith(".")]
        for path in dict.fromkeys(paths):
            self._judge(path, is_program=os.path.dirname(path) in programs)
        for directory in programs:
            system = node.file_system(directory)
            if system and system.f_flag & os.ST_NOEXEC:
                text = f"{directory} is mounted noexec: nothing in it can run"
                fix = f"mount -o remount,exec its file system; findmnt -T {directory}"
                self._add(FAULT, "noexec", text, fix)
        self._look_at_space(run)
        if all(finding.subject != self.findings.subject for finding in self.findings):
            self._add(OK, "trusted", "only root can change what runs here")

    def _look_at_space(self, run: str) -> None:
        """Look at the file system of the record."""
        system = self.node.file_system(run)
        if not system:
            return
        means = "the bridge can't keep its record, so a restart runs create again"
        left = [system.f_bavail]
        if system.f_files:
            left.append(system.f_favail)
        if system.f_flag & os.ST_RDONLY:
            fix = f"mount -o remount,rw its file system; findmnt -T {run}"
            self._add(FAULT, "read-only", f"{run} is read-only: {means}", fix)
        elif system.f_blocks and 0 in left:
            self._add(FAULT, "full", f"{run} is full: {means}", f"df {run}; remove what fills it")

    def _judge(self, path: str, *, is_program: bool) -> None:
        here = self.node.root + path
        try:
            end, named_in = trust.follow(here)
            judged = {place: os.stat(place) for place in (end, *named_in, os.path.dirname(end))}
        except FileNotFoundError:
            if os.path.islink(here):
                text = f"{path} is a link to a file that does not exist"
                self._add(FAULT, "dangling", text, f"install it again, or rm {path}")
            return
        for place, at_place in judged.items():
            if wrong := trust.judge(at_place):
                name = place.removeprefix(self.node.root) or "/"
                is_executable = is_program or stat.S_ISDIR(at_place.st_mode)
                fix = f"chown root:root {name}; chmod {'0755' if is_executable else '0644'} {name}"
                self._not_roots.append(name)
                self._add(FAULT, "not-roots", f"{name} {wrong}: it is not used", fix)

    def _is_of_owner(self, fault: Fault) -> bool:
        """Return whether a fault has a cause that has its finding."""
        root = self.node.root
        return any(
            f"{root}{name}" == fault.file or f"{root}{name} " in fault.message
            for name in self._not_roots
        )

    def last_lines(self) -> None:
        """The end of the bridge's log."""
        own = self._log or self._options.log_file or f"{DIRECTORY}/v1bridge.log"
        places = [own] if own.startswith("/") else []
        if not self._log.startswith("/"):
            places += ["the journal", "/var/log/syslog", "/var/log/messages"]
        for where in places:
            try:
                lines = self._lines_of(where, is_own=where == own)[-LINES:]
            except FileNotFoundError:
                continue
            except OSError as error:
                self._add(UNSEEN, "log", reason(error))
                continue
            if lines:
                self._add(OK, "lines", f"the last {len(lines)} lines of {where}")
                self.log = [
                    escape(shorten(without_secrets(line.replace("\t", " ")), MAX_LINE))
                    for line in lines
                ]
                break
        else:
            self._add(
                NOTE,
                "no-lines",
                f"no line of {IDENTIFIER} in {', '.join(places)}",
                self._kubectl("logs -c bridge"),
            )

    def _lines_of(self, where: str, *, is_own: bool) -> list[str]:
        if where == "the journal":
            text = self.node.run(
                "journalctl", "-t", IDENTIFIER, "-n", str(LINES), "--no-pager", "-q"
            )
        else:
            text = self.node.end(where)
        return [
            line for line in text.splitlines() if line.strip() and (is_own or IDENTIFIER in line)
        ]

    def _text(self, path: str) -> str:
        try:
            return self.node.read(path)
        except OSError:
            return ""


def _is_bridge(process: Process) -> bool:
    """Return whether a process is ``nri bridge``, or a ``v1bridge`` that a runtime did not launch as NN-v1bridge."""
    words = [os.path.basename(word) for word in process.arguments[:6]]
    if process.name == watchdog.NAME or "--help" in process.arguments:
        return False
    if words[0] == "nri" or words[0].startswith("python"):
        return "nri" in words and words[words.index("nri") + 1 :][:1] == ["bridge"]
    return words[0] == "v1bridge"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
