"""The status of a bridge as a page for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.errors import escape
from nri.status.judging import CONNECTED, OUTCOMES, WELL, Verdict
from nri.status.layout import date, labelled, number, quantile, since, table, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FAULTS, MAX_FILES, MAX_WITHOUT = 10, 5, 20
"""Faults, files, and containers without their plugins that are shown; the others are counted."""


def page(document: dict[str, Any], verdict: Verdict) -> list[str]:
    """Return the lines of the page: the verdict first.

    :param document: of :func:`nri.status.client.status`, or of :mod:`nri.status.without_bridge`.
    """
    lines = wrapped(verdict.line) if verdict.code == WELL else [verdict.word]
    if verdict.code != WELL:
        lines += [line for reason in verdict.reasons for line in wrapped(reason, "- ")]
    for part in (_facts, _plugins, _errors, _without, _events):
        if found := list(part(document)):
            lines += ["", *found]
    return lines


def _facts(document: dict[str, Any]) -> Iterator[str]:
    now, bridge, runtime = document["time"], document["bridge"], document["runtime"]
    if bridge is not None:
        build = ", ".join([each for each in (bridge["commit"], bridge["date"]) if each])
        started = f"pid {bridge['pid']}, started {since(bridge['started'], now)}"
        yield from labelled("bridge", bridge["version"] + (f" ({build})" if build else ""), started)
        yield from labelled("runtime", *_runtime(runtime, bridge["state"], now))
    yield from labelled("configuration", *_configuration(document["configuration"], now))
    if document["lateCreates"] is not None:
        late = [f"{count} {state}" for state, count in document["lateCreates"].items() if isinstance(count, int)]
        yield from labelled("late creates", ", ".join(late))
    if document["record"] is not None and document["record"]["fault"] is not None:
        yield from labelled("record", document["record"]["fault"])
    if document["log"] is not None:
        lost = document["log"]["lost"]
        yield from labelled("log", f"to {document['log']['to'] or 'nowhere'}; {lost} lines lost")


def _runtime(runtime: dict[str, Any], state: str, now: float) -> Iterator[str]:
    if runtime["name"] is None:
        yield "none yet: the bridge looks for one"
        return
    nri = f", NRI {runtime['nri']}" if runtime["nri"] else ""
    yield f"{runtime['name']} {runtime['version'] or ''}".rstrip() + nri
    begun, count = since(runtime["since"], now), runtime["connections"] or 0
    yield f"connected since {begun}" if state == CONNECTED else f"NOT CONNECTED; the last time since {begun}"
    if count > 1:
        yield f"{count} connections since the bridge started"


def _configuration(configuration: dict[str, Any], now: float) -> Iterator[str]:
    files, faults = configuration["files"], configuration["faults"]
    if configuration["valid"] is False:
        rejected = configuration["rejectedSince"]
        yield "NOT VALID" + (f" since {since(rejected, now)}" if rejected is not None else "")
        for fault in faults[:MAX_FAULTS]:
            yield f"- {fault}"
        if len(faults) > MAX_FAULTS:
            yield f"- and {len(faults) - MAX_FAULTS} more: nri check"
    elif configuration["valid"]:
        yield f"valid, hash {configuration['hash'] or 'unknown'}"
    if configuration["since"] is not None:
        yield f"in use since {since(configuration['since'], now)}"
    yield from files[:MAX_FILES]
    if len(files) > MAX_FILES or not files:
        yield f"and {len(files) - MAX_FILES} more files" if files else "no files"


def _plugins(document: dict[str, Any]) -> Iterator[str]:
    plugins = document["plugins"]
    if not plugins:
        yield "no plugins"
    elif document["bridge"] is None:
        for plugin in plugins:
            build = f" {plugin['build']}" if plugin["build"] else ""
            yield from wrapped(
                f"{plugin['type']}{build}: {plugin['binary'] or plugin['problem'] or 'unknown'}", "", "  "
            )
    else:
        header = ("PLUGIN", "RESIDENT", "OK", "ERROR", "KILLED", "IGNORED", "MEDIAN", "P99")
        yield from table(header, [_plugin(plugin) for plugin in plugins])


def _plugin(plugin: dict[str, Any]) -> list[str]:
    runs = plugin["runs"].values()
    counts = [number(sum([each[outcome] for each in runs])) for outcome in OUTCOMES]
    times = [quantile(plugin["seconds"], share) for share in (0.5, 0.99)]
    resident = escape(plugin["resident"]["state"][:8])[:8]  # a later bridge may have other words
    return [plugin["type"], resident, *counts, *times]


def _errors(document: dict[str, Any]) -> Iterator[str]:
    found = [(plugin["lastError"], plugin["type"]) for plugin in document["plugins"] if plugin["lastError"]]
    if found:
        yield "last errors"
    for error, plugin in sorted(found, key=lambda each: -each[0]["time"]):
        where = f"{error['pod'] or 'unknown pod'}{'/' + error['container'] if error['container'] else ''}"
        yield from wrapped(f"{date(error['time'])} {plugin}: {error['state']} of {where}:", "- ")
        yield from wrapped(error["error"] or "no reason is known", "  ")


def _without(document: dict[str, Any]) -> Iterator[str]:
    found = document["withoutPlugins"]
    if found:
        yield f"without their plugins ({len({each['id'] for each in found})})"
    for each in found[-MAX_WITHOUT:]:
        name = f"{each['pod']}{'/' + each['container'] if each['container'] else ''}"
        since_when = f"{name} without {each['plugin'] or 'its plugins'} since {date(each['since'])}"
        yield from wrapped(f"{since_when}: {each['state']}: {each['why']}", "- ", "  ")


def _events(document: dict[str, Any]) -> Iterator[str]:
    if not document["events"]:
        return
    header = ("EVENT", "ANSWERED", "ERRORS", "LATE", "NEAR", "MEDIAN", "P99", "WAIT P99")
    rows = []
    for event in document["events"]:
        counts = [number(event[key]) for key in ("answered", "errors", "late", "nearDeadline")]
        times = [quantile(event["seconds"], 0.5), quantile(event["seconds"], 0.99), quantile(event["waiting"], 0.99)]
        rows.append([event["event"], *counts, *times])
    yield from table(header, rows)
