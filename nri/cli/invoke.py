"""``nri invoke``: the chain once, by hand."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from nri import config
from nri.cli import options, output
from nri.client import ChainError, Client, Exchange, Sandbox, Task, read_config, spec_from_oci
from nri.config.entries import ConfigList
from nri.errors import NRIError, escape
from nri.process.inherit import prepare_process
from nri.process.lines import readable
from nri.types.errors import DecodeError
from nri.types.v1 import MAX_REQUEST, Request

NO_PLUGIN = "no plugin is configured for {}"


@click.command()
@click.argument("state", type=options.type_state)
@click.option("--request", "request_file", metavar="FILE", help="A request as JSON; - for stdin.")
@click.option("--spec", "spec_file", metavar="FILE", help="An OCI config.json to make the request from.")
@click.option("--id", "container", metavar="ID", help="The container's, with --spec.")
@click.option("--pid", type=click.IntRange(min=0), help="Of the container's init process, with --spec.")
@click.option("--sandbox-id", metavar="ID", help="The pod sandbox's.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Added to those of the spec.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the pod sandbox.")
@click.option("--dry-run", is_flag=True, help="Print the requests that would be sent, and run nothing.")
@click.option("--trace", is_flag=True, help="Print what is sent to and comes from each plugin, with times.")
@options.timeout
@options.host
@options.as_json
@options.plain_errors
def invoke(
    state: str,
    request_file: str | None,
    spec_file: str | None,
    container: str | None,
    pid: int | None,
    sandbox_id: str | None,
    annotations: tuple[str, ...],
    labels: tuple[str, ...],
    dry_run: bool,
    trace: bool,
    timeout: float,
    conf_dir: str,
    conf_file: str,
    bin_dirs: tuple[str, ...],
    check_owner: bool,
    as_json: bool,
) -> None:
    """Run the chain once, by hand, and print the results.

    The request is read from a file (--request), or made from a container's OCI configuration (--spec and --id).

    \b
    Examples:
      nri invoke create --request request.json --trace
      nri invoke create --spec config.json --id test --pid 1234 --annotation qos.class=ls
      nri invoke delete --request - --json < request.json
      nri invoke update --request request.json --dry-run
    """
    if (request_file is None) == (spec_file is None):
        raise click.UsageError("expected one of --request and --spec")
    if spec_file is not None and container is None:
        raise click.UsageError("--spec needs the container's --id")
    if request_file is not None and (container is not None or pid is not None):
        raise click.UsageError("--id and --pid go with --spec; a --request has its own")
    request = _read_request(request_file) if request_file is not None else None
    if request is None:
        task = Task(str(container), pid or 0, spec_from_oci(read_config(str(spec_file))))
        request = Client(ConfigList()).request(task, state)
    request = _with_options(
        request, sandbox_id, options.pairs("--annotation", annotations), options.pairs("--label", labels)
    )
    options.warn_unless(check_owner)
    exchanges: list[Exchange] = []
    client = Client(
        config.load(conf_dir, conf_file, check_owner=check_owner),
        bin_dirs=[os.path.abspath(directory) for directory in bin_dirs],  # before prepare_process() changes directory
        timeout=timeout,
        check_owner=check_owner,
        log=lambda plugin, line: click.echo(escape(f"{plugin}: {line}"), err=True),
        on_exchange=exchanges.append if as_json else _print_exchange if trace else None,
    )
    if dry_run:
        _print_requests(client, request, state, as_json)
        return
    prepare_process()
    error: NRIError | None = None
    try:
        results = client.invoke(request, state)
    except ChainError as chain_error:
        error, results = chain_error, list(chain_error.results)
    added = results[len(request.results) :]
    if as_json:
        output.print_json([_exchange_value(e) for e in exchanges] if trace else [r.to_value() for r in added])
    elif not trace:
        rows = [(result.plugin, output.pairs(result.metadata) or "-") for result in added]
        output.print_table(("PLUGIN", "RESULT"), rows)
    if not as_json and not client.chain(state):
        click.echo(NO_PLUGIN.format(state))
    if error is not None:
        raise error


def _read_request(name: str) -> Request:
    where = "stdin" if name == "-" else escape(name)
    try:
        if name == "-":
            stdin = sys.stdin  # None where our caller has closed it
            document = stdin.buffer.read(MAX_REQUEST + 1) if stdin else b""
        else:
            with open(name, "rb") as file:
                document = file.read(MAX_REQUEST + 1)
        if len(document) > MAX_REQUEST:
            raise DecodeError(f"has more than {MAX_REQUEST} bytes, expected a request")
        return Request.from_json(document)
    except OSError as error:
        raise DecodeError(f"{where}: cannot be read: {error.strerror}; expected a request") from error
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from error


def _with_options(
    request: Request, sandbox_id: str | None, annotations: dict[str, str], labels: dict[str, str]
) -> Request:
    spec = request.spec
    if annotations:
        spec = (spec or spec_from_oci({})).replace(annotations={**(spec.annotations if spec else {}), **annotations})
    sandbox = Sandbox(sandbox_id if sandbox_id is not None else request.sandbox_id, {**request.labels, **labels})
    return request.replace(spec=spec, sandbox_id=sandbox.id, labels=sandbox.labels)


def _print_requests(client: Client, request: Request, state: str, as_json: bool) -> None:
    requests = [client.request(request, state).replace(conf=plugin.conf).to_value() for plugin in client.chain(state)]
    if as_json:
        output.print_json(requests)
        return
    if not requests:
        click.echo(NO_PLUGIN.format(state))
    for plugin, value in zip(client.chain(state), requests, strict=True):
        click.echo(f"# to {plugin.type}, without the results of the plugins before it")
        output.print_json(value)


def _print_exchange(exchange: Exchange) -> None:
    milliseconds = f"{exchange.seconds * 1000:.1f} ms"
    # "not found", or "not run", where there is no binary
    binary = exchange.binary or str(exchange.error and exchange.error.reason).partition(":")[0]
    click.secho(escape(f"{exchange.plugin.type}  {binary}  {milliseconds}"), bold=True)
    _print_document("request", exchange.request)
    if exchange.result is not None:
        _print_document("result", exchange.result.to_json())
    else:
        if exchange.stdout:
            click.echo(f"  stdout: {readable(exchange.stdout[:4096])}")
        click.echo(f"  error: {escape(str(exchange.error and exchange.error.reason))}")
    sys.stdout.flush()


def _exchange_value(exchange: Exchange) -> dict[str, Any]:
    return {
        "plugin": exchange.plugin.type,
        "binary": exchange.binary or None,
        "request": json.loads(exchange.request),
        "result": exchange.result.to_value() if exchange.result is not None else None,
        "error": exchange.error.reason if exchange.error is not None else None,
        "seconds": exchange.seconds,
    }


def _print_document(name: str, document: bytes) -> None:
    value: Any = json.loads(document)
    text = json.dumps(value, indent=2).replace("\n", "\n  ")
    click.echo(f"  {name}: {text}")
