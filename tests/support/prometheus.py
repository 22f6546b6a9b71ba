"""Debian's Prometheus: its tool, and a server of its own for a test, on a free port of loopback."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.waiting import SOON, until

if TYPE_CHECKING:
    from collections.abc import Iterator

MONITORING = Path(__file__).parents[2] / "deploy/monitoring"
SELECTOR = re.compile(r"(?:nri_v1bridge_\w+|\bup\b)(?:\{[^}]*\})?")
"""The series that an expression selects."""

_TRIES = 3  # somebody else may take the port that was free


def need_prometheus() -> None:
    """Skip the test where Prometheus is not installed."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("needs the Debian package prometheus")


def promtool(*words: str | Path, stdin: bytes = b"") -> str:
    """Run promtool, and return what it prints; it must find no fault."""
    done = subprocess.run(["promtool", *words], input=stdin, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    document = yaml.safe_load((MONITORING / "nri.rules.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard_expressions() -> dict[str, list[str]]:
    """The expressions of the dashboard by their panels' titles, as Grafana sends them for all nodes."""
    document = json.loads((MONITORING / "nri.dashboard.json").read_text())
    return {
        panel["title"]: [
            target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
            for target in panel["targets"]
        ]
        for panel in document["panels"]
        if panel["type"] != "row"
    }


def quick_rules(place: Path) -> Path:
    """Write a copy of the rules in which minutes are seconds; ranges are longer, to have two samples."""
    text = (MONITORING / "nri.rules.yaml").read_text()
    text = re.sub(r"\[\d+m\]", "[8s]", re.sub(r"for: \d+m", "for: 1s", text))
    (place / "quick.rules.yaml").write_text(text)
    return place / "quick.rules.yaml"


class PrometheusServer:
    """A Prometheus that is running."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=SOON) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression, now."""
        return list(self._get("/api/v1/query", query=expression)["result"])

    def range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of an expression between two times, in seconds since 1970."""
        times = {"start": str(start), "end": str(end), "step": str(step)}
        return list(self._get("/api/v1/query_range", query=expression, **times)["result"])

    def alerts(self, name: str, state: str = "firing") -> list[dict[str, Any]]:
        """The alerts of that name and state."""
        every = self._get("/api/v1/alerts")["alerts"]
        return [
            each for each in every if each["labels"]["alertname"] == name and each["state"] == state
        ]

    def has_been_pending(self, name: str) -> bool:
        """Return whether an alert was pending before."""
        return bool(
            self.query(f'count_over_time(ALERTS{{alertname="{name}", alertstate="pending"}}[10m])')
        )


@contextlib.contextmanager
def scraping(place: Path, target: str) -> Iterator[PrometheusServer]:
    """Run a Prometheus as deploy/monitoring/prometheus.yaml configures it, but quicker, for one target."""
    document = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())
    document["global"] = {"evaluation_interval": "500ms"}
    document["rule_files"] = [str(quick_rules(place))]
    job = document["scrape_configs"][0]
    document["scrape_configs"] = [job]
    job |= {
        "scrape_interval": "500ms",
        "scrape_timeout": "500ms",
        "static_configs": [{"targets": [target]}],
    }
    configuration = place / "prometheus.yaml"
    configuration.write_text(yaml.safe_dump(document))
    child, port = _start(place, configuration)
    try:
        yield PrometheusServer(port)
    finally:
        child.kill()
        child.wait()


def _start(place: Path, configuration: Path) -> tuple[subprocess.Popen[bytes], int]:
    for _ in range(_TRIES):
        port = _free_port()
        words = [
            f"--config.file={configuration}",
            f"--storage.tsdb.path={place}/data",
            "--log.level=warn",
        ]
        with (place / "prometheus.log").open("ab") as log:
            child = subprocess.Popen(
                ["prometheus", *words, f"--web.listen-address=127.0.0.1:{port}"],
                cwd=place,
                stdout=log,
                stderr=log,
            )
        if _comes_up(child, port):
            return child, port
    raise AssertionError((place / "prometheus.log").read_text())


def _comes_up(child: subprocess.Popen[bytes], port: int) -> bool:
    until(lambda: child.poll() is not None or _is_ready(port), "a server")
    return child.poll() is None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=SOON) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError as error:
        error.close()  # 503 while it starts
        return False
    except OSError:
        return False
