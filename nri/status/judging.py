"""Judges a status: is the bridge of a node well, and if not, why.

The judgement is of the moment: a failed run is a reason until the plugin's next run of that state, or `nri check`. A
refusal is an answer of a plugin that works, and never a reason. Counters never go down while a bridge runs, so alerts
judge them (docs/monitoring.md).
"""

from __future__ import annotations

import os
import time

from nri.errors import bounded, escape
from nri.status import client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OUTCOMES = ("ok", "error", "killed", "ignored", "refused")
"""The outcomes of a plugin's run, as the bridge writes them (``nri.client.chain``)."""

WORKS = ("ok", "refused")
"""Those of a plugin that works."""

CONNECTED = "connected"
"""The state of a bridge that has a runtime; otherwise it is ``connecting``."""

WELL = 0
DEGRADED = 1
NO_BRIDGE = 2
"""The codes of a verdict; exit statuses of ``nri status --check``."""

MAX_LINE = 1024
"""Bytes of a verdict's line: as many as Kubernetes shows of a probe's output."""

HANGS_AFTER = 10.0
"""Seconds that an event may take beyond its time: the bridge answers before that, whatever a plugin does."""


class Verdict:
    """The answer of a probe.

    :ivar code: ``WELL``, ``DEGRADED`` or ``NO_BRIDGE``.
    :ivar reasons: why it is not well; a sentence of what is there if it is.
    :ivar causes: why a status is not well, without what plugins and files say, which may quote values.
    """

    __slots__ = ("causes", "code", "reasons")

    def __init__(self, code: int, reasons: list[str], causes: Sequence[str] = ()) -> None:
        self.code = code
        self.reasons = reasons
        self.causes = causes

    @property
    def word(self) -> str:
        """``well``, ``degraded`` or ``no bridge``."""
        return ("well", "degraded", "no bridge")[self.code]

    @property
    def line(self) -> str:
        """The verdict with its reasons, in one line that is fit for a terminal."""
        return bounded(escape(f"{self.word}: {'; '.join(self.reasons)}"), MAX_LINE)


def judge(document: dict[str, Any]) -> Verdict:
    """Return the verdict on a status as ``nri.status.client.status`` returns it."""
    reasons: list[tuple[str, str]] = []  # each cause with its details
    if document["bridge"]["state"] != CONNECTED:
        reasons.append(("the bridge looks for its runtime", ""))
    elif hangs := why_it_hangs(document):
        reasons.append((hangs, ""))
    reasons += _of_configuration(document["configuration"])
    for plugin in document["plugins"]:
        reasons += _of_plugin(plugin)
    reasons += _of_lacks(document["without"]["by"])
    for means, fault in (
        ("plugins would outlive the bridge: ", document["watchdog"]),
        ("", document["record"]["fault"]),
        (f"the log cannot be written to {document['log']['to']}: ", document["log"]["fault"]),
    ):
        if fault is not None:
            reasons.append((f"{means}{fault}", ""))
    if reasons:
        return Verdict(
            DEGRADED,
            [cause + details for cause, details in reasons],
            [cause for cause, _ in reasons],
        )
    runtime = document["runtime"]
    count = len(document["plugins"])
    name = f"{runtime['name'] or 'a runtime'} {runtime['version']}".rstrip()
    plugins = "1 plugin" if count == 1 else f"{count or 'no'} plugins"
    return Verdict(WELL, [f"connected to {name}, {plugins}"])


def why_it_hangs(document: dict[str, Any]) -> str:
    """Return the event in which the bridge hangs, "" if it does not."""
    now = document["inProgress"]
    if now is None or now["allowed"] is None:
        return ""
    if now["seconds"] > now["allowed"] + HANGS_AFTER:
        return f"the bridge hangs: {now['event']} of {now['name']} has taken {now['seconds']:.0f} s"
    return ""


def _of_configuration(configuration: dict[str, Any]) -> list[tuple[str, str]]:
    if not configuration["valid"]:
        faults = configuration["faults"]
        used = "the last valid one is in use"
        if configuration["since"] is None:
            used = "no plugin can run"
        if len(faults) > 1:
            others = f" (and {len(faults) - 1} more)"
        else:
            others = ""
        details = f": {faults[0]}{others}" if faults else ""
        return [(f"the configuration is not valid, {used}", details)]
    if configuration["missing"]:
        cause = "files of the configuration are missing, and still in use"
        return [(cause, f": {configuration['missing'][0]}")]
    return []


def _of_lacks(lacks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what pods and containers lack: a missed setup cannot be made up for, and waits for no one."""
    counts: dict[str, int] = {}
    for lack in lacks:
        if lack["cause"] == "refused" or lack["state"] not in ("create", "release"):
            continue
        cause = f"pods and containers without {missing(lack)}"
        if lack["state"] == "release":
            cause = f"pods and containers that {lack['plugin']} has not given back"
        counts[cause] = counts.get(cause, 0) + lack["count"]
    return [(f"{cause}: {count}", "") for cause, count in counts.items()]


def _of_plugin(plugin: dict[str, Any]) -> list[tuple[str, str]]:
    name = plugin["type"]
    if plugin["problem"] is not None:
        return [(f"{name}: {plugin['problem']}", "")]
    reasons = []
    for state, run in plugin["last"].items():
        if run["outcome"] not in WORKS:
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run["since"]))
            details = f": {run['error'] or 'no reason is known'}"
            reasons.append(
                (f"{name}: {state} has failed since {since}, last of {name_of(run)}", details)
            )
    return reasons


def missing(lack: dict[str, Any]) -> str:
    """Return what a pod or container lacks."""
    return lack["plugin"] or "any plugin"


def name_of(about: dict[str, Any]) -> str:
    """Return the name of the container that something is about, or of the pod if that is its sandbox."""
    if about["container"]:
        return f"{about['pod']}/{about['container']}"
    return str(about["pod"])


# ``nri status --check`` and ``--alive``, every few seconds on every node: so a valid command is parsed without click.


def run(words: Sequence[str]) -> int | None:
    """Print the verdict; return its code. None for any but a valid command line of a probe.

    :param words: those after ``nri status``.
    """
    words = [*words]
    path = client.DEFAULT_STATUS_SOCKET
    if "--socket" in words[:-1]:
        at = words.index("--socket")
        path = words.pop(at + 1)
        del words[at]
    if not path or words not in (["--check"], ["--alive"]):
        return None
    verdict = probe(path, is_alive=words[0] == "--alive")
    try:  # not print: the status counts, whatever the encoding or the end of stdout
        os.write(1, verdict.line.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass
    return verdict.code


def probe(path: str, *, is_alive: bool) -> Verdict:
    """Ask the bridge at a socket, and return the verdict.

    :param is_alive: ask only whether a bridge hangs: a restart helps against nothing else.
    """
    try:
        with client.Reading(path):
            document = client.status(path)
            if not is_alive:
                return judge(document)
            hangs = why_it_hangs(document)
            if hangs:
                return Verdict(DEGRADED, [hangs])
            return Verdict(WELL, ["the bridge answers"])
    except client.NoBridgeError as error:
        if is_alive:
            return Verdict(WELL, [f"no bridge, so none hangs: {error}"])
        return Verdict(NO_BRIDGE, [str(error)])
    except client.AskError as error:
        return Verdict(NO_BRIDGE, [str(error)])
