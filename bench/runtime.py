"""The cost of ``nri-runc`` for a container: the commands of an engine, timed as the engine sees them.

The reference is runc alone, with the same container, in turns in the same run. The processes are started by a script
in an enclosure, since a container needs cgroups and mounts; without root or runc there are no rows.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from pathlib import Path

from bench.report import Row
from harness.containerd import image
from harness.containerd.enclosure import SYSTEM_PATH, Enclosure

PLUGINS: list[dict[str, object]] = [
    {"type": "konfine", "conf": {"systemReserved": [0]}},
    {"type": "clearcfs"},
]
CONFIGURED: dict[str, list[dict[str, object]]] = {
    "an empty chain": [],
    "konfine and clearcfs": PLUGINS,
}

BATCH = 6
"""Rounds in one call of the script: a command in an enclosure has limited time."""

# Its arguments: the runtimes, what is configured for each, the state directory, the bundle, the number of rounds.
SCRIPT = """
import json, os, sys, time
cases, root, bundle, rounds = json.loads(sys.argv[1])
conf = "/etc/nri/resource.d/10.conf"
times = {}

def run(name, program, *words):
    argv = [program, "--root", root, *words]
    actions = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    started = time.perf_counter()
    pid = os.posix_spawn(program, argv, dict(os.environ), file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter() - started) * 1000
    if status:
        sys.exit(f"{argv}: {os.waitstatus_to_exitcode(status)}")
    times.setdefault(name + " " + words[0], []).append(took)

for number in range(rounds + 2):
    for name, program, document in cases:
        if document is not None:
            with open(conf, "w") as file:
                file.write(document)
            time.sleep(0.1)  # an edited directory is waited for
        run(name, program, "create", "--bundle", bundle, "web")
        run(name, program, "state", "web")
        run(name, program, "start", "web")
        run(name, program, "delete", "--force", "web")
    if number < 2:
        times.clear()
print(json.dumps(times))
"""


def measure(binaries: Path, *, runs: int) -> list[Row]:
    """Return the rows of the table; none where a container cannot be started."""
    runc = shutil.which("runc", path=SYSTEM_PATH)
    if os.geteuid() != 0 or runc is None:
        return []
    with Enclosure() as enclosure:
        times = _run(enclosure, binaries, runc, runs)
    medians = {name: statistics.median(durations) for name, durations in times.items()}
    rows = []
    for words in (("create", "start", "delete"), ("create",), ("start",), ("state",), ("delete",)):
        name = " + ".join(words)
        alone = sum(medians[f"runc {word}"] for word in words)
        rows.append(Row(name=f"{name}: runc alone", figure=alone, unit="ms"))
        for configured in CONFIGURED:
            figure = sum(medians[f"{configured} {word}"] for word in words)
            row = Row(
                name=f"{name}: nri-runc, {configured}",
                figure=figure,
                unit="ms",
                reference=alone,
                of="runc alone",
            )
            rows.append(row)
    return rows


def _run(enclosure: Enclosure, binaries: Path, runc: str, runs: int) -> dict[str, list[float]]:
    shutil.copytree(binaries, enclosure.opt_nri / "lib", symlinks=True)
    for plugin in ("konfine", "clearcfs"):
        (enclosure.opt_nri / "bin" / plugin).symlink_to(f"../lib/{plugin}")
    (enclosure.etc_nri / "resource.d").mkdir()
    bundle = enclosure.root / "bundle"
    image.unpack_rootfs(bundle / "rootfs")
    (bundle / "config.json").write_text(json.dumps(_config(f"{enclosure.cgroup_parent}/web")))
    cases: list[tuple[str, str, str | None]] = [("runc", runc, None)]
    for name, plugins in CONFIGURED.items():
        document = json.dumps({"version": "0.1", "plugins": plugins})
        cases.append((name, "/opt/nri/lib/nri-runc", document))
    times: dict[str, list[float]] = {}
    for _ in range(max(1, runs // BATCH)):
        arguments = json.dumps([cases, str(enclosure.root / "state"), str(bundle), BATCH])
        output = enclosure.run(sys.executable, "-I", "-S", "-c", SCRIPT, arguments)
        for name, durations in json.loads(output).items():
            times.setdefault(name, []).extend(durations)
    return times


def _config(cgroup: str) -> dict[str, object]:
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(image.FOREVER),
            "env": ["PATH=/bin"],
            "cwd": "/",
        },
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "annotations": {"qos.class": "ls"},
        "linux": {
            "cgroupsPath": cgroup,
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")],
            "resources": {"cpu": {"quota": 50_000, "period": 100_000}},
        },
    }
