"""``nri status``: asks the bridge of this node how it is."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import click

from nri.cli import options, output
from nri.cli.output import date, labelled, number, quantile, since, table, wrapped
from nri.errors import escape
from nri.status import client
from nri.status.judging import CONNECTED, OUTCOMES, WELL, judge, missing, name_of, probe


@click.command()
@options.as_json
@click.option(
    "--check",
    is_flag=True,
    help="Print one line, and exit with 0 (well), 1 (degraded) or 2 (no bridge).",
)
@click.option(
    "--alive",
    is_flag=True,
    help="The same for liveness: 1 or 2 if a bridge hangs, 0 also without one.",
)
@options.pod(help="Print what this pod has had instead.")
@click.option(
    "--all",
    "lists_all",
    is_flag=True,
    help="List every container without its plugins, and every refusal.",
)
@click.option(
    "--cpus", is_flag=True, help="Print who has which CPUs, by konfine's record, instead."
)
@options.path("--run", default="/run", metavar="DIR", help="The node's /run, which has the record.")
@options.path(
    "--socket",
    default=client.DEFAULT_STATUS_SOCKET,
    metavar="PATH",
    help="The bridge's status socket.",
)
@options.plain_errors
def status(
    as_json: bool,
    check: bool,
    alive: bool,
    pod: str | None,
    lists_all: bool,
    cpus: bool,
    run: str,
    socket: str,
) -> None:
    """Print the state of this node's bridge and plugins.

    Where no bridge runs, `nri check` says whether the configuration is valid and each plugin can run.

    \b
    Examples:
      nri status
      nri status --check
      nri status --all
      nri status --pod default/web
      nri status --cpus
      nri status --json | jq '.plugins[].last'
    """
    given = {
        "--check": check,
        "--alive": alive,
        "--all": lists_all,
        "--pod": pod,
        "--json": as_json,
        "--cpus": cpus,
    }
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1 and chosen not in (["--pod", "--json"], ["--json", "--cpus"]):
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if cpus:
        from nri.cli.cpus import read

        output.show(read(run), cpus_page, as_json=as_json)
        return
    if check or alive:
        verdict = probe(socket, is_alive=alive)
        click.echo(verdict.line)
        raise click.exceptions.Exit(verdict.code)
    try:
        with client.Reading(socket):
            if pod is not None:
                document = client.of_pod(pod, socket)
                output.show(document, pod_page, as_json=as_json)
                if not is_known(document):
                    raise click.exceptions.Exit(1)
            else:
                page_of = functools.partial(page, lists_all=lists_all)
                output.show(client.status(socket), page_of, as_json=as_json)
    except client.NoBridgeError as error:
        raise client.NoBridgeError(
            f"no bridge: {error}; without one, `nri check` looks at the plugins"
        ) from None


_COLOURS = {
    "single": "cyan",
    "pool": "green",
    "reserved": "red",
    "isolated": "yellow",
    "shared": None,
}


def cpus_page(record: dict[str, Any], sys: str = "/sys") -> list[str]:
    """Return the picture of the node's CPUs.

    :param record: konfine's; *sys* is where sysfs is mounted.
    """
    from nri.cgroups.topology import Topology
    from nri.cli.cpus import Owners, draw

    topology = Topology.read(sys)
    return draw(Owners(record), topology, lambda text, kind: click.style(text, fg=_COLOURS[kind]))


MAX_FAULTS = 10
MAX_FILES = 5
MAX_LISTED = 3
"""Faults, files, and containers without their plugins or refused that are shown; the others are counted."""


def page(document: dict[str, Any], *, lists_all: bool = False) -> list[str]:
    """Return the lines of a status: the verdict first.

    :param document: of ``nri.status.client.status``.
    :param lists_all: list all containers without their plugins, and all refusals.
    """
    verdict = judge(document)
    if verdict.code == WELL:
        lines = wrapped(verdict.line)
    else:
        lines = [verdict.word]
        for reason in verdict.reasons:
            lines += wrapped(reason, "- ")
    most = MAX_LISTED
    if lists_all:
        most = len(document["withoutPlugins"]) + len(document["refusals"])
    for part in (
        _facts(document),
        _plugins(document),
        _errors(document, most),
        _without(document, most),
        _outdated(document),
        _events(document),
    ):
        lines_of_part = list(part)
        if lines_of_part:
            lines += ["", *lines_of_part]
    return lines


def _facts(document: dict[str, Any]) -> Iterator[str]:
    now = document["time"]
    bridge = document["bridge"]
    log = document["log"]
    version = bridge["version"]
    build = ", ".join(filter(None, [bridge["commit"], bridge["date"]]))
    if build:
        version += f" ({build})"
    started = f"pid {bridge['pid']}, started {since(bridge['started'], now)}"
    yield from labelled("bridge", version, started)
    yield from labelled("runtime", *_runtime(document["runtime"], bridge["state"], now))
    yield from labelled("configuration", *_configuration(document["configuration"], now))
    if document["ownPod"] is not None:
        about = f"{document['ownPod']}: created before its bridge, so without setup"
        yield from labelled("own pod", about)
    late = [f"{count} {state}" for state, count in document["lateCreates"].items()]
    yield from labelled("late creates", ", ".join(late))
    yield from labelled("log", f"to {log['to']}; {log['lost']} lines lost")


def _runtime(runtime: dict[str, Any], state: str, now: float) -> Iterator[str]:
    if runtime["name"] is None:
        yield "none yet: the bridge looks for one"
        return
    name = f"{runtime['name']} {runtime['version']}".rstrip()
    yield f"{name}, NRI {runtime['nri'] or 'unknown'}"
    begun = since(runtime["since"], now)
    if state == CONNECTED:
        yield f"connected since {begun}"
    else:
        yield f"NOT CONNECTED; the last time since {begun}"
    if not runtime["synchronized"]:
        yield "not synchronized: what started before this bridge is not known"
    if runtime["connections"] > 1:
        yield f"{runtime['connections']} connections since the bridge started"


def _configuration(configuration: dict[str, Any], now: float) -> Iterator[str]:
    files = configuration["files"]
    faults = configuration["faults"]
    if configuration["rejectedSince"] is not None:
        yield f"NOT VALID since {since(configuration['rejectedSince'], now)}"
        for fault in faults[:MAX_FAULTS]:
            yield f"- {fault}"
        if len(faults) > MAX_FAULTS:
            yield f"- and {len(faults) - MAX_FAULTS} more: nri check"
    else:
        yield f"valid, hash {configuration['hash']}"
    refused = configuration["refused"]
    if refused is not None:
        source = refused["source"] or "a directory"
        yield f"REFUSED since {since(refused['since'], now)}, and not in use: {source}"
        for fault in refused["faults"][:MAX_FAULTS]:
            yield f"- {fault}"
    for path in configuration["missing"]:
        yield f"MISSING, and still in use: {path}"
    if configuration["since"] is not None:
        yield f"in use since {since(configuration['since'], now)}"
    yield from files[:MAX_FILES]
    if not files:
        yield "no files"
    elif len(files) > MAX_FILES:
        yield f"and {len(files) - MAX_FILES} more files"


def _plugins(document: dict[str, Any]) -> Iterator[str]:
    rows = []
    notes = []
    for plugin in document["plugins"]:
        totals = dict.fromkeys(OUTCOMES, 0)
        for runs in plugin["runs"].values():
            for outcome in OUTCOMES:
                totals[outcome] += runs[outcome]
        totals["error"] += totals.pop("killed")
        counts = map(number, totals.values())
        (resident,) = _words(plugin["resident"]["state"])
        median = quantile(plugin["seconds"], 0.5)
        p99 = quantile(plugin["seconds"], 0.99)
        rows.append([plugin["type"], resident, *counts, median, p99])
        if plugin["resident"]["state"] == "failed":
            reason = plugin["resident"]["reason"] or "no reason is known"
            notes += wrapped(f"note: {plugin['type']} is started for each request: {reason}")
    header = ("PLUGIN", "RESIDENT", "OK", "ERROR", "IGNORED", "REFUSED", "MEDIAN", "P99")
    if rows:
        yield from table(header, rows)
    else:
        yield "no plugins"
    yield from notes


def _errors(document: dict[str, Any], most: int) -> Iterator[str]:
    listed = []
    for plugin in document["plugins"]:
        if plugin["lastError"]:
            listed.append((plugin["lastError"], plugin["type"], ""))

    refusals = document["refusals"]
    for refusal in refusals[-most:]:
        how = f" refused{_times(refusal)}"
        listed.append((refusal, refusal["plugin"], how))
    if listed:
        yield "last errors and refusals"
    for error, plugin, how in sorted(listed, key=lambda entry: -entry[0]["time"]):
        yield from wrapped(
            f"{date(error['time'])} {plugin}: {error['state']} of {name_of(error)}{how}:", "- "
        )
        yield from wrapped(error["error"] or "no reason is known", "  ")
    yield from _more(len(refusals) - most)


def _without(document: dict[str, Any], most: int) -> Iterator[str]:
    entries = document["withoutPlugins"]
    all_ = document["without"]
    if entries:
        yield f"without their plugins ({number(all_['containers'])})"
        rows = []
        for entry in all_["by"]:
            words = _words(entry["state"], entry["cause"])
            rows.append([missing(entry), *words, number(entry["count"])])
        yield from table(("PLUGIN", "STATE", "CAUSE", "COUNT"), rows)
    for entry in entries[-most:]:
        about = f"{name_of(entry)} without {missing(entry)} since {date(entry['since'])}"
        yield from wrapped(f"{about}: {entry['state']}: {entry['why']}", "- ")
    yield from _more(sum([entry["count"] for entry in all_["by"]]) - most)


def _words(*words: str) -> list[str]:
    """Return words for a table; a later bridge may have other ones."""
    return [escape(word[:12])[:12] for word in words]


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"and {count} more: nri status --all"


def _outdated(document: dict[str, Any]) -> Iterator[str]:
    if document["outdated"]:
        yield "under an older configuration: nri reapply"
    for entry in document["outdated"]:
        yield from wrapped(
            f"{entry['plugin']}: {entry['reapply']} to reapply, {entry['release']} to release", "- "
        )


def _events(document: dict[str, Any]) -> Iterator[str]:
    rows = []
    for event in document["events"]:
        counts = [number(event[key]) for key in ("answered", "errors", "late", "nearDeadline")]
        times = [
            quantile(event["seconds"], 0.5),
            quantile(event["seconds"], 0.99),
            quantile(event["waiting"], 0.99),
        ]
        rows.append([event["event"], *counts, *times])
    header = ("EVENT", "ANSWERED", "ERRORS", "LATE", "NEAR", "MEDIAN", "P99", "WAIT P99")
    yield from table(header, rows) if rows else []


def pod_page(document: dict[str, Any]) -> list[str]:
    """Return the lines about a pod.

    :param document: of ``nri.status.client.of_pod``.
    """
    refusals = document.get("refusals", [])  # an earlier bridge has none
    if is_known(document):
        lines = []
    else:
        lines = wrapped(f"{document['name']}: nothing is known of it")
    for container in document["containers"]:
        name = "/".join(filter(None, [document["name"], container["container"]]))
        lines += wrapped(f"{name}: {container['state']}", "", "  ") + wrapped(
            f"id {container['id']}", "  "
        )
        for plugin in container["plugins"]:
            failed = ", its create has failed" if plugin["failed"] else ""
            lines += wrapped(
                f"{plugin['plugin']}: {', '.join(plugin['states'])}{failed}", "  ", "    "
            )
            lines += (
                wrapped(f"result {plugin['result']}", "    ", "      ") if plugin["result"] else []
            )
        for due in container["due"]:
            lines += wrapped(f"{due['plugin']}: {due['what']} is due", "  ", "    ")
        for lack in container["without"]:
            lines += wrapped(
                f"without {missing(lack)} since {date(lack['since'])}: {lack['state']}: {lack['why']}",
                "  ",
                "    ",
            )
    for refusal in refusals:
        since_ = f"{date(refusal['since'])}{_times(refusal)}"
        said = f"refused since {since_}: {refusal['state']}"
        lines += wrapped(
            f"{name_of(refusal)}: {said}: {refusal['plugin']}: {refusal['error']}", "", "  "
        )
    return lines


def _times(refusal: dict[str, Any]) -> str:
    return f", {refusal['count']} times" if refusal["count"] > 1 else ""


def is_known(document: dict[str, Any]) -> bool:
    """Return whether the bridge knows something of the pod of a document of ``nri.status.client.of_pod``."""
    return bool(document["containers"] or document.get("refusals"))
