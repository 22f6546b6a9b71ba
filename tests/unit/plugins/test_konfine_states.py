"""A state machine: the days of a node, while konfine is killed between any two of its writes, and loses its record.

Containers come, are resized, restart in their pods, have a second life, and go; they make cpusets of their own; CPUs
go offline and come back; some are isolated. After each step the cgroups alone are judged, not the record: no CPU of a
container that runs is given twice, the shared ones are never fewer than their minimum, no container shares isolated
ones, and nothing is left of a container that is gone.
"""

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from nri.cgroups import knobs, parse_cpus, render_cpus
from nri.plugins.konfine import record
from nri.types.v1 import Result
from tests.support.giving import GivingNode

NAMES = st.sampled_from(
    [f"{pod}/{container}" for pod in "abc" for container in ("main", "side")] + ["d", "e"]
)
KINDS = st.sampled_from(["shared", "exclusive 1", "exclusive 2", "exclusive 3", "pool"])
KILLED_AT = st.none() | st.integers(0, 14)
"""The write before which the process is killed; some requests have fewer."""

LEAST = 2
WRITES = ("write", "rename")


class KilledError(BaseException):
    """The process is killed: nothing that handles errors may see this."""


class Dying:
    """The module ``os`` of a process that is killed before one of its writes.

    A file keeps its text until it is written, as the kernel's do, which are not emptied when they are opened. In v1 a
    cpuset that lacks a CPU of one below it is refused.
    """

    def __init__(self, at: int | None, nests: bool) -> None:
        self.left, self.nests = at, nests

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in WRITES:
            return real

        def counted(*arguments: Any) -> Any:
            if self.left == 0:
                raise KilledError
            self.left = None if self.left is None else self.left - 1
            if name == "write":
                if self.nests:
                    self._check_below(*arguments)
                os.ftruncate(arguments[0], 0)
            return real(*arguments)

        return counted

    def _check_below(self, fd: int, data: bytes) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.name == "cpuset.cpus":
            for below in path.parent.glob("*/cpuset.cpus"):
                if not parse_cpus(below.read_text()) <= parse_cpus(data.decode()):
                    raise OSError(errno.EBUSY, "Device or resource busy")

    def open(self, path: str, flags: int, *mode: int) -> int:
        return os.open(path, flags & ~os.O_TRUNC, *mode)


class Containers(RuleBasedStateMachine):
    """The containers of a node with eight CPUs, of which one is reserved and two may be isolated."""

    kind_of_cgroups = "v2"

    @initialize(isolated=st.sampled_from(["", "6-7"]))
    def begin(self, isolated: str) -> None:
        self.root = tempfile.mkdtemp(prefix="nri-")
        self.node = GivingNode(
            Path(self.root), self.kind_of_cgroups, caches=2, cores=2, threads=2, isolated=isolated
        )
        self.node.conf |= {
            "systemReserved": [0],
            "exclusive": {"minShared": LEAST},
            "pools": [{"name": "batch", "max": 2, "classes": ["batch"]}],
        }
        self.isolated = parse_cpus(isolated)
        self.kinds: dict[str, str] = {}
        self.sandboxes: set[str] = set()
        self.has_waiting = False  # CPUs may be kept for a container of which no event comes
        self.is_settled = True
        self.online = parse_cpus("0-7")
        self.was_switched = False
        # A pool that several have may be taken for the shared CPUs, or the reverse.
        self.was_lost = False

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
        dying = Dying(at, self.node.files.kind == "v1")
        with patch.object(record, "os", dying), patch.object(knobs, "os", dying):
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
            self.has_waiting = True
            if result is None or result.error:
                return  # no container, and no delete: its CPUs are kept for a while
        path = self.node.make(name)
        result = self.ask("create", name, kind, at)
        self.is_settled = result is not None and not result.error
        if self.is_settled:
            self.node.started[name], self.kinds[name] = path, kind
            return
        self.node.remove(path)
        self.has_waiting = True
        if is_undone:
            self.ask("delete", name, kind, None)

    @rule(pod=st.sampled_from("abc"), is_told=st.booleans())
    def start_or_stop_a_sandbox(self, pod: str, is_told: bool) -> None:
        """The CPUs of a container that ends are kept while the sandbox lives."""
        name = f"{pod}/{pod}"
        if pod not in self.sandboxes:
            self.sandboxes.add(pod)
            self.start(name, "shared", None, False, False)
        elif name in self.kinds:
            self.sandboxes.discard(pod)
            self.stop(name, None, is_told)

    @rule(name=NAMES, kind=KINDS, at=KILLED_AT)
    def set_up(self, name: str, kind: str, at: int | None) -> None:
        """A container that is never started, and whose ``delete`` follows."""
        if name not in self.kinds:
            self.ask("setup", name, kind, at)
            deleted = self.ask("delete", name, kind, None)
            self.has_waiting = True
            self.is_settled = deleted is not None and not deleted.error

    @rule(name=NAMES, at=KILLED_AT, is_told=st.booleans())
    def stop(self, name: str, at: int | None, is_told: bool) -> None:
        kind = self.kinds.pop(name, None)
        if kind is None:
            return
        path = self.node.started.pop(name)
        result = self.ask("delete", name, kind, at) if is_told else None
        self.is_settled = result is not None and not result.error
        self.has_waiting |= bool(self.sandboxes)
        self.node.remove(path)

    @rule(name=NAMES, at=KILLED_AT)
    def restart(self, name: str, at: int | None) -> None:
        """The same container of its pod, of another id."""
        if (kind := self.kinds.get(name)) is None or "/" not in name:
            return
        before = self.node.sets()[name]
        is_kept = name.partition("/")[0] in self.sandboxes and self.online >= before
        is_kept = is_kept and not self.was_lost
        self.stop(name, None, True)
        again = f"{name}#1"
        path = self.node.make(again)
        result = self.ask("create", again, kind, at)
        self.is_settled = result is not None and not result.error
        if (
            self.is_settled
            and is_kept
            and kind.startswith("exclusive")
            and len(before) == int(kind[-1])
        ):
            assert parse_cpus(self.node.files.get(path, "cpuset.cpus")) == before
        self.ask("delete", again, kind, None)
        self.node.remove(path)
        self.is_settled = False

    @rule(name=NAMES)
    def live_again(self, name: str) -> None:
        """Its cgroup was removed and made anew, and no event has told so."""
        if kind := self.kinds.get(name):
            self.node.remove(self.node.started[name])
            self.node.make(name)
            result = self.ask("create", name, kind, None)
            assert result is not None
            if result.error:  # there is less room now
                self.node.remove(self.node.started.pop(name))
                del self.kinds[name]
            self.is_settled = not result.error

    @rule(name=NAMES, kind=KINDS, at=KILLED_AT)
    def update(self, name: str, kind: str, at: int | None) -> None:
        """A resize, or the same again; a set that cannot grow stays, and the host repeats what was killed."""
        if name in self.kinds:
            before, cpus = self.kinds[name], self.node.sets()[name]
            result = self.ask("update", name, kind, at) or self.ask("update", name, kind, None)
            assert result is not None
            self.is_settled = True
            self.kinds[name] = kind
            if result.error:
                has_alone = kind.startswith("exclusive") and before.startswith("exclusive")
                # Where the containers without a request seem to have all others, it keeps its own.
                is_kept = self.was_lost and kind == "shared" and self.node.sets()[name] == cpus
                self.kinds[name] = before if has_alone or is_kept else "shared"
                assert not has_alone or self.node.sets()[name] == (cpus & self.online or cpus)

    @rule(name=NAMES, data=st.data())
    def nest(self, name: str, data: st.DataObject) -> None:
        """The container makes a cpuset of some of its CPUs."""
        if name in self.kinds:
            path = f"{self.node.started[name]}/nested"
            own = sorted(self.node.sets()[name])
            if own:
                self.node.files.make(path)
                self.node.files.put(path, "cpuset.cpus", f"{data.draw(st.sampled_from(own))}\n")

    @rule(cpu=st.sampled_from([3, 5, 7]))
    def switch_a_cpu(self, cpu: int) -> None:
        """The next event gives all containers what is left."""
        self.online ^= {cpu}
        self.was_switched = True
        (Path(self.node.sys) / "devices/system/cpu/online").write_text(
            f"{render_cpus(self.online)}\n"
        )
        self.is_settled = False

    @rule()
    def lose_the_record(self) -> None:
        self.node.record.unlink(missing_ok=True)
        self.is_settled = False
        # What cannot be told from a set of one container alone stays as it is.
        self.has_waiting = self.was_lost = True

    @invariant()
    def no_cpu_is_given_twice(self) -> None:
        if not hasattr(self, "node"):
            return
        sets = self.node.sets()
        alone = {
            name: cpus for name, cpus in sets.items() if self.kinds[name].startswith("exclusive")
        }
        pooled = {name: cpus for name, cpus in sets.items() if self.kinds[name] == "pool"}
        shared = {name: cpus for name, cpus in sets.items() if self.kinds[name] == "shared"}
        for name, cpus in alone.items():
            assert 0 < len(cpus) <= int(self.kinds[name][-1]), self.node.all()
            assert not any(cpus & other for each, other in sets.items() if each != name), (
                self.node.all()
            )
        assert all(cpus and cpus <= parse_cpus("1-7") for cpus in sets.values())
        assert not any(cpus & self.isolated for cpus in [*shared.values(), *pooled.values()])
        if self.is_settled:
            usable = (parse_cpus("1-7") & self.online) - self.isolated
            taken = frozenset[int]().union(*alone.values(), *pooled.values())
            assert not any(cpus & taken for cpus in shared.values()) or self.was_lost
            assert len(usable - taken) >= LEAST or self.was_switched or self.was_lost
            if not self.has_waiting:
                assert len(set(pooled.values())) <= 1
                assert all(cpus == usable - taken for cpus in shared.values()), self.node.all()


class ContainersV1(Containers):
    kind_of_cgroups = "v1"


@pytest.mark.parametrize("machine", [Containers, ContainersV1], ids=["v2", "v1"])
def test_no_cpu_is_given_twice(machine: type[Containers]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=20, deadline=None)
    )
