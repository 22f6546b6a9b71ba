"""Random sequences of requests to our plugins: one process gives the same answers as a process for each request.

What happens between the requests is part of a sequence: a cgroup is removed, CPUs are unplugged, hook files change.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import machines
from nri.client import Invoker
from nri.client.resident import Residents
from nri.config.entries import PluginEntry
from nri.testing.cgroup_files import CgroupFiles
from nri.types.v1 import Request, Spec
from tests.support.waiting import SOON

PLUGINS = (
    "clearcfs",
    "konfine",
    "logger",
    "device-injector",
    "hook-injector",
    "ulimit-adjuster",
    "qos",
)
CONTAINERS = ("/kubepods/pod1/a", "/kubepods/pod1/b", "/nowhere")
STATES = ("create", "delete", "setup", "resize", "update")
KEYS = (
    *(
        "exclusive.konfine.nri.io",
        "qos.class",
        "qos.class/pod",
        "qos.class/container.web",
        "cpus.konfine",
        "io.kubernetes.cri.container-name",
    ),
    *(
        "devices.noderesource.dev/container.web",
        "mounts.nri.io/pod",
        "ulimits.nri.containerd.io/container.web",
    ),
)
TEXTS = (
    *(
        "ls",
        "system",
        "web",
        "2",
        "0-2",
        "7",
        "0-8191",
        "x",
        "",
        "- type: memlock\n  hard: 9\n  soft: 8\n",
    ),
    *(
        '[{"source": "/home", "destination": "/h", "type": "bind"}]',
        "- path: /dev/n\n  type: c\n",
        "{",
        "\x1b",
    ),
)


class World:
    """The files that the plugins read and write, below one directory that is made anew for each run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for name in ("cgroup", "hooks.d"):
            (self.root / name).mkdir(parents=True)
        self.tree = CgroupFiles(self.root / "cgroup", "v2", "0-7")
        for container in CONTAINERS[:2]:
            self.tree.make(container, cpu__max="50000 100000\n")
        self.tree.put("/kubepods/pod1", "cpuset.cpus.effective", "0-7\n")
        machines.make(self.root / "sys", cores=4, threads=2)
        (self.root / "mountinfo").write_text(self.tree.mountinfo)
        self.write_hook("true")

    def write_hook(self, name: str) -> None:
        hook = {"path": f"/bin/{name}"}
        text = json.dumps(
            {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["poststop"]}
        )
        (self.root / "hooks.d/10.json").write_text(text)

    def confs(self, plugin: str) -> list[Any]:
        """Return the confs that a request may have, right and wrong ones."""
        common = {"mountinfo": str(self.root / "mountinfo"), "run": str(self.root / "run")}
        right: dict[str, list[Any]] = {
            "clearcfs": [{"pod": True}, {"classes": ["ls", "x"], "allow": {"class": ["shop"]}}],
            "konfine": [
                {"systemReserved": [0, 1]},
                {"systemReserved": "0-7"},
                {"allow": {"cpus": ["shop"]}},
                {
                    "sys": str(self.root / "sys"),
                    "allow": {"exclusive": True},
                    "pools": [{"name": "a", "classes": ["ls"]}],
                },
            ],
            "logger": [
                {"file": str(self.root / "log")},
                {"states": ["create"]},
                {"fields": ["state", "spec"]},
            ],
            "device-injector": [{"allow": {"devices": ["shop"], "mounts": ["shop"]}}, {}],
            "hook-injector": [{"dirs": [str(self.root / "hooks.d")]}],
            "ulimit-adjuster": [{"allow": {"ulimits": ["shop"]}}, {}],
            "qos": [
                {
                    "key": "qos.class",
                    "allow": {"class": True, "batch": True},
                    "containers": {"ls": {"pids.max": 9}},
                }
                | {"pods": {"ls": {"cpu.weight": 200}}},
                {},
            ],
        }
        own = right[plugin]
        if plugin in ("clearcfs", "konfine", "qos"):
            own = [each | common for each in own]
        return [*own, {"systemReserved": "x", "classes": 1, "nothing": []}, "no object"]

    def change(self, number: int) -> None:
        """Change something that the plugins find on a node."""
        if number == 0:
            shutil.rmtree(self.root / "cgroup/kubepods/pod1/a", ignore_errors=True)
        elif number == 1:
            self.tree.make(CONTAINERS[0])
        elif number == 2:
            self.tree.put("/kubepods/pod1", "cpuset.cpus.effective", "0-3\n")
        elif number == 3:
            (self.root / "mountinfo").write_text("")
        elif number == 4:
            (self.root / "mountinfo").write_text(self.tree.mountinfo)
        elif number == 5:
            self.write_hook("false")
        else:
            (self.root / "hooks.d/10.json").write_text("{")

    def files(self) -> dict[str, str]:
        """Return the content of all files, without times."""
        found = sorted(path for path in self.root.rglob("*") if path.is_file())
        times = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z|"since":\d+')
        return {str(path): times.sub("TIME", path.read_text()) for path in found}


class Step(NamedTuple):
    """A request, and what happens before it."""

    change: int | None
    plugin: str
    conf: int
    state: str
    container: str
    annotations: dict[str, str]
    namespace: str


steps = st.builds(
    Step,
    change=st.none() | st.integers(0, 6),
    plugin=st.sampled_from(PLUGINS),
    conf=st.integers(0, 4),
    state=st.sampled_from(STATES),
    container=st.sampled_from(CONTAINERS),
    annotations=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=4),
    namespace=st.sampled_from(("shop", "other")),
)


def request_of(step: Step, world: World) -> bytes:
    confs = world.confs(step.plugin)
    spec = Spec(
        cgroups_path=step.container,
        annotations=step.annotations,
        resources={"cpu": {"quota": 50000, "period": 100000}},
        process={"args": ["/bin/sh"], "env": []},
    )
    request = Request(
        state=step.state,
        id=step.container.rpartition("/")[2],
        sandbox_id="pod1",
        spec=spec,
        labels={"io.kubernetes.pod.namespace": step.namespace},
        conf=confs[step.conf % len(confs)],
        extensions={"adjust": 1} if step.state in ("setup", "resize") else {},
    )
    return request.to_json()


def run(invoker: Invoker, plugin: str, request: bytes) -> tuple[Any, ...]:
    """Return all that can be seen of a request."""
    lines: list[str] = []
    until = time.monotonic() + SOON
    output = invoker.run(invoker.find(plugin), plugin, request, until, lines.append)
    log = [re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line) for line in lines]
    return output.stdout, output.status, output.stopped, log


def outcomes(invoker: Invoker, world: World, sequence: list[Step]) -> list[Any]:
    """Return all that can be seen of a sequence, in a new world."""
    world.make()
    found: list[Any] = []
    for step in sequence:
        if step.change is not None:
            world.change(step.change)
        found += [run(invoker, step.plugin, request_of(step, world)), world.files()]
        if isinstance(invoker, Residents):
            invoker.tidy()
            invoker.prepare(SOON)
    return found


@pytest.fixture(scope="module")
def residents(binaries: Path) -> Iterator[Residents]:
    residents = Residents([str(binaries)])
    residents.keep(
        [
            PluginEntry(type=str(name))
            for name in os.listdir(binaries)
            if (binaries / name).is_file()
        ]
    )
    yield residents
    residents.close()


def test_same_answers(
    binaries: Path, residents: Residents, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "nri.client")
    world, spawned = World(tmp_path / "world"), Invoker([str(binaries)])
    residents.prepare(SOON)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(steps, min_size=2, max_size=12))
    def same(sequence: list[Step]) -> None:
        assert outcomes(residents, world, sequence) == outcomes(spawned, world, sequence)

    same()
    answered, started = [
        caplog.text.count(part) for part in ("its resident answers", "starting a process")
    ]
    assert answered > started
    for plugin in PLUGINS:
        assert residents.standing(f"{binaries}/{plugin}").state == "ready"
