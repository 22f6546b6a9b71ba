"""Prometheus scrapes a real bridge through a load and faults: every expression has series, alerts fire and clear."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.config import refused
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.v1bridge.bridge_process import BridgeProcess, a_bridge
from tests.support import prometheus
from tests.support.host import Host, plugin
from tests.support.metrics_process import running
from tests.support.pods import container, pod
from tests.support.prometheus import PrometheusServer
from tests.support.runtime import Runtime
from tests.support.waiting import until

BROKEN = "#!/bin/sh\necho no such device >&2\nexit 3\n"
REFUSING = """#!/bin/sh\necho '{"error": "no CPU is free", "refused": true}'\n"""
WORKING = "#!/bin/sh\necho '{}'\n"

pytestmark = pytest.mark.prometheus


@pytest.fixture
def bridge(host: Host) -> Iterator[BridgeProcess]:
    prometheus.need_prometheus()
    with a_bridge(host) as bridge:
        yield bridge


@contextlib.contextmanager
def load(runtime: Runtime) -> Iterator[None]:
    """Pods and containers that come and go, until the end."""
    over = threading.Event()
    events = (
        (api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod())),
        (api.Event.START_CONTAINER, api.StartContainerRequest(pod=pod(), container=container())),
        (api.Event.STOP_CONTAINER, api.StopContainerRequest(pod=pod(), container=container())),
        (api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=pod())),
    )

    def work() -> None:
        while not over.is_set():
            for event, request in events:
                with contextlib.suppress(StatusError):  # the error of the broken plugin
                    runtime.event(event, request)
            over.wait(0.05)

    thread = threading.Thread(target=work, name="load")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def until_fired(server: PrometheusServer, name: str) -> dict[str, str]:
    """Wait for an alert, which was pending before; return its description and labels."""
    (alert,) = until(lambda: server.alerts(name), f"{name} firing")
    until(lambda: server.has_been_pending(name), f"{name} pending before")
    return {**alert["labels"], **alert["annotations"]}


def until_cleared(server: PrometheusServer, name: str) -> None:
    until(lambda: not server.alerts(name), f"{name} cleared")


def test_alerts_fire_and_clear(host: Host, bridge: BridgeProcess, tmp_path: Path) -> None:
    host.install("well")
    host.script("broken", BROKEN)
    host.configure(plugin("well"))
    host.configure(plugin("broken"), name="20-broken.conf")
    bridge.listen()
    bridge.outside()
    with contextlib.ExitStack() as stack:
        runtime = bridge.accept()
        runtime.start()
        metrics = stack.enter_context(
            running(tmp_path, host.root / "v1bridge.sock", "--listen", "127.0.0.1:0")
        )
        server = stack.enter_context(
            prometheus.scraping(tmp_path, "{}:{}".format(*metrics.address))
        )
        with load(runtime):
            failing = until_fired(server, "NRIPluginFailing")
            assert (failing["plugin"], failing["source"]) == ("broken", "20-broken.conf")
            assert failing["instance"] == "node1.example.com"
            assert (
                "broken, configured in 20-broken.conf, has failed on node1.example.com"
                in failing["description"]
            )
            assert until_fired(server, "NRIPluginFailingOften")["plugin"] == "broken"
            host.script("broken", WORKING)
            until_cleared(server, "NRIPluginFailing")
            until_cleared(server, "NRIPluginFailingOften")

            host.script("broken", REFUSING)
            refused_at = until_fired(server, "NRIContainersRefused")
            assert (refused_at["plugin"], refused_at["severity"]) == ("broken", "info")
            refused.note(str(host.conf), "/configuration", ["10.conf:1:1: x"])
            assert (
                "node1.example.com goes on with its older"
                in until_fired(server, "NRIConfigurationRefused")["description"]
            )
            assert not server.alerts("NRIPluginFailing")
            host.script("broken", WORKING)
            refused.clear(str(host.conf))
            until_cleared(server, "NRIContainersRefused")
            until_cleared(server, "NRIConfigurationRefused")

            host.configure_text('{"version": "0.1", "plugins": [{}]}', "30-wrong.conf")
            assert (
                "node1.example.com" in until_fired(server, "NRIConfigurationBroken")["description"]
            )
            check_expressions(server)
            prometheus.promtool("check", "metrics", stdin=metrics.get()[1])
            (host.conf / "30-wrong.conf").unlink()
            until_cleared(server, "NRIConfigurationBroken")
        bridge.signal(9)
        bridge.output()
        assert until_fired(server, "NRIBridgeGone")["severity"] == "critical"
        # Which a scrape that took too long may have set off.
        until_cleared(server, "NRIMetricsGone")
        bridge.outside()
        bridge.accept().start()
        until_cleared(server, "NRIBridgeGone")
        others = 'ALERTS{alertname=~"NRIConfiguration.*|NRIPluginFailing.*|NRIContainers.*"}'
        until(lambda: not server.query(others), "no other alert")


def check_expressions(server: PrometheusServer) -> None:
    """What is selected is there; what is shown without a condition shows something."""
    shown = prometheus.dashboard_expressions()
    expressions = [
        *(rule["expr"] for rule in prometheus.rules()),
        *(each for panel in shown.values() for each in panel),
    ]
    selectors = {
        found[0] for expression in expressions for found in prometheus.SELECTOR.finditer(expression)
    }
    selectors.discard('up{job="nri-cpus"}')  # of a process that does not run here
    for selector in sorted(selectors):
        until(lambda: server.query(f"last_over_time({selector}[10m])"), selector)  # noqa: B023
    for expression in expressions:
        server.query(expression)
    conditional = {
        title for title, panel in shown.items() if any(" > 0" in expression for expression in panel)
    }
    for title in shown.keys() - conditional:
        for expression in shown[title]:
            until(lambda: server.query(expression), f"{title}: {expression}")  # noqa: B023
