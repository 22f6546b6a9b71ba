"""``nri plugins``: lists the configured plugins, or says which of them would run for a request, and why not."""

from __future__ import annotations

from typing import Any

import click

from nri.cli import options, output
from nri.client import Invoker, PluginError
from nri.client.facts import facts_of
from nri.config.entries import PluginEntry
from nri.config.when import Facts
from nri.types.v1 import Request


@click.command()
@click.option(
    "--for", "request_file", metavar="FILE", help="JSON file with a request: which plugins run for it; - for stdin."
)
@click.option(
    "--runtime-handler", metavar="NAME", help='With --for: the runtime handler of the pod, which no request has; "".'
)
@options.host
@options.as_json
@options.plain_errors
def plugins(request_file: str | None, runtime_handler: str | None, host: options.Host, as_json: bool) -> None:
    """List the configured plugins, in order.

    With --for, tells for each whether it would run for a request, and why not: by its states, and by what its entry
    says in "when". What the request does not tell keeps no plugin from running; a host may know more.

    \b
    Examples:
      nri plugins
      nri plugins --json | jq -r '.[].binary'
      nri plugins --for request.json
    """
    if runtime_handler is not None and request_file is None:
        raise click.UsageError("--runtime-handler needs --for")
    request = None if request_file is None else options.read_request(request_file)
    configured = host.load().plugins
    listed = [_entry(plugin, host.invoker) for plugin in configured]
    if request is not None:
        facts = facts_of(request)
        facts.runtime_handler = runtime_handler
        for entry, plugin in zip(listed, configured, strict=True):
            entry["runs"], entry["why"] = _judge(plugin, request, facts)
    if as_json:
        output.print_json(listed)
        return
    if not listed:
        output.print_no_plugins(host.conf_dir, host.conf_file)
    if request is None:
        rows = [(e["type"], ",".join(e["states"]), e["binary"] or e["error"], e["source"]) for e in listed]
        output.print_table(("PLUGIN", "STATES", "BINARY", "CONFIGURED IN"), rows)
    else:
        output.print_table(("PLUGIN", "RUNS", "CONFIGURED IN"), [(e["type"], _runs(e), e["source"]) for e in listed])


def _entry(plugin: PluginEntry, invoker: Invoker) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": plugin.type,
        "states": plugin.wanted_states,
        "source": plugin.source,
        "binary": None,
    }
    if plugin.when is not None:
        entry["when"] = plugin.when.value
    try:
        entry["binary"] = invoker.find(plugin.type)
    except PluginError as error:
        entry["error"] = error.reason
    return entry


def _judge(plugin: PluginEntry, request: Request, facts: Facts) -> tuple[bool, str]:
    """Return whether a plugin runs for a request, and the reasons: why not, or what is not known."""
    if not plugin.wants(request.state):
        return False, f'state "{request.state}", expected one of {", ".join(plugin.wanted_states)}'
    if plugin.when is None:
        return True, ""
    return plugin.when.accepts(facts), plugin.when.explain(facts)


def _runs(entry: dict[str, Any]) -> str:
    verdict = "yes" if entry["runs"] else "no"
    return f"{verdict}: {entry['why']}" if entry["why"] else verdict
