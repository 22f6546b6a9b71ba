"""What the bridge says of itself on its status socket; without an answer, what its state file says."""

from __future__ import annotations

from typing import Any

from nri.doctor.bridges import SERVICE, Bridges
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.redaction import without_values
from nri.doctor.settings import Settings
from nri.places import beside
from nri.status import AskError, NoBridgeError, shape, status

SUBJECT = "status of the bridge"


def look(node: Node, bridges: Bridges, all_settings: list[Settings]) -> tuple[str, Findings]:
    """Return where the bridge logs to, "" if that is not known, and the findings of this subject."""
    found = Findings(SUBJECT)
    if not node.is_own:
        found.unseen("not-asked", "a bridge of another root is not asked")
        return "", found
    try:
        document = status(beside(bridges.record_file, ".sock"))
    except AskError as error:
        _without(node, bridges, all_settings, error, found)
        return "", found
    _bridge(document, found)
    _configuration(document["configuration"], found)
    for plugin in document["plugins"]:
        _plugin(plugin, found)
    late = document["lateCreates"]
    if late["failed"]:
        text = f"{late['failed']} late creates failed: these containers run without their plugins"
        found.note("late", text, "start them anew")
    if document["log"]["lost"]:
        found.note("lost", f"the log has lost {document['log']['lost']} lines")
    return document["log"]["to"] or "", found


def _without(node: Node, bridges: Bridges, all_settings: list[Settings], error: AskError, found: Findings) -> None:
    """Add what can be said of a bridge that does not answer."""
    socket = beside(bridges.record_file, ".sock")
    line = f"no bridge answers: {error}"
    if not isinstance(error, NoBridgeError) or _is_hidden(node, socket):
        found.unseen("not-answering", str(error))
        return
    if bridges.outside:
        text = f"{line}, but process {bridges.outside[0].pid} is a bridge"
        found.fault("not-connected", text, f"journalctl -u {SERVICE} says why")
    elif bridges.is_enabled:
        found.fault("not-running", f"{SERVICE} is enabled, and {line}", f"systemctl start {SERVICE}")
    elif bridges.launched and (serving := [each for each in all_settings if each.serves and each.engine.process]):
        if serving[0].enabled is not False:
            text = f"{line}, but {serving[0].about} launches {bridges.launched[0]}"
            found.fault("not-running", text, serving[0].restart)
    else:
        found.ok("none", "no bridge runs")


def _is_hidden(node: Node, path: str) -> bool:
    """Return whether a file may exist where we can't look."""
    try:
        node.status(path)
    except LookError as error:
        return not error.is_absent
    return False


def _bridge(document: dict[str, Any], found: Findings) -> None:
    bridge, runtime = document["bridge"], document["runtime"]
    about = f"v1bridge {bridge['version']} (commit {bridge['commit'] or 'unknown'}), process {bridge['pid']}"
    if bridge["state"] == shape.CONNECTED:
        nri = f", NRI {runtime['nri']}" if runtime["nri"] else ""
        found.ok("connected", f"{about}, connected to {runtime['name']} {runtime['version']}{nri}")
    else:
        text = f"{about}: it is {bridge['state']}: no runtime accepts it"
        found.fault("not-connected", text, "the log has the reason; is NRI on?")


def _configuration(configuration: dict[str, Any], found: Findings) -> None:
    if configuration["valid"] is False:
        for fault in configuration["faults"][:20]:
            text = f"the bridge refuses its configuration: {without_values(fault)}"
            found.fault("configuration", text, "correct the file; `nri check` shows what was found")


def _plugin(plugin: dict[str, Any], found: Findings) -> None:
    name = f"{plugin['type']} ({plugin['source']})"
    good = sum(counts[shape.OK] for counts in plugin["runs"].values())
    bad = sum(counts[shape.ERROR] + counts[shape.KILLED] for counts in plugin["runs"].values())
    if plugin["problem"]:
        found.fault("plugin-missing", f"{name}: {plugin['problem']}", "nri check")
        return
    text = f"{name}: {good} runs succeeded, {bad} failed"
    last = plugin["lastError"]
    if bad and last:
        text += f", the last one for the {last['state']} of {last['pod'] or 'a pod that is not known'}"
    if bad and plugin["last"] not in (None, shape.OK):
        found.fault("plugin-fails", text, "nri status --pod NAMESPACE/NAME shows its error, and so does the log")
    elif bad:
        found.note("plugin-failed", text)
    else:
        found.ok("plugin", text)
    resident = plugin["resident"]
    if resident is not None and resident["state"] == "failed":
        text = f"{name} is started for each request: {resident['reason'] or 'for an unknown reason'}"
        found.note("not-resident", text)
