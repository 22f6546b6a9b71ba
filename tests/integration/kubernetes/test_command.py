"""`nri device-plugin` as a process: its probe, its series, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.cli.running import inside
from tests.support import exposition
from tests.support.waiting import SOON, until

if TYPE_CHECKING:
    from tests.integration.kubernetes.conftest import Counting
    from tests.support.api_server import ApiServer

SOURCE = str(Path(__file__).parents[3])


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=SOON) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_life_beside_a_kubelet(node: Counting, api_server: ApiServer) -> None:
    said = node.root / "stderr"
    node.start("db/main", ask=2)
    api_server.refuses = 403, "forbidden"
    command = [
        sys.executable,
        "-m",
        "nri.cli.entry",
        "device-plugin",
        "--node=worker-1",
        "--listen=:0",
    ]
    places = {
        "kubelet-dir": "kubelet",
        "pod-resources": "kubelet/pods.sock",
        "conf-dir": "resource.d",
        "conf-file": "conf.json",
        "record-dir": "record",
    }
    command += [f"--{option}={node.root / place}" for option, place in places.items()]
    with (
        said.open("wb") as stderr,
        subprocess.Popen(command, stderr=stderr, env={**os.environ, "PYTHONPATH": SOURCE}) as child,
    ):
        try:
            node.kubelet.until_listed(5)
            address = until(
                lambda: re.search(r"serving (http://.*)/metrics", said.read_text()), "the address"
            )[1]
            until(lambda: get(f"{address}/healthz")[0] == 503, "the fault")
            assert get(f"{address}/healthz")[1].startswith(
                "topology: NodeResourceTopology worker-1 cannot be written"
            )
            api_server.refuses = None
            until(lambda: get(f"{address}/healthz") == (200, "ok\n"), "health")
            node.kubelet.admit(2)
            until(
                lambda: 'state="allocated"} 2' in get(f"{address}/metrics")[1],
                "the promise in the series",
            )
            series = exposition.parse(get(f"{address}/metrics")[1].encode())
        finally:
            child.send_signal(signal.SIGTERM)
        assert child.wait(SOON) == 0
    assert api_server.objects == {}
    assert not node.agent.problems()
    page = (Path(SOURCE) / "docs/counted-cpus.md").read_text()
    assert {name for name, _ in series} == {
        *re.findall(r"^\| `(nri_device_plugin_\w+)`", page, re.MULTILINE)
    }
    assert said.read_text().count("\n") == 3  # where it serves, the refusal, its end


def test_compiled_nri_says_which_one_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nri.cli.device_plugin", None)
    ran = inside("device-plugin")
    lacks = "device-plugin is not in this nri, which lacks nri.cli.device_plugin: pip install"
    assert (ran.status, lacks in ran.stderr) == (1, True)


def test_without_its_libraries_the_command_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(name='grpc')\n")
    done = subprocess.run(
        [sys.executable, "-m", "nri.cli.entry", "device-plugin"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{SOURCE}"},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert (
        done.returncode,
        "which lacks grpc: pip install 'PATH[kubernetes]'" in done.stderr,
    ) == (1, True)
