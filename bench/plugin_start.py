"""The cost of one run of a plugin: the whole process, from its start until it is reaped.

Two references are measured in turns with the plugins, so that a noisy moment affects all of them: a bare interpreter
(``python3 -I -S -c pass``, the interpreter in the binaries) and an empty plugin in C, which is compiled here. The
figures are medians; the ratio is to the bare interpreter.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.report import Row
from harness import machines
from harness.fake_systemd import FakeSystemd
from nri.plugins.konfine import EXCLUSIVE
from nri.testing.cgroup_files import CgroupFiles

WARM_UP = 3

UNIT = "/kubepods.slice/kubepods-podbench.slice/cri-containerd-bench.scope"

REQUEST: dict[str, Any] = {
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
    """A command, its stdin, and its durations in milliseconds."""

    def __init__(
        self,
        name: str,
        argv: list[str],
        stdin: bytes = b"",
        *,
        reset: tuple[Path, str] | None = None,
        goal: float | None = None,
        beside: Case | None = None,
    ) -> None:
        self.name = name
        self.beside = beside  # the reference, if it is not the bare interpreter
        self.goal = goal
        self.argv = argv
        self.stdin = stdin
        self.reset = reset
        self.times: list[float] = []

    def run(self) -> bytes:
        """Run the command once; return its stdout."""
        if self.reset is not None:
            self.reset[0].write_text(self.reset[1])
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
            stdin.write(self.stdin)
            stdin.seek(0)
            actions = [
                (os.POSIX_SPAWN_DUP2, stdin.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, stdout.fileno(), 1),
            ]
            started = time.perf_counter()
            pid = os.posix_spawn(
                self.argv[0], self.argv, {"PATH": "/usr/bin:/bin"}, file_actions=actions
            )
            _, status = os.waitpid(pid, 0)
            self.times.append((time.perf_counter() - started) * 1000)
            stdout.seek(0)
            answer = stdout.read()
        if status != 0 or (b'"error":""' not in answer and self.stdin and b'"error"' in answer):
            raise SystemExit(
                f"{self.name}: exit status {os.waitstatus_to_exitcode(status)}, answered {answer!r}"
            )
        return answer

    @property
    def median(self) -> float:
        """The median duration in milliseconds."""
        return statistics.median(self.times)


def measure(scratch: Path, binaries: Path, *, runs: int) -> list[Row]:
    """Return the rows of the table."""
    with FakeSystemd(scratch / "run", UNIT):
        return _measure(_cases(scratch, binaries), runs)


def _measure(cases: list[Case], runs: int) -> list[Row]:
    for number in range(runs + WARM_UP):
        for case in cases:
            answer = case.run()
            if case.reset is not None and (b'"skipped"' in answer or b'"error":""' not in answer):
                raise SystemExit(
                    f"{case.name}: it should have written to a cgroup, and answered {answer!r}"
                )
            if number < WARM_UP:
                case.times.clear()  # the first runs fill the page cache
    bare = cases[0].median
    rows = [Row(name=cases[0].name, figure=bare, unit="ms")]
    for case in cases[1:]:
        reference, of = (
            (bare, "bare interpreter")
            if case.beside is None
            else (case.beside.median, "with few, or none")
        )
        rows.append(
            Row(
                name=case.name,
                figure=case.median,
                unit="ms",
                reference=reference,
                of=of,
                goal=case.goal,
            )
        )
    return rows


def _cases(scratch: Path, binaries: Path) -> list[Case]:
    tree = CgroupFiles(scratch / "cgroup", "v1")
    tree.make("/kubepods/podbench/bench", cpu__cfs_quota_us="50000\n", cpuset__cpus="0-3\n")
    tree.put("/kubepods/podbench", "cpuset.cpus", "0-3\n")
    tree.make(UNIT, cpu__cfs_quota_us="50000\n")
    unit_quota = Path(tree.file(UNIT, "cpu.cfs_quota_us"))
    quota = Path(tree.file("/kubepods/podbench/bench", "cpu.cfs_quota_us"))
    mountinfo = scratch / "mountinfo"
    mountinfo.write_text(tree.mountinfo)
    conf = {"mountinfo": str(mountinfo)}
    sensitive = {"qos.class": "ls", **REQUEST["spec"]["annotations"]}
    clear = REQUEST | {"conf": conf, "spec": REQUEST["spec"] | {"annotations": sensitive}}
    unit = {"annotations": sensitive, "cgroupsPath": "kubepods-podbench.slice:cri-containerd:bench"}
    tell = REQUEST | {"conf": conf | {"run": str(scratch / "run")}, "spec": REQUEST["spec"] | unit}
    confine = REQUEST | {"conf": conf | {"systemReserved": [0]}}
    interpreter = os.path.realpath(sys.executable)
    clearcfs, konfine = (
        [str(binaries / "clearcfs"), "invoke"],
        [str(binaries / "konfine"), "invoke"],
    )
    return [
        Case("bare interpreter: python3 -I -S -c pass", [interpreter, "-I", "-S", "-c", "pass"]),
        Case("C no-op plugin", [str(binaries / "noop"), "invoke"], document(REQUEST)),
        Case("clearcfs, nothing to do", clearcfs, document(REQUEST), goal=2.0),
        Case(
            "clearcfs, clears a quota",
            clearcfs,
            document(clear),
            reset=(quota, "50000\n"),
            goal=2.3,
        ),
        Case(
            "clearcfs, the same in a unit of systemd",
            clearcfs,
            document(tell),
            reset=(unit_quota, "50000\n"),
        ),
        Case("konfine, confines", konfine, document(confine)),
        *_giving(scratch, konfine),
        *_hooks(scratch, binaries, conf),
        *_annotated(binaries, conf),
    ]


def _giving(scratch: Path, konfine: list[str]) -> list[Case]:
    """Return konfine where it gives out CPUs: a container that starts on an empty machine, and beside 500 others."""
    cases: list[Case] = []
    for others in (0, 500):
        root = scratch / f"giving-{others}"
        tree = CgroupFiles(root / "cgroup", "v2", "0-255")
        (root / "mountinfo").write_text(tree.mountinfo)
        conf = {
            "mountinfo": str(root / "mountinfo"),
            "run": str(root / "run"),
            "sys": machines.make(root / "sys", packages=2, caches=8, cores=8, threads=2),
            "allow": {"exclusive": True},
        }
        for number in range(others, -1, -1):
            tree.make(path := f"/kubepods/pod{number}/web")
            tree.put(f"/kubepods/pod{number}", "cpuset.cpus.effective", "0-255\n")
            annotations = {EXCLUSIVE: "2"} if number % 5 == 4 else {}
            spec = {"cgroupsPath": path, "annotations": annotations}
            request = REQUEST | {"id": f"web-{number}", "spec": spec, "conf": conf}
            if number:
                subprocess.run(konfine, input=document(request), check=True, capture_output=True)
        file = Path(tree.file("/kubepods/pod0/web", "cpuset.cpus"))
        name = f"konfine gives out CPUs of 256, {others or 'no'} other containers"
        beside = {"beside": cases[0], "goal": 2.0} if cases else {}
        cases.append(Case(name, konfine, document(request), reset=(file, ""), **beside))  # type: ignore[arg-type]
    return cases


def _annotated(binaries: Path, conf: dict[str, str]) -> list[Case]:
    """Return the plugins with few annotations, and beside each with as many as Kubernetes takes: 256 KiB."""
    cases = []
    many = {f"example.com/{number:04}": "x" * 238 for number in range(1024)} | REQUEST["spec"][
        "annotations"
    ]
    for plugin in (
        "clearcfs",
        "konfine",
        "device-injector",
        "hook-injector",
        "ulimit-adjuster",
        "qos",
    ):
        state = "create" if plugin in ("clearcfs", "konfine") else "setup"
        few = REQUEST | {"state": state} | ({"conf": conf} if state == "create" else {})
        argv = [str(binaries / plugin), "invoke"]
        cases.append(Case(f"{plugin}, few annotations", argv, document(few)))
        full = few | {"spec": REQUEST["spec"] | {"annotations": many}}
        name = f"{plugin}, 256 KiB of annotations"
        cases.append(Case(name, argv, document(full), goal=2.0, beside=cases[-1]))
    return cases


def _hooks(scratch: Path, binaries: Path, conf: dict[str, str]) -> list[Case]:
    bundle = scratch / "bundle"
    bundle.mkdir()
    linux = {
        "cgroupsPath": REQUEST["spec"]["cgroupsPath"],
        "resources": REQUEST["spec"]["resources"],
    }
    (bundle / "config.json").write_bytes(document({"ociVersion": "1.0.2", "linux": linux}))
    state = {
        "ociVersion": "1.0.2",
        "id": "bench",
        "status": "created",
        "pid": 0,
        "bundle": str(bundle),
    }
    plugins = [{"type": "konfine", "conf": conf}, {"type": "clearcfs", "conf": conf}]
    cases = []
    for name, configured, goal in (("no plugin", [], None), ("two plugins", plugins, 3.5)):
        conf_dir = scratch / f"resource.d {name}"
        conf_dir.mkdir()
        (conf_dir / "10.conf").write_bytes(document({"version": "0.1", "plugins": configured}))
        argv = [
            str(binaries / "nri"),
            "hook",
            "create",
            "--conf-dir",
            str(conf_dir),
            "--bin-dir",
            str(binaries),
        ]
        cases.append(Case(f"nri hook create, {name}", argv, document(state), goal=goal))
    return cases


def document(value: object) -> bytes:
    return json.dumps(value).encode()
