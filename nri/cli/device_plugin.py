"""``nri device-plugin``: runs ``nri.kubernetes.agent`` beside the kubelet of a node."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import Any

import click
from prometheus_client import CollectorRegistry

from nri.cli import options
from nri.cli.metrics import ENDING, serve
from nri.config.site import Site
from nri.errors import NRIError, escape
from nri.kubernetes.agent import INTERVAL, Agent
from nri.kubernetes.devices import KUBELET_DIR
from nri.kubernetes.pod_resources import SOCKET
from nri.node.in_use import InUse
from nri.places import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, DEFAULT_RECORD_DIR

HEALTH = "/healthz"


@click.command()
@options.path(
    "--kubelet-dir",
    default=KUBELET_DIR,
    metavar="DIR",
    help="The kubelet's directory for device plugins.",
)
@options.path(
    "--pod-resources", default=SOCKET, help="The kubelet's socket of its PodResources API."
)
@click.option(
    "--node",
    default="",
    metavar="NAME",
    help="Also write the NodeResourceTopology of the node NAME.",
)
@click.option(
    "--listen", metavar="ADDRESS", help="Serve /healthz, and /metrics for Prometheus, at HOST:PORT."
)
@options.path(
    "--conf-dir",
    default=DEFAULT_CONF_DIR,
    metavar="DIR",
    help="Directory of the host configuration.",
)
@options.path(
    "--conf-file",
    default=DEFAULT_CONF_FILE,
    help="File that is read if the directory holds no *.conf.",
)
@options.path(
    "--record-dir",
    default=DEFAULT_RECORD_DIR,
    metavar="DIR",
    help="Directory of the hosts' record.",
)
@options.plain_errors
def device_plugin(
    kubelet_dir: str,
    pod_resources: str,
    node: str,
    listen: str | None,
    conf_dir: str,
    conf_file: str,
    record_dir: str,
) -> None:
    """Have the scheduler count the CPUs that konfine gives out.

    Offers them to the kubelet as the resource nri.io/exclusive-cpu, if an entry of konfine has `exclusive.counted`;
    a container that requests N of them has N CPUs alone. With --node it also writes the node's
    NodeResourceTopology. Runs until SIGTERM or SIGINT, and withdraws both then.

    \b
    Examples:
      nri device-plugin
      nri device-plugin --node worker-1 --listen 10.0.0.7:10754
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # also in the threads to come
    site = Site(conf_dir=conf_dir, conf_file=conf_file, record_dir=record_dir)
    agent = Agent(
        InUse(site, writes=False), kubelet_dir, node, _report, pod_resources=pod_resources
    )
    if listen is not None:
        registry = CollectorRegistry()
        registry.register(agent)
        server = serve(listen, registry, _report)
        server.set_app(with_health(agent, server.get_app()))
    while True:
        agent.look()
        if agent.ending:
            agent.close()
            raise NRIError(agent.ending)
        if signal.sigtimedwait(ENDING, INTERVAL) is not None:
            break
    agent.close()


def with_health(agent: Agent, metrics: Any) -> Callable[..., Iterable[bytes]]:
    """Return a WSGI application that answers for ``HEALTH``: 200 if all is well, else 503 with the reasons.

    :param metrics: the application for all other paths.
    """

    def answer(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != HEALTH:
            pages: Iterable[bytes] = metrics(environ, start)
            return pages
        lines = ["ok"]
        status = "200 OK"
        problems = agent.problems()
        if problems:
            lines = problems
            status = "503 Service Unavailable"
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{escape(line)}\n".encode() for line in lines]

    return answer


def _report(line: str) -> None:
    click.echo(escape(f"nri device-plugin: {line}"), err=True)
