"""Many pods at once on four CPUs, each asked by a konfine process of its own, some of which are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nri.cgroups import parse_cpus
from nri.types.v1 import Result
from tests.support.giving import GivingNode

SCRIPT = """
import os
from nri import skel
from nri.cgroups import knobs
from nri.plugins.konfine import Konfine


def put(path, data):
    '''A file of a cgroup changes as a whole, as in the kernel.'''
    os.stat(path)
    with open(f"{path}.{os.getpid()}", "wb") as file:
        file.write(data)
    os.rename(f"{path}.{os.getpid()}", path)
    return len(data)


knobs.put = put
skel.main(Konfine())
"""
PODS, WAVES, AT_ONCE = 200, 5, 8


class Waves(GivingNode):
    """A node that starts and stops pods side by side."""

    def ask(
        self, state: str, name: str, ask: int | None, killed_after: float | None = None
    ) -> bool:
        """Run a process; return whether it has answered without an error."""
        command = [sys.executable, str(self.root / "konfine"), "invoke"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin is not None
            process.stdin.write(self.request(state, name, ask=ask).to_json())
            process.stdin.close()
            if killed_after is not None:
                time.sleep(killed_after)
                process.kill()
            assert process.stdout is not None
            output = process.stdout.read()
        return process.returncode == 0 and not Result.from_json(output).error

    def live(self, name: str, chance: random.Random) -> None:
        """Start a pod, and perhaps end it; a process that is killed keeps its container from starting."""
        ask = chance.choice([None, None, 1, 1, 2])
        path = self.make(name)
        if not self.ask("create", name, ask, chance.choice([None, None, chance.random() * 0.15])):
            self.remove(path)
            return
        self.asked[name] = ask
        self.started[name] = path
        if chance.random() < 0.7:
            del self.started[name]
            if chance.random() < 0.8:
                self.ask("delete", name, ask, chance.choice([None, chance.random() * 0.15]))
            self.remove(path)

    asked: dict[str, int | None]


def test_no_cpu_is_given_twice_to_200_pods_with_kills(tmp_path: Path) -> None:
    node = Waves(tmp_path, cores=4)
    node.asked = {}
    # As the kubelet, before any pod: the made-up tree is for one thread.
    node.files.make("/kubepods/burstable")
    (tmp_path / "konfine").write_text(SCRIPT)
    for wave in range(WAVES):
        names = [f"pod{wave}-{number}" for number in range(PODS // WAVES)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: node.live(name, random.Random(name)), names))
        last = f"last{wave}"
        node.started[last], node.asked[last] = node.make(last), None
        assert node.ask("create", last, None)
        judge(node)
        for name in list(node.started)[:-3]:
            node.remove(node.started.pop(name))
    assert set(node.asked.values()) == {None, 1, 2}


def judge(node: Any) -> None:
    """Read the cgroups after all requests have ended, and one more has put right what kills have left undone."""
    sets = node.sets()
    alone = {name: cpus for name, cpus in sets.items() if node.asked[name]}
    for name, cpus in alone.items():
        assert len(cpus) == node.asked[name]
        assert not any(cpus & other for each, other in sets.items() if each != name), node.all()
    left = parse_cpus("0-3").difference(*alone.values())
    assert left
    assert all(sets[name] == left for name in sets.keys() - alone.keys()), node.all()
