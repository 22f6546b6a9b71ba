"""The rules of ``nri doctor``: what is looked at, what is found, and what to do about it.

``nri check`` judges the configuration and the plugins, and ``nri status`` the bridge: these rules are about what lies
between them and the runtimes, and name the command that says more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from platform import python_version
from typing import Any, NamedTuple

from nri import __commit__, __version__
from nri.config import refused
from nri.config.loading import unread
from nri.doctor.facts import SERVICE, Facts
from nri.doctor.node import FAULT, NOTE, OK, UNSEEN, Findings, Node, reason, same_path
from nri.places import CONTAINERD_CONF_FILE, RUNTIME_OPTIONS_FILE
from nri.runc.options import load as load_runtime_options
from nri.v1bridge.options import BridgeOptions
from nri.version import describe

OTHER_WAY = (
    f"name the plugins in {CONTAINERD_CONF_FILE}, or use nri-runc: docs/podman-docker-crio.md"
)
"""The fix where the bridge cannot serve a runtime."""


class Rule(NamedTuple):
    """A rule.

    :ivar level: of its finding.
    :ivar code: of its finding, for programs.
    :ivar things: returns what is looked at.
    :ivar holds_for: returns whether the rule holds for a thing.
    :ivar text: what is found, with the thing as ``{0}``, and the facts as ``{1}``, as in the fix.
    :ivar fix: what to do, "" if nothing needs to be done.
    """

    level: str
    code: str
    things: Callable[[Facts], Iterable[Any]]
    holds_for: Callable[[Any], object]
    text: str
    fix: str = ""

    def add_to(self, facts: Facts) -> None:
        """Add a finding for each thing for which it holds."""
        for thing in self.things(facts):
            if self.holds_for(thing):
                text = self.text.format(thing, facts)
                facts.findings.add(self.level, self.code, text, self.fix.format(thing, facts))


class Subject(NamedTuple):
    """A heading of the page.

    :ivar look: adds to the facts, and what it cannot see to their findings.
    """

    name: str
    look: Callable[[Facts], None]
    rules: tuple[Rule, ...]


def _nothing(facts: Facts) -> None:
    """Look at nothing: the rules are about what the subjects before have seen."""


def _always(thing: object) -> bool:
    return True


# This machine

MACHINE = (
    Rule(OK, "nri", lambda _: [describe()], _always, f"nri {{0}}, Python {python_version()}"),
    Rule(OK, "kernel", lambda _: [os.uname()], _always, "{0.sysname} {0.release} {0.machine}"),
    Rule(
        UNSEEN,
        "not-root",
        lambda _: [os.geteuid()],
        lambda user: user != 0,
        "run as user {0}: processes and files of root are seen in part or not at all",
        "sudo nri doctor",
    ),
    Rule(
        OK,
        "cgroups",
        lambda facts: [facts.mounts.version],
        lambda version: version != "none",
        "cgroup {0}",
    ),
    Rule(
        FAULT,
        "no-cgroups",
        lambda facts: [facts.mounts.version],
        lambda version: version == "none",
        "no cgroup hierarchy with controllers is mounted: plugins find no cgroup",
        "run this command on the host; mount cgroups at /sys/fs/cgroup",
    ),
)


# The engines

ENGINES = (
    Rule(OK, "engine", lambda facts: facts.engines, _always, "{0.running}"),
    Rule(
        FAULT,
        "no-program",
        Facts.missing_programs,
        _always,
        "{0[1]}, which {0[0].file} names, does not exist: no container starts with it",
        "install it, or correct {0[0].file}",
    ),
    Rule(
        NOTE,
        "no-engine",
        lambda facts: [facts.engines],
        lambda engines: not engines,
        "found none of containerd, CRI-O, docker and podman",
    ),
)


# Between a runtime and the bridge

BRIDGE = (
    Rule(OK, "outside", lambda facts: facts.outside, _always, "process {0.pid} runs from outside"),
    Rule(
        OK,
        "launched",
        lambda facts: facts.files,
        lambda file: file.is_bridge,
        "{0.path} is launched by the runtime",
    ),
    Rule(
        FAULT,
        "plugin-name",
        lambda facts: facts.files,
        lambda file: file.fault == "plugin-name",
        "{0.path}: a name without two digits and a dash in front keeps containerd from starting",
        "move {0.path} away",
    ),
    Rule(
        FAULT,
        "not-executable",
        lambda facts: facts.files,
        lambda file: file.has_bridges_name and file.fault == "not-executable",
        "{0.path} is not an executable file",
        "chmod 0755 {0.path}",
    ),
    Rule(
        FAULT,
        "noexec",
        lambda facts: [path for path in facts.plugin_dirs() if facts.node.is_noexec(path)],
        _always,
        "{0} is mounted noexec: nothing in it can run",
        "mount -o remount,exec its file system; findmnt -T {0}",
    ),
    Rule(
        FAULT,
        "dangling",
        lambda facts: facts.files,
        lambda file: file.fault == "dangling",
        "{0.path} is a link to a file that does not exist",
        "install it again, or rm {0.path}",
    ),
    Rule(
        FAULT,
        "no-socket",
        Facts.listening,
        lambda listener: not listener.has_socket,
        "{0.engine.about} has NRI on, and {0.engine.socket} is no socket: it was not restarted since",
        "{0.engine.restart}",
    ),
    Rule(
        OK,
        "socket",
        Facts.listening,
        lambda listener: listener.has_socket,
        "{0.engine.about} has the socket {0.engine.socket}",
    ),
    Rule(
        FAULT,
        "other-socket",
        Facts.meetings,
        lambda meeting: same_path(meeting.wanted) != same_path(meeting.engine.socket),
        "process {0.process.pid} connects to {0.wanted}, and {0.engine.about} listens on {0.engine.socket}",
        "start the bridge with --socket {0.engine.socket}",
    ),
)


# Who can change them

OWNERS = (
    Rule(
        FAULT,
        "not-roots",
        lambda facts: facts.not_roots,
        _always,
        "{0.path} {0.wrong}: others decide what runs as root",
        "chown root:root {0.quoted}; chmod go-w {0.quoted}",
    ),
)


# The configuration


def _unread(facts: Facts) -> list[tuple[str, str]]:
    """Return each file that is in a wrong place, and what to do."""
    directory = facts.options.conf_dir
    is_standard = directory == BridgeOptions().conf_dir
    return unread(facts.node.root + directory, is_standard=is_standard)


def _refused(facts: Facts) -> list[tuple[str, str]]:
    """Return the directory that was refused last, and the file that says so."""
    last = refused.read(facts.node.root + facts.options.conf_dir)
    if last is None:
        return []
    return [(last.source or "source unknown", refused.path_of(facts.options.conf_dir))]


CONFIGURATION = (
    Rule(
        FAULT,
        "invalid",
        lambda facts: facts.configuration.faults,
        _always,
        "nri check finds a fault at {0}",
        "nri check says what was found and what is expected",
    ),
    Rule(NOTE, "unread", _unread, _always, "{0[0]}", "{0[1]}"),
    Rule(
        FAULT,
        "missing",
        lambda facts: facts.in_use.missing,
        _always,
        "{0} is missing, and still in use",
        'put it back; for no plugins write a file with "plugins": []; nri check says how long',
    ),
    Rule(
        FAULT,
        "refused-configuration",
        _refused,
        _always,
        "a configuration was refused, and an older one is in use: {0[0]}",
        "nri status shows its faults; correct them, and apply it again; or rm {0[1]}",
    ),
    Rule(
        FAULT,
        "runtime-options",
        lambda facts: [load_runtime_options(facts.node.root + RUNTIME_OPTIONS_FILE)],
        lambda options: options.fault,
        "{0.fault}",
        f"correct {RUNTIME_OPTIONS_FILE}",
    ),
)


# Which program runs the plugins: none, or two for the same containers


def _no_way(facts: Facts) -> list[str]:
    """Return a way for the plugins, if there are some, nothing runs them, and no fault says why."""
    is_run = any(ways.sentences for ways in facts.ways())
    is_well = facts.is_whole and facts.findings.is_well
    if is_run or not is_well or not facts.configuration.types:
        return []
    if not facts.runtimes:
        return ["choose a way: docs/install.md"]
    engine = facts.runtimes[0]  # not a native one, whose plugins run, or are not read
    directory = engine.plugin_dir
    link = f"mkdir -p {directory}; ln -s /opt/nri/lib/v1bridge {directory}/10-v1bridge"
    return [f"{link}; {engine.restart}"]


WAYS = (
    Rule(
        NOTE,
        "nri-off",
        Facts.serving,
        lambda serving: serving.obstacle == "" and serving.engine.nri is False,
        "{0.engine.about}: NRI is off",
        "{0.engine.switch_on}",
    ),
    Rule(
        FAULT,
        "no-v2",
        Facts.serving,
        lambda serving: serving.obstacle == "no-v2",
        "{0.engine.about} has no NRI v2, so the bridge can't serve it",
        OTHER_WAY,
    ),
    Rule(
        FAULT,
        "nri-off",
        Facts.serving,
        lambda serving: serving.obstacle == "nri-off",
        "{0.engine.about}: NRI is off, so no bridge can serve it",
        "{0.engine.switch_on}",
    ),
    Rule(
        FAULT,
        "two-bridges",
        Facts.serving,
        lambda serving: serving.obstacle == "two-bridges",
        "{0.engine.about} launches {0.launched}, and {0.outside} runs from outside: one of them is too many",
        f"systemctl disable --now {SERVICE}, or delete its DaemonSet; "
        "or rm {0.launched}, then {0.engine.restart}",
    ),
    Rule(
        FAULT,
        "connections-off",
        Facts.serving,
        lambda serving: serving.obstacle == "connections-off",
        "{0.engine.about} accepts no connections, so a bridge from outside can't serve it",
        "set disable_connections (nri_disable_connections in CRI-O) to false in {0.engine.file}; {0.engine.restart}",
    ),
    Rule(
        FAULT,
        "twice",
        Facts.ways,
        lambda ways: len(ways.ours) > 1,
        "{0.engine.about}: {0.listed} run every plugin twice",
        "{0.fewer}",
    ),
    Rule(
        FAULT,
        "twice",
        Facts.ways,
        lambda ways: ways.again,
        f"{{0.again}} run twice for each pod: {{0.engine.about}} itself runs those of {CONTAINERD_CONF_FILE}",
        f"move them to {{0.conf_dir}}, if they are not there; rm {CONTAINERD_CONF_FILE}",
    ),
    Rule(
        FAULT,
        "directory-unread",
        Facts.without_directory,
        _always,
        "{0.about} reads no directory: the plugins in it never run",
        OTHER_WAY,
    ),
    Rule(
        OK,
        "way",
        lambda facts: [sentence for ways in facts.ways() for sentence in ways.sentences],
        _always,
        "{0}",
    ),
    Rule(
        NOTE,
        "no-plugins",
        lambda facts: [facts.configuration],
        lambda configuration: not (configuration.faults or configuration.types),
        "no plugin is configured",
    ),
    Rule(
        FAULT,
        "no-way",
        _no_way,
        _always,
        "plugins are configured, and nothing runs them",
        "{0}",
    ),
)


# The bridge


def _silence(facts: Facts) -> list[Facts]:
    """Return the facts, if they are all there, and no bridge has answered."""
    return [facts] if facts.silence and facts.is_whole else []


def _should_answer(facts: Facts) -> bool:
    """Return whether a bridge should answer: none makes its socket where others can change it, which is found."""
    run = os.path.dirname(facts.options.record_dir)
    places = {place.path for place in facts.not_roots}
    return facts.is_expected and places.isdisjoint((run, os.path.dirname(run)))


STATUS = (
    Rule(
        OK,
        "answers",
        lambda facts: facts.answers,
        _always,
        "process {0.pid} is v1bridge {0.version}: {0.state}",
    ),
    Rule(
        NOTE,
        "old-bridge",
        lambda facts: facts.answers,
        lambda answer: answer.build != (__version__, __commit__ or "unknown"),
        "it is v1bridge {0.version} (commit {0.commit}), "
        f"and this is nri {describe()}: it was not restarted since",
        "{1.restart}",
    ),
    Rule(
        FAULT,
        "degraded",
        lambda facts: [cause for answer in facts.answers for cause in answer.causes],
        _always,
        "{0}",
        "nri status shows more; nri status --pod NAMESPACE/NAME, a pod's",
    ),
    Rule(
        NOTE,
        "unusable",
        lambda facts: facts.answers,
        lambda answer: answer.fault,
        "its answer is not that of this build ({0.fault})",
        "{1.restart}",
    ),
    Rule(
        FAULT,
        "no-cpu",
        lambda facts: [facts.throttling(answer) for answer in facts.answers],
        lambda throttling: throttling.percent >= 10,
        "a CPU limit has stopped the bridge in {0.percent} % of its periods: {0.cgroup}; each pod start waits for it",
        "remove the CPU limit of its pod or unit",
    ),
    Rule(
        FAULT,
        "not-answering",
        _silence,
        _should_answer,
        "a bridge should be running, and does not answer: {0.silence}",
        "{0.restart}",
    ),
    Rule(
        OK,
        "none",
        _silence,
        lambda facts: not facts.is_expected,
        "no bridge runs",
    ),
    Rule(OK, "log", lambda facts: [facts.log_command], _always, "the last lines of its log: {0}"),
)


SUBJECTS = (
    Subject("versions", _nothing, MACHINE),
    Subject("engines", Facts.look_at_engines, ENGINES),
    Subject("bridge", Facts.look_at_plugin_files, BRIDGE),
    Subject("options of the bridge", Facts.look_at_options, ()),
    Subject("owners", Facts.look_at_owners, OWNERS),
    Subject("configuration", Facts.look_at_configuration, CONFIGURATION),
    Subject("what runs the plugins", _nothing, WAYS),
    Subject("status of the bridge", Facts.look_at_status, STATUS),
)


def examine(node: Node) -> Findings:
    """Return all findings about a node."""
    findings = Findings()
    findings.root = node.root
    facts = Facts(node, findings)
    for subject in SUBJECTS:
        findings.subject = subject.name
        try:
            subject.look(facts)
            for rule in subject.rules:
                rule.add_to(facts)
        except OSError as error:  # the other subjects count
            facts.is_whole = False
            findings.add(UNSEEN, "unseen", reason(error))
        except Exception as error:  # without the text of a bug, which may quote a file
            facts.is_whole = False
            text = f"nri doctor failed here: {type(error).__name__}"
            findings.add(UNSEEN, "failed", text, "please report this as a bug")
    return findings
