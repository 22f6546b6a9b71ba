"""The shape of the documents of docs/status.md, as tables of rules. A reader may index a document that has it.

A key may be added by a later bridge, so keys that are not in a table are passed over. A rule is a function of a value
and its place, which returns the first fault or "".
"""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Rule = Callable[[Any, str], str]

OUTCOMES = ("ok", "error", "killed", "passedOver")
"""The outcomes of a plugin's run, as the bridge writes them (:mod:`nri.client.chain`)."""

OK, ERROR, KILLED, PASSED_OVER = OUTCOMES

CONNECTED = "connected"
"""The state of a bridge that has a runtime; otherwise it is ``connecting``."""

MAX_TIME = 253402300799
"""Seconds since 1970 until the end of the year 9999: what can be written as a date."""

MAX_NUMBER = 2**63


def text(value: Any, where: str) -> str:
    """A string."""
    return "" if isinstance(value, str) else _fault(value, where, "a string")


def flag(value: Any, where: str) -> str:
    """A truth value."""
    return "" if isinstance(value, bool) else _fault(value, where, "true or false")


def count(value: Any, where: str) -> str:
    """An integer from 0."""
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER
    return "" if right else _fault(value, where, "an integer from 0")


def seconds(value: Any, where: str) -> str:
    """A number from 0: a duration, or a sum of durations."""
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER
    return "" if right else _fault(value, where, "a number from 0")


def moment(value: Any, where: str) -> str:
    """Seconds since 1970."""
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_TIME
    return "" if right else _fault(value, where, "seconds since 1970")


def anything(value: Any, where: str) -> str:
    """Any value."""
    return ""


def or_null(rule: Rule) -> Rule:
    """The rule, or null for a value that is not known."""
    return lambda value, where: "" if value is None else rule(value, where)


def array(rule: Rule) -> Rule:
    """An array of such values."""

    def check(value: Any, where: str) -> str:
        if not isinstance(value, list):
            return _fault(value, where, "an array")
        return next((wrong for i, item in enumerate(value) if (wrong := rule(item, f"{where}[{i}]"))), "")

    return check


def mapping(rule: Rule) -> Rule:
    """An object with any keys and such values."""

    def check(value: Any, where: str) -> str:
        if not isinstance(value, dict):
            return _fault(value, where, "an object")
        return next((wrong for key, item in value.items() if (wrong := rule(item, f"{where}.{key}"))), "")

    return check


def record(**keys: Rule) -> Rule:
    """An object that has these keys."""

    def check(value: Any, where: str) -> str:
        if not isinstance(value, dict):
            return _fault(value, where, "an object")
        for key, rule in keys.items():
            place = f"{where}.{key}".lstrip(".")
            if key not in value:
                return f"{place}: missing"
            if wrong := rule(value[key], place):
                return wrong
        return ""

    return check


def histogram(value: Any, where: str) -> str:
    """Bounds that ascend, with a count for each and one for what is above them."""
    if wrong := _HISTOGRAM(value, where):
        return wrong
    bounds, counts = value["bounds"], value["counts"]
    if any(low >= high for low, high in pairwise(bounds)):
        return f"{where}.bounds: they do not ascend"
    if len(counts) != len(bounds) + 1:
        return f"{where}.counts: found {len(counts)}, expected {len(bounds) + 1}: one more than bounds"
    return ""


def _fault(value: Any, where: str, expected: str) -> str:
    found = "null" if value is None else type(value).__name__
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = f"{value:.17g}" if isinstance(value, float) or abs(value) < MAX_NUMBER else "a large number"
    return f"{where[:200] or 'it'}: found {found}, expected {expected}"


_HISTOGRAM = record(bounds=array(seconds), counts=array(count), sum=seconds)

_CONFIGURATION = record(
    files=array(text),
    hash=or_null(text),
    valid=or_null(flag),
    faults=array(text),
    since=or_null(moment),
    rejectedSince=or_null(moment),
)

_PLUGIN = record(
    type=text,
    source=text,
    index=count,
    states=array(text),
    timeout=or_null(seconds),
    failurePolicy=or_null(text),
    binary=or_null(text),
    problem=or_null(text),
    build=or_null(text),
    resident=record(state=text, reason=or_null(text)),
    runs=mapping(record(**dict.fromkeys(OUTCOMES, count))),
    seconds=histogram,
    last=or_null(text),
    lastError=or_null(
        record(time=moment, state=text, pod=or_null(text), container=or_null(text), error=or_null(text))
    ),
)

_EVENT = record(
    event=text, answered=count, errors=count, late=count, seconds=histogram, waiting=histogram, nearDeadline=count
)

STATUS = record(
    time=moment,
    bridge=record(
        version=text,
        commit=or_null(text),
        date=or_null(text),
        pid=count,
        started=moment,
        state=text,
        options=mapping(anything),
    ),
    runtime=record(
        name=or_null(text),
        version=or_null(text),
        nri=or_null(text),
        since=or_null(moment),
        connections=or_null(count),
    ),
    configuration=_CONFIGURATION,
    plugins=array(_PLUGIN),
    events=array(_EVENT),
    lateCreates=record(waiting=count, running=count, succeeded=count, failed=count),
    withoutPlugins=array(
        record(id=text, pod=text, container=or_null(text), plugin=or_null(text), since=moment, why=text)
    ),
    inProgress=or_null(record(event=text, name=text, seconds=seconds, allowed=or_null(seconds))),
    log=record(to=or_null(text), lost=count),
)
"""The answer to ``{"get": "status"}``."""

EXCHANGES = record(
    namespace=text,
    name=text,
    exchanges=array(
        record(
            time=moment,
            state=text,
            event=or_null(text),
            id=text,
            container=or_null(text),
            late=flag,
            seconds=seconds,
            error=or_null(text),
            plugins=array(
                record(
                    plugin=text,
                    binary=or_null(text),
                    seconds=or_null(seconds),
                    outcome=text,
                    request=or_null(text),
                    result=or_null(text),
                    error=or_null(text),
                )
            ),
        )
    ),
    forgotten=count,
)
"""The answer to ``{"get": "pod", …}``."""
