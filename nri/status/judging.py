"""Judges a status: is the bridge of a node well, and if not, why.

The judgement is of the moment: after the next valid configuration, attempt or run a fault is no longer a reason.
Counters never go down while a bridge runs, so they are judged only against thresholds that the caller sets.
"""

from __future__ import annotations

from nri.errors import bounded, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OUTCOMES = ("ok", "error", "killed", "ignored")
"""The outcomes of a plugin's run, as the bridge writes them (:mod:`nri.client.chain`)."""

OK, ERROR, KILLED, IGNORED = OUTCOMES

CONNECTED = "connected"
"""The state of a bridge that has a runtime; otherwise it is ``connecting``."""

WELL, DEGRADED, NO_BRIDGE = 0, 1, 2
"""The codes of a verdict; exit statuses of ``nri status --check``."""

MAX_LINE = 1024
"""Bytes of a verdict's line: as many as Kubernetes shows of a probe's output."""

HANGS_AFTER = 10.0
"""Seconds that an event may take beyond its time: the bridge answers before that, whatever a plugin does."""

FEW = 20
"""Runs or events that are too few for a rate: one failure of two is no rate of 50 %."""

THRESHOLDS = {
    "max_error_rate": ("PERCENT", 100, "Degraded if more of a plugin's runs have failed since the bridge started."),
    "max_near_deadline": ("PERCENT", 100, "Degraded if more of the events of one kind took over half of their time."),
    "max_late": ("COUNT", 10**9, "Degraded if more events were answered after their deadline."),
}
"""By threshold: the word for its value, the largest value, and the help of its option."""


class Thresholds:
    """Bounds of counters; None for a counter that is not judged.

    :ivar max_error_rate: per cent of a plugin's runs that may have failed, be it ignored.
    :ivar max_near_deadline: per cent of the events of one kind that may have taken more than half of their time.
    :ivar max_late: events that may have been answered late.
    """

    __slots__ = tuple(THRESHOLDS)

    max_error_rate: float | None
    max_near_deadline: float | None
    max_late: float | None

    def __init__(self, **bounds: float | None) -> None:
        for name in THRESHOLDS:
            setattr(self, name, bounds.get(name))


class Verdict:
    """What a probe says.

    :ivar code: :data:`WELL`, :data:`DEGRADED` or :data:`NO_BRIDGE`.
    :ivar reasons: why it is not well; a sentence of what is there if it is.
    """

    __slots__ = ("code", "reasons")

    def __init__(self, code: int, reasons: list[str]) -> None:
        self.code, self.reasons = code, reasons

    @property
    def word(self) -> str:
        """``well``, ``degraded`` or ``no bridge``."""
        return ("well", "degraded", "no bridge")[self.code]

    @property
    def line(self) -> str:
        """The verdict with its reasons, in one line that is fit for a terminal."""
        return bounded(escape(f"{self.word}: {'; '.join(self.reasons)}"), MAX_LINE)

    @property
    def faults(self) -> list[str]:
        """The reasons why it is not well."""
        return [] if self.code == WELL else self.reasons


def judge(document: dict[str, Any], thresholds: Thresholds | None = None) -> Verdict:
    """Return the verdict on a status as :func:`nri.status.client.status` returns it.

    Also on one where no bridge is expected, whose ``bridge`` is null: :mod:`nri.status.without_bridge`.
    """
    reasons = _of_bridge(document) + _of_configuration(document["configuration"])
    for plugin in document["plugins"]:
        reasons += _of_plugin(plugin)
    reasons += _of_counters(document, thresholds or Thresholds())
    return Verdict(DEGRADED, reasons) if reasons else Verdict(WELL, [_summary(document)])


def _of_bridge(document: dict[str, Any]) -> list[str]:
    bridge = document["bridge"]
    if bridge is not None and bridge["state"] != CONNECTED:
        return ["the bridge looks for its runtime"]
    return [hangs] if (hangs := why_it_hangs(document)) else []


def why_it_hangs(document: dict[str, Any]) -> str:
    """Return the event in which the bridge hangs, "" if it does not."""
    now = document["inProgress"]
    if now is not None and now["allowed"] is not None and now["seconds"] > now["allowed"] + HANGS_AFTER:
        return f"the bridge hangs: {now['event']} of {now['name']} has taken {now['seconds']:.0f} s"
    return ""


def _of_configuration(configuration: dict[str, Any]) -> list[str]:
    if configuration["valid"] is not False:
        return []
    faults = configuration["faults"]
    used = "the last valid one is in use" if configuration["since"] is not None else "no plugin can run"
    others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return [f"the configuration is not valid, {used}{': ' + faults[0] + others if faults else ''}"]


def _of_plugin(plugin: dict[str, Any]) -> list[str]:
    name, resident, error = plugin["type"], plugin["resident"], plugin["lastError"]
    reasons = []
    if plugin["problem"] is not None:
        reasons.append(f"{name}: {plugin['problem']}")
    if resident is not None and resident["state"] == "failed":
        reasons.append(f"{name}: started for each request: {resident['reason'] or 'no reason is known'}")
    failed = [state for state, outcome in (plugin["last"] or {}).items() if outcome != OK]
    if failed and plugin["problem"] is None:
        why = f": {error['error']}" if error is not None and error["error"] and error["state"] in failed else ""
        reasons.append(f"{name}: its last {' and '.join(failed)} failed{why}")
    return reasons


def _of_counters(document: dict[str, Any], thresholds: Thresholds) -> list[str]:
    reasons = []
    if (most := thresholds.max_error_rate) is not None:
        for plugin in document["plugins"]:
            every = sum([sum([runs[outcome] for outcome in OUTCOMES]) for runs in plugin["runs"].values()])
            failed = every - sum([runs[OK] for runs in plugin["runs"].values()])
            reasons += _rate(f"{plugin['type']}: {failed} of {every} runs failed", failed, every, most)
    if (most := thresholds.max_near_deadline) is not None:
        for event in document["events"]:
            near, every = event["nearDeadline"], event["answered"]
            text = f"{event['event']}: {near} of {every} took more than half of their time"
            reasons += _rate(text, near, every, most)
    if (most := thresholds.max_late) is not None:
        late = sum([event["late"] for event in document["events"]])
        if late > most:
            reasons.append(f"{late} events were answered late, expected at most {most:g}")
    return reasons


def _rate(text: str, part: int, every: int, most: float) -> list[str]:
    if every < FEW or part * 100 <= every * most:
        return []
    return [f"{text}, expected at most {most:g} %"]


def _summary(document: dict[str, Any]) -> str:
    count = len(document["plugins"])
    plugins = f"{count or 'no'} plugin{'s' if count != 1 else ''}"
    if document["bridge"] is None:
        return f"no bridge is expected; {plugins} configured"
    runtime = document["runtime"]
    return f"connected to {runtime['name'] or 'a runtime'} {runtime['version'] or ''}".rstrip() + f", {plugins}"
