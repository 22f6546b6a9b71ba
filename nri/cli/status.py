"""``nri status``: asks the bridge of this node how it is, or says what is known without one."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from nri import config
from nri.cli import options
from nri.cli.check import Checked
from nri.errors import NRIError, escape
from nri.status import client, without_bridge
from nri.status.judging import NO_BRIDGE, THRESHOLDS, Thresholds, Verdict, judge
from nri.status.page import page
from nri.status.pod_page import pod_page
from nri.status.probe import Probe, socket_path

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAME = 253
"""Characters of a namespace and of a pod's name: the limit of Kubernetes."""

REDRAWN = 2.0
"""Seconds between two pages of ``--watch``."""

_CONFLICTS = (
    ("--socket", "--config"),
    ("--no-bridge", "--socket"),
    ("--no-bridge", "--config"),
    ("--no-bridge", "--pod"),
    ("--check", "--pod"),
    ("--check", "--watch"),
    ("--check", "--json"),
    *[("--alive", other) for other in ("--check", "--pod", "--watch", "--json", "--no-bridge")],
)

_CLEAR = "\x1b[H\x1b[2J"  # ECMA-48: cursor to the first place, and erase all


def _pod(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    namespace, _, name = value.partition("/")
    if not (0 < len(namespace) <= MAX_NAME and 0 < len(name) <= MAX_NAME) or "/" in name:
        raise click.BadParameter(f"found {value[:MAX_NAME]!r}, expected NAMESPACE/NAME", context, option)
    return namespace, name


def _thresholds(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, (word, most, help_text) in reversed(THRESHOLDS.items()):
        kind = options.Seconds(0, most)  # a number that is not NaN
        command = click.option(f"--{name.replace('_', '-')}", metavar=word, type=kind, help=help_text)(command)
    return command


@click.command()
@options.as_json
@click.option("--check", is_flag=True, help="Print one line, and exit with 0 (well), 1 (degraded) or 2 (no bridge).")
@click.option("--alive", is_flag=True, help="The same for liveness: 1 or 2 if a bridge hangs, 0 also without one.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=str(REDRAWN),
    type=options.Seconds(0.1, 86400),
    metavar="[SECONDS]",
    help=f"Print it again and again, every {REDRAWN:g} seconds by default, until Ctrl-C.",
)
@click.option(
    "--pod", metavar="NAMESPACE/NAME", callback=_pod, help="Print the last exchanges with this pod instead."
)
@options.path("--socket", default="", show_default=False, metavar="PATH", help="The bridge's status socket.")
@options.path("--config", "options_file", default="", show_default=False, help="The bridge options; for its socket.")
@click.option("--no-bridge", is_flag=True, help="No bridge is expected here: judge what nri check knows.")
@_thresholds
@options.host
@options.plain_errors
def status(
    host: options.Host,
    as_json: bool,
    check: bool,
    alive: bool,
    watch: float | None,
    pod: tuple[str, str] | None,
    socket: str,
    options_file: str,
    no_bridge: bool,
    **bounds: float | None,
) -> None:
    """Print how the bridge of this node is, and its plugins.

    Where no bridge runs, prints what is known without one: the configuration, and whether each plugin can run. Then
    the options for paths of configuration and plugins count; a bridge knows its own.

    \b
    Examples:
      nri status
      nri status --check --max-error-rate 5
      nri status --check --no-bridge
      nri status --pod default/web
      nri status --json | jq '.plugins[].last'
    """
    given = {
        "--socket": socket,
        "--config": options_file,
        "--no-bridge": no_bridge,
        "--pod": pod,
        "--check": check,
        "--alive": alive,
        "--watch": watch is not None,
        "--json": as_json,
    }
    for one, other in _CONFLICTS:
        if given[one] and given[other]:
            raise click.UsageError(f"{one} and {other} exclude each other")
    thresholds = Thresholds(**bounds)
    if check or alive:
        probe = Probe(socket, options_file, thresholds, is_alive=alive)
        verdict = judge(_look(host), thresholds) if no_bridge else probe.judge()
        _echo(verdict.line)
        raise click.exceptions.Exit(verdict.code)
    path = "" if no_bridge else socket_path(socket, options_file)
    in_one_line = watch is not None

    def show() -> str:
        try:
            return shown()
        except client.UNUSABLE as error:
            raise client.unusable(path, error) from None

    def shown() -> str:
        if pod is not None:
            answer = client.exchanges(*pod, path)
            return _json(answer, in_one_line) if as_json else "\n".join(pod_page(answer))
        document, verdict = _status(path, host, thresholds)
        return _json(document, in_one_line) if as_json else "\n".join(page(document, verdict))

    if watch is None:
        _echo(show())
    else:
        _watch(show, watch, redraws=not as_json and sys.stdout.isatty(), gap="" if as_json else "\n")


def _status(path: str, host: options.Host, thresholds: Thresholds) -> tuple[dict[str, Any], Verdict]:
    """Return the status of the bridge, or what is known without one, and the verdict.

    :param path: the socket's; "" if no bridge is expected.
    """
    try:
        document = client.status(path) if path else _look(host)
    except client.NoBridgeError as error:
        document = _look(host)
        return document, Verdict(NO_BRIDGE, [str(error), *judge(document, thresholds).faults])
    return document, judge(document, thresholds)


def _look(host: options.Host) -> dict[str, Any]:
    """Return the status of a node without a bridge: each plugin is run once or twice, for its version and schema."""
    invoker = host.invoker
    try:
        loaded = host.load()
        plugins, content = loaded.plugins, loaded.content_hash()
        faults: tuple[config.Fault, ...] = ()
    except config.ConfigError as error:
        plugins, content, faults = (), None, error.faults
    checked = [Checked(plugin, invoker, host.conf_file) for plugin in plugins]
    files = dict.fromkeys([plugin.source for plugin in plugins] + [fault.file for fault in faults])
    return without_bridge.document(
        time=time.time(),
        files=[*files],
        hash=content,
        faults=[str(fault) for fault in faults],
        plugins=[_plugin(each) for each in checked],
    )


def _plugin(checked: Checked) -> dict[str, Any]:
    plugin = checked.plugin
    return without_bridge.plugin(
        type=plugin.type,
        source=plugin.source,
        index=plugin.source_index,
        states=plugin.wanted_states,
        binary=checked.binary,
        problem="; ".join([fault.message.removeprefix(f"{plugin.type}: ") for fault in checked.faults]) or None,
        build=checked.version,
    )


def _json(document: dict[str, Any], in_one_line: bool) -> str:
    return json.dumps(document, indent=None if in_one_line else 2)


def _watch(show: Callable[[], str], seconds: float, *, redraws: bool, gap: str) -> None:
    """Print what ``show`` returns until Ctrl-C.

    :param redraws: in place of what was printed before.
    :param gap: what is printed after it, if not.
    """
    try:
        while True:
            try:
                text = show()
            except NRIError as error:
                text = escape(str(error))
            _echo(_CLEAR + text if redraws else text + gap)
            time.sleep(seconds)
    except KeyboardInterrupt:
        pass


def _echo(text: str) -> None:
    """Print a text also where stdout's encoding lacks some of its characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
