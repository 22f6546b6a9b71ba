"""Looks at all subjects, one after the other. A subject that fails or hangs costs only its own findings."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from nri.doctor import (
    bridge_status,
    bridges,
    cgroup_setup,
    containerd,
    crio,
    engines,
    host_configuration,
    other_engines,
    owners,
    recent_log,
    versions,
    ways,
)
from nri.doctor.finding import FAULT, Findings, NodeFinding
from nri.doctor.node import Node
from nri.v1bridge.options import BridgeOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.config.entries import PluginEntry
    from nri.doctor.engines import Engine
    from nri.doctor.other_engines import Configured
    from nri.doctor.settings import Settings
    from nri.doctor.ways import Plugins

_T = TypeVar("_T")

SUBJECT_WITHIN = 60.0
"""Seconds that one subject has, more than its programs have together: only a file system that hangs takes longer."""


class Examination:
    """The result.

    :ivar findings: of all subjects, in the order of the report.
    :ivar log: the last lines of the bridge's log.
    :ivar hangs: subjects that were not done in time; their threads still run.
    """

    def __init__(self) -> None:
        self.findings: list[NodeFinding] = []
        self.log: list[str] = []
        self.hangs: list[str] = []

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not any(finding.level == FAULT for finding in self.findings)


class _Subjects:
    """Runs the subjects."""

    def __init__(self, within: float, on_subject: Callable[[str], None]) -> None:
        self.result = Examination()
        self._within, self._on_subject = within, on_subject

    def plain(self, subject: str, look: Callable[[], Findings]) -> None:
        """Run a subject that has nothing for the others."""
        self.subject(subject, lambda: (None, look()), None)

    def subject(self, subject: str, look: Callable[[], tuple[_T, Findings]], default: _T) -> _T:
        """Run a subject; return what it has for the others."""
        self._on_subject(subject)
        done: list[tuple[_T, Findings]] = []
        failed: list[str] = []

        def run() -> None:
            try:
                done.append(look())
            except Exception as error:  # whatever the node has: the other subjects count
                failed.append(f"{type(error).__name__} in {_place(error)}")

        thread = threading.Thread(target=run, name=f"doctor: {subject}", daemon=True)
        thread.start()
        thread.join(self._within)
        if done:
            self.result.findings += done[0][1]
            return done[0][0]
        if failed:
            text = f"nri doctor failed here: {failed[0]}"
            self.result.findings.append(_unseen(subject, "failed", text, "please report this as a bug"))
        else:
            self.result.hangs.append(subject)
            text = f"not done within {self._within:g} s: a file or directory hangs"
            self.result.findings.append(_unseen(subject, "hangs", text))
        return default


def _settings(
    look: Callable[[Node, Engine], tuple[Settings, Findings]], node: Node, engine: Engine
) -> tuple[list[Settings], Findings]:
    settings, found = look(node, engine)
    return [settings], found


def _unseen(subject: str, code: str, text: str, mend: str = "") -> NodeFinding:
    found = Findings(subject)
    found.unseen(code, text, mend)
    return found[0]


def _place(error: BaseException) -> str:
    """Return the module and line where an error arose. Its text may quote a file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace is not None else "an unknown place"
    )


def examine(
    node: Node,
    check: Callable[[BridgeOptions], Callable[[PluginEntry], host_configuration.PluginCheck]] | None = None,
    *,
    within: float = SUBJECT_WITHIN,
    on_subject: Callable[[str], None] = lambda _: None,
) -> Examination:
    """Return all findings about a node.

    :param check: returns a function that asks a plugin, for the options of the bridge. Without it no plugin is run.
    :param within: seconds that one subject has.
    :param on_subject: is called with each subject before it is looked at.
    """
    run = _Subjects(within, on_subject)
    run.plain(versions.SUBJECT, lambda: versions.findings(node))
    nothing: Any = engines.Engines([], None)
    found = run.subject(engines.SUBJECT, lambda: engines.look(node), nothing)
    settings: list[Settings] = []
    for name, module in (("containerd", containerd), ("CRI-O", crio)):
        for engine in found.in_use(name):
            settings += run.subject(name, functools.partial(_settings, module.look, node, engine), [])
    no_engines: list[Configured] = []
    configured = run.subject(other_engines.SUBJECT, lambda: other_engines.look(node, found), no_engines)
    none = bridges.Bridges([], [], False, BridgeOptions(), is_unseen=True)
    bridge = run.subject(bridges.SUBJECT, lambda: bridges.look(node, settings, found.processes), none)
    asks = check(bridge.options) if check is not None else None
    no_plugins: Plugins | None = None
    plugins = run.subject(
        host_configuration.SUBJECT, lambda: host_configuration.look(node, bridge.options, asks), no_plugins
    )
    run.plain(ways.SUBJECT, lambda: ways.findings(node, settings, configured, bridge, plugins))
    log_to = run.subject(bridge_status.SUBJECT, lambda: bridge_status.look(node, bridge, settings), "")
    run.plain(cgroup_setup.SUBJECT, lambda: cgroup_setup.findings(node, found, settings))
    more = (bridge.options.conf_dir, *bridge.options.bin_dirs)
    run.plain(owners.SUBJECT, lambda: owners.findings(node, more))
    log_file = bridge.options.log_file or recent_log.file_in(log_to)
    no_lines: list[str] = []
    run.result.log = run.subject(recent_log.SUBJECT, lambda: recent_log.look(node, log_file), no_lines)
    return run.result
