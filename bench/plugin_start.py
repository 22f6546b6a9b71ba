"""What one run of a plugin costs: the whole process, from its start until it is reaped.

Every figure stands beside two references that are taken in the same run, turn by turn, so that a noisy machine is
noisy for all of them: a bare interpreter (``python3 -I -S -c pass``, the interpreter that the binaries carry) and a
plugin in C that does nothing, compiled here. Printed are medians; the ratio is to the bare interpreter.
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
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cgroup_tree import Tree  # noqa: E402 - found through the line above

REQUEST = {
    "version": "0.1",
    "state": "create",
    "id": "bench",
    "sandboxID": "bench-pod",
    "spec": {
        "resources": {"cpu": {"shares": 512, "quota": 50000, "period": 100000}},
        "cgroupsPath": "/kubepods/podbench/bench",
        "annotations": {"io.kubernetes.cri.container-name": "app"},
    },
}


class Case:
    """A command, what it reads, and how long it took each time, in milliseconds."""

    def __init__(self, name: str, argv: list[str], stdin: bytes = b"", reset: tuple[Path, str] | None = None) -> None:
        self.name = name
        self.argv = argv
        self.stdin = stdin
        self.reset = reset
        self.times: list[float] = []

    def run(self) -> bytes:
        """Run it once, timed."""
        if self.reset is not None:
            self.reset[0].write_text(self.reset[1])
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
            stdin.write(self.stdin)
            stdin.seek(0)
            actions = [(os.POSIX_SPAWN_DUP2, stdin.fileno(), 0), (os.POSIX_SPAWN_DUP2, stdout.fileno(), 1)]
            started = time.perf_counter()
            pid = os.posix_spawn(self.argv[0], self.argv, {"PATH": "/usr/bin:/bin"}, file_actions=actions)
            _, status = os.waitpid(pid, 0)
            self.times.append((time.perf_counter() - started) * 1000)
            stdout.seek(0)
            answer = stdout.read()
        if status != 0 or (b'"error":""' not in answer and self.stdin and b'"error"' in answer):
            raise SystemExit(f"{self.name}: exit status {os.waitstatus_to_exitcode(status)}, answered {answer!r}")
        return answer

    @property
    def median(self) -> float:
        """In milliseconds."""
        return statistics.median(self.times)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="of each command (default 100)")
    parser.add_argument("--json", default=str(ROOT / "build/bench-plugin-start.json"), help="where the figures go")
    arguments = parser.parse_args()
    binaries = ROOT / "dist/nri"
    if not (binaries / "clearcfs").exists():
        raise SystemExit("dist/nri is not built; run: make binaries")
    with tempfile.TemporaryDirectory() as scratch:
        cases = _cases(Path(scratch), binaries)
        for number in range(arguments.runs + 3):
            for case in cases:
                answer = case.run()
                if case.reset is not None and b'"quota":"50000/100000"' not in answer:
                    raise SystemExit(f"{case.name}: it should have cleared a quota, and answered {answer!r}")
                if number < 3:
                    case.times.clear()  # the first runs fill the page cache
    _report(cases, arguments)


def _cases(scratch: Path, binaries: Path) -> list[Case]:
    tree = Tree(scratch / "cgroup", "v1")
    tree.make("/kubepods/podbench/bench", cpu__cfs_quota_us="50000\n", cpuset__cpus="0-3\n")
    tree.put("/kubepods/podbench", "cpuset.cpus", "0-3\n")
    quota = Path(tree.file("/kubepods/podbench/bench", "cpu.cfs_quota_us"))
    mountinfo = scratch / "mountinfo"
    mountinfo.write_text(tree.mountinfo)
    conf = {"mountinfo": str(mountinfo)}
    sensitive = {"qos.class": "ls", **REQUEST["spec"]["annotations"]}
    clear = REQUEST | {"conf": conf, "spec": REQUEST["spec"] | {"annotations": sensitive}}
    confine = REQUEST | {"conf": conf | {"systemReserved": [0]}}
    noop = scratch / "noop"
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit(
            "no C compiler for the reference plugin; install one (Debian: apt-get install gcc libc6-dev)"
        )
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", noop, ROOT / "bench/noop.c"], check=True)
    interpreter = os.path.realpath(sys.executable)
    return [
        Case("bare interpreter: python3 -I -S -c pass", [interpreter, "-I", "-S", "-c", "pass"]),
        Case("C no-op plugin", [str(noop), "invoke"], _document(REQUEST)),
        Case("clearcfs, nothing to do", [str(binaries / "clearcfs"), "invoke"], _document(REQUEST)),
        Case(
            "clearcfs, clears a quota", [str(binaries / "clearcfs"), "invoke"], _document(clear), (quota, "50000\n")
        ),
        Case("konfine, confines", [str(binaries / "konfine"), "invoke"], _document(confine)),
        _hook(scratch, binaries, tree, conf),
    ]


def _hook(scratch: Path, binaries: Path, tree: Tree, conf: dict[str, str]) -> Case:
    bundle, conf_dir = scratch / "bundle", scratch / "resource.d"
    bundle.mkdir()
    conf_dir.mkdir()
    linux = {"cgroupsPath": REQUEST["spec"]["cgroupsPath"], "resources": REQUEST["spec"]["resources"]}
    (bundle / "config.json").write_bytes(_document({"ociVersion": "1.0.2", "linux": linux}))
    plugins = [{"type": "konfine", "conf": conf}, {"type": "clearcfs", "conf": conf}]
    (conf_dir / "10.conf").write_bytes(_document({"version": "0.1", "plugins": plugins}))
    state = {"ociVersion": "1.0.2", "id": "bench", "status": "created", "pid": 0, "bundle": str(bundle)}
    argv = [str(binaries / "nri"), "hook", "create", "--conf-dir", str(conf_dir), "--bin-dir", str(binaries)]
    return Case("nri hook create, two plugins", argv, _document(state))


def _document(value: object) -> bytes:
    return json.dumps(value).encode()


def _report(cases: list[Case], arguments: argparse.Namespace) -> None:
    bare = cases[0].median
    print(
        f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"{arguments.runs} runs each, whole process, milliseconds\n"
    )
    print(f"{'':42}{'median':>8}{'90 %':>8}{'bare interpreter':>18}{'ratio':>7}")
    rows = []
    for case in cases:
        slow = statistics.quantiles(case.times, n=10)[-1]
        ratio = case.median / bare
        print(f"{case.name:42}{case.median:8.2f}{slow:8.2f}{bare:18.2f}{ratio:7.2f}")
        rows.append({"case": case.name, "median_ms": case.median, "p90_ms": slow, "bare_ms": bare, "ratio": ratio})
    path = Path(arguments.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"platform": platform.platform(), "runs": arguments.runs, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
