"""Runs the chain of ``conf/resource.d`` for a container's create, update and delete, and shows each exchange."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from demo.container import PERIOD, QUOTA, Container
from nri import client, config
from nri.types.v1 import State

ROOT = Path(__file__).resolve().parent.parent
BINARIES = ROOT / "dist/nri"


def main() -> None:
    """The demonstration."""
    if not (BINARIES / "clearcfs").exists():
        raise SystemExit("dist/nri is not built; run: make demo")
    with tempfile.TemporaryDirectory(prefix="nri-demo-") as scratch, Container(Path(scratch)) as container:
        configuration = config.load(_configuration(Path(scratch), container.mountinfo))
        _title("The Node Resource Interface v0.1: a container's life, and what its plugins do")
        click.echo(f"container  {container.where}")
        click.echo(f"           {container.cgroups_path}")
        click.echo(f"binaries   {BINARIES.relative_to(ROOT)}, made by PyInstaller")
        for plugin in configuration.plugins:
            file = Path(plugin.source).name
            conf = {key: value for key, value in plugin.conf.items() if key != "mountinfo"}
            click.echo(f"plugin     {plugin.type:9} {json.dumps(conf)}  from conf/resource.d/{file}")
        chain = client.Client(
            configuration,
            bin_dirs=[str(BINARIES)],
            log=lambda plugin, line: click.echo(f"           {plugin}: {line}"),
            on_exchange=_show,
        )
        container.limit(QUOTA, container.cpus)
        _step("create", "the container's process exists and waits; its pod is latency-sensitive (qos.class: ls)")
        _run(chain, container, State.CREATE)
        container.limit("70000", container.cpus)
        _step("update", "the kubelet changed the container's CPU limit, and the runtime wrote it")
        _run(chain, container, State.UPDATE)
        _step("delete", "the container stops")
        _run(chain, container, State.DELETE)
    click.echo()


def _configuration(scratch: Path, mountinfo: str) -> str:
    """conf/resource.d as it is, but told where the made-up cgroups are, if they are."""
    directory = scratch / "resource.d"
    directory.mkdir()
    for file in sorted((ROOT / "conf/resource.d").glob("*.conf")):
        document = json.loads(file.read_text())
        for plugin in document["plugins"]:
            if mountinfo != "/proc/self/mountinfo":
                plugin["conf"]["mountinfo"] = mountinfo
            plugin["failurePolicy"] = "fail"  # a demonstration hides nothing
        (directory / file.name).write_text(json.dumps(document))
    return str(directory)


def _run(chain: client.Client, container: Container, state: str) -> None:
    before = container.knobs()
    spec = {
        "annotations": {"qos.class": "ls", "io.kubernetes.cri.container-name": "web"},
        "linux": {
            "cgroupsPath": container.cgroups_path,
            "resources": {"cpu": {"quota": int(QUOTA), "period": int(PERIOD)}},
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
        },
    }
    try:
        chain.invoke(client.Task("web", container.pid, spec), state, client.Sandbox("web-pod", {"app": "web"}))
    except client.ChainError as error:
        raise SystemExit(f"the chain failed: {error}") from error
    after = container.knobs()
    for name, value in before.items():
        changed = after[name] != value
        line = f"  {name:28} {value:14}" + (f" -> {after[name]}" if changed else "    (unchanged)")
        click.secho(line, fg="yellow" if changed else None)


def _show(exchange: client.Exchange) -> None:
    request = json.loads(exchange.request)
    sent = {key: request[key] for key in ("state", "id", "pid", "conf") if key in request}
    if "conf" in sent:
        sent["conf"] = {key: value for key, value in sent["conf"].items() if key != "mountinfo"}
    if "results" in request:
        sent["results"] = [f"of {result['plugin']}" for result in request["results"]]
    click.secho(f"{exchange.plugin.type}  {exchange.seconds * 1000:.1f} ms", fg="cyan", bold=True)
    click.echo(f"  sent      {json.dumps(sent)} …")
    if exchange.error is not None:
        click.secho(f"  failed    {exchange.error.reason}", fg="red")
    else:
        answer = json.loads(exchange.stdout)
        click.echo(f"  answered  {json.dumps({key: answer[key] for key in ('error', 'metadata') if key in answer})}")


def _title(text: str) -> None:
    click.secho(f"\n{text}\n", bold=True)


def _step(state: str, what: str) -> None:
    click.secho(f"\n── {state} ── {what}", fg="green", bold=True)


if __name__ == "__main__":
    sys.exit(main())
