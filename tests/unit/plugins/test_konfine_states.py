"""A state machine: containers come and go, konfine is killed between any two of its writes, and loses its record.

After each step the cgroups alone are judged, not the record: no CPU of a container that runs is given twice, the
shared ones are never fewer than their minimum, and nothing is left of a container that is gone.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from nri.cgroups import knobs, parse_cpus
from nri.plugins.konfine import state
from nri.types.v1 import Result
from tests.support.giving import GivingNode

NAMES = st.sampled_from([f"{pod}/{container}" for pod in "abc" for container in ("main", "side")] + ["d", "e"])
KINDS = st.sampled_from(["shared", "exclusive 1", "exclusive 2", "exclusive 3", "pool"])
KILLED_AT = st.none() | st.integers(0, 14)
"""The write before which the process is killed; some requests have fewer."""

LEAST = 2
WRITES = ("write", "rename", "setxattr")


class KilledError(BaseException):
    """The process is killed: nothing that handles errors may see this."""


class Dying:
    """The module ``os`` of a process that is killed before one of its writes.

    A file keeps its text until it is written, as the kernel's do, which are not emptied when they are opened.
    """

    def __init__(self, at: int | None) -> None:
        self.left = at

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in WRITES:
            return real

        def counted(*arguments: Any) -> Any:
            if self.left == 0:
                raise KilledError
            self.left = None if self.left is None else self.left - 1
            if name == "write":
                os.ftruncate(arguments[0], 0)
            return real(*arguments)

        return counted

    def open(self, path: str, flags: int, *mode: int) -> int:
        return os.open(path, flags & ~os.O_TRUNC, *mode)


class Containers(RuleBasedStateMachine):
    """The containers of a node with six CPUs that can be given out."""

    kind_of_cgroups = "v2"

    @initialize()
    def begin(self) -> None:
        self.root = tempfile.mkdtemp(prefix="nri-")
        self.node = GivingNode(Path(self.root), self.kind_of_cgroups, caches=2, cores=2, threads=2)
        self.node.conf |= {
            "systemReserved": [0],
            "exclusive": {"minShared": LEAST},
            "pools": [{"name": "batch", "max": 2, "classes": ["batch"]}],
        }
        self.kinds: dict[str, str] = {}
        self.pending: set[str] = set()
        self.is_settled = True

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    def ask(self, step: str, name: str, kind: str, at: int | None) -> Result | None:
        """Run the plugin; None if it was killed."""
        options: dict[str, Any] = {"cpu": {"shares": 1536}}
        if kind == "pool":
            options["annotations"] = {"qos.class": "batch"}
        elif kind != "shared":
            options["ask"] = kind.partition(" ")[2]
        dying = Dying(at)
        with patch.object(state, "os", dying), patch.object(knobs, "os", dying):
            try:
                return self.node.run(step, name, **options)
            except KilledError:
                return None

    @rule(name=NAMES, kind=KINDS, at=KILLED_AT, has_setup=st.booleans(), is_undone=st.booleans())
    def start(self, name: str, kind: str, at: int | None, has_setup: bool, is_undone: bool) -> None:
        """A container that a failure of the plugin keeps from starting, with or without a ``delete``."""
        if name in self.kinds:
            return
        if has_setup:
            result = self.ask("setup", name, kind, at if is_undone else None)
            self.pending.add(name)
            if result is None or result.error:
                return  # no container, and no delete: its CPUs are kept for a while
        path = self.node.make(name)
        result = self.ask("create", name, kind, at)
        self.is_settled = result is not None and not result.error
        if self.is_settled:
            self.node.started[name], self.kinds[name] = path, kind
            self.pending.discard(name)
            return
        self.node.remove(path)
        if is_undone:
            self.ask("delete", name, kind, None)
            self.pending.discard(name)

    @rule(name=NAMES, kind=KINDS, at=KILLED_AT)
    def set_up(self, name: str, kind: str, at: int | None) -> None:
        """A container that is never started, and whose ``delete`` follows."""
        if name not in self.kinds:
            self.ask("setup", name, kind, at)
            deleted = self.ask("delete", name, kind, None)
            self.pending.discard(name)
            self.is_settled = deleted is not None and not deleted.error

    @rule(name=NAMES, at=KILLED_AT, is_told=st.booleans())
    def stop(self, name: str, at: int | None, is_told: bool) -> None:
        kind = self.kinds.pop(name, None)
        if kind is None:
            return
        path = self.node.started.pop(name)
        result = self.ask("delete", name, kind, at) if is_told else None
        self.is_settled = result is not None and not result.error
        self.node.remove(path)

    @rule(name=NAMES, at=KILLED_AT)
    def update(self, name: str, at: int | None) -> None:
        if name in self.kinds:
            result = self.ask("update", name, self.kinds[name], at)
            self.is_settled = result is not None
            assert result is None or result.error == ""

    @rule()
    def lose_the_record(self) -> None:
        self.node.record.unlink(missing_ok=True)

    @invariant()
    def no_cpu_is_given_twice(self) -> None:
        if not hasattr(self, "node"):
            return
        sets = self.node.sets()
        alone = {name: cpus for name, cpus in sets.items() if self.kinds[name].startswith("exclusive")}
        pooled = {name: cpus for name, cpus in sets.items() if self.kinds[name] == "pool"}
        for name, cpus in alone.items():
            assert len(cpus) == int(self.kinds[name][-1])
            assert not any(cpus & other for each, other in sets.items() if each != name), self.node.all()
        usable = parse_cpus("1-7")
        assert all(cpus and cpus <= usable for cpus in sets.values())
        taken = frozenset[int]().union(*alone.values(), *pooled.values())
        assert len(usable - taken) >= LEAST
        if self.is_settled and not self.pending:
            shared = [cpus for name, cpus in sets.items() if self.kinds[name] == "shared"]
            assert all(cpus == usable - taken for cpus in shared), self.node.all()
            assert len(set(pooled.values())) <= 1


class ContainersV1(Containers):
    kind_of_cgroups = "v1"


@pytest.mark.parametrize("machine", [Containers, ContainersV1], ids=["v2", "v1"])
def test_no_cpu_is_given_twice(machine: type[Containers]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=20, deadline=None))
