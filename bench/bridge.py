"""What the bridge costs a pod: events on the embedded runtime, timed as the runtime sees them.

The reference is a C plugin that does nothing and that the same bridge starts for each event, in the same run, turn by
turn. What is measured is a plugin that was built with nri.skel and compiled, and that has nothing to do either.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nri import adaptation, api  # noqa: E402 - found through the line above


class Node:
    """A runtime with the compiled bridge, whose plugins are those of one configuration file."""

    def __init__(self, scratch: Path, plugins: list[str], **settings: Any) -> None:
        scratch.mkdir()
        for name in ("plugins", "conf.d", "resource.d"):
            (scratch / name).mkdir()
        (scratch / "plugins/10-v1bridge").symlink_to(ROOT / "dist/nri/v1bridge")
        document = {"version": "0.1", "plugins": [{"type": plugin} for plugin in plugins]}
        (scratch / "resource.d/10.conf").write_text(json.dumps(document))
        bin_dirs = [str(ROOT / "dist/nri"), str(scratch.parent / "bin")]
        settings |= {"confDir": str(scratch / "resource.d"), "binDirs": bin_dirs, "logLevel": "error"}
        settings["logFile"] = str(scratch / "log")
        (scratch / "conf.d/10-v1bridge.conf").write_text(json.dumps(settings))
        self.times: list[float] = []
        started = time.perf_counter()
        self.runtime = adaptation.Runtime(plugin_dir=str(scratch / "plugins"), config_dir=str(scratch / "conf.d"))
        self.runtime.start()
        self.registered_in = time.perf_counter() - started
        self.pid = next(pid for pid in _children(os.getpid()) if str(scratch) in _command(pid))

    def event(self, number: int = 0) -> float:
        """One RunPodSandbox; how long it took, in milliseconds."""
        pod = api.PodSandbox(id=f"pod{number}", name="bench", namespace="default", uid="u")
        pod.annotations["io.kubernetes.cri.sandbox-name"] = "bench"
        pod.linux.cgroups_path = f"/kubepods/pod{number}"
        started = time.perf_counter()
        self.runtime.run_pod_sandbox(pod)
        return (time.perf_counter() - started) * 1000

    def settle(self) -> None:
        """Wait until its plugins are ready, as they are a moment after the first event."""
        for _ in range(20):
            self.event()
            time.sleep(0.02)
        self.times.clear()


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400, help="paced events of each kind (default 400)")
    parser.add_argument("--sustained", type=int, default=2000, help="events back to back (default 2000)")
    parser.add_argument("--json", default=str(ROOT / "build/bench-bridge.json"), help="where the figures go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nri-bench-") as folder:
        scratch = Path(folder)
        _compile(scratch / "bin")
        nodes = {
            "nothing": Node(scratch / "nothing", []),
            "c": Node(scratch / "c", ["noop"]),
            "cold": Node(scratch / "cold", ["clearcfs"]),
            "one": Node(scratch / "one", ["clearcfs"], ahead=True),
            "three": Node(scratch / "three", ["clearcfs", "konfine2", "clearcfs2"], ahead=True),
        }
        try:
            _measure(nodes, arguments)
        finally:
            for node in nodes.values():
                node.runtime.close()


def _measure(nodes: dict[str, Node], arguments: argparse.Namespace) -> None:
    for node in nodes.values():
        node.settle()
    for number in range(arguments.events):
        for node in nodes.values():
            node.times.append(node.event(number))
            time.sleep(0.005)  # paced: a node does not start pods back to back
    c, one = nodes["c"], nodes["one"]
    median = {name: statistics.median(node.times) for name, node in nodes.items()}
    rows = [
        ("no plugin, ms", median["nothing"], 0.25, 1.0, "at most 0.25 ms"),
        ("one plugin ahead, ms", median["one"], median["c"], 0.6, "of the C plugin's"),
        ("one plugin ahead, 99 %, ms", _p99(one.times), median["one"], 3.0, "of our median"),
        ("three plugins ahead, ms", median["three"], median["one"], 2.6, "of one"),
        ("one plugin, cold, ms", median["cold"], median["c"], None, "of the C plugin's"),
    ]
    c_rate, our_rate = _sustained(c, arguments.sustained), _sustained(one, arguments.sustained)
    rows.append(("2,000 back to back, ms an event", 1000 / our_rate, 1000 / c_rate, 1.0, "of the C plugin's"))
    rows.append(("burst of 100 pods, ms in all", _burst(one), _burst(c), 1.0, "of the C plugin's"))
    rows.append(("bridge, idle, MB RSS", _kib(nodes["nothing"].pid, "status", "VmRSS") / 1024, 45, 1.0, "at most 45"))
    rows.append(("each plugin kept ready, MB PSS", _ahead_pss(one.pid) / 1024, 12, 1.0, "at most 12"))
    rows.append(("launch to registered, s", max(n.registered_in for n in nodes.values()), 0.5, 1.0, "at most 0.5"))
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}\n")
    print(f"{'':34}{'figure':>9}{'reference':>11}{'ratio':>7}{'goal':>7}")
    for name, figure, reference, goal, what in rows:
        ratio = figure / reference
        verdict = "" if goal is None else "holds" if ratio <= goal else "MISSED"
        print(f"{name:34}{figure:9.2f}{reference:11.2f}{ratio:7.2f}{goal or '':>7}  {verdict:7}{what}")
    path = Path(arguments.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = ("name", "figure", "reference", "goal", "what")
    path.write_text(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))


def _compile(directory: Path) -> None:
    directory.mkdir()
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit(
            "no C compiler for the reference plugin; install one (Debian: apt-get install gcc libc6-dev)"
        )
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", directory / "noop", ROOT / "bench/noop.c"], check=True)
    # Other names of the same plugins: a chain of three different ones.
    (directory / "konfine2").symlink_to(ROOT / "dist/nri/clearcfs")
    (directory / "clearcfs2").symlink_to(ROOT / "dist/nri/clearcfs")


def _sustained(node: Node, events: int) -> float:
    started = time.perf_counter()
    for number in range(events):
        node.event(number)
    return events / (time.perf_counter() - started)


def _burst(node: Node) -> float:
    threads = [threading.Thread(target=node.event, args=(number,)) for number in range(100)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - started) * 1000


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def _kib(pid: int, file: str, key: str) -> int:
    line = next(line for line in Path(f"/proc/{pid}/{file}").read_text().splitlines() if line.startswith(key + ":"))
    return int(line.split()[1])


def _ahead_pss(bridge: int) -> float:
    """Of the helper and its waiting child, together."""
    helpers = [int(p) for p in os.listdir("/proc") if p.isdigit() and _parent(int(p)) == bridge]
    family = helpers + [int(p) for p in os.listdir("/proc") if p.isdigit() and _parent(int(p)) in helpers]
    return sum(_kib(pid, "smaps_rollup", "Pss") for pid in family if _is_alive(pid))


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return -1


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"


if __name__ == "__main__":
    main()
