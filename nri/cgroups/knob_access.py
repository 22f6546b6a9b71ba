"""Reading and writing a knob of the table in a container's cgroup.

Rules for all knobs: the value is checked before anything is touched; every level is read before one is written;
nothing is written that is already there; systemd gets a unit's property before the files are written, which are then
read again. systemd writes a property's value when another one of the same controller changes; a file that it has no
property for it leaves alone.
"""

from __future__ import annotations

from . import cpuset, knobs
from .errors import CgroupError, KnobValueError, NoKnobError, described
from .knob_table import INNER, LIMIT, SCOPE, SETS, AbsentFileError, Knob, find
from .quota import Quota
from .units import INFINITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .knob_table import File
    from .resolve import Place
    from .units import Unit

    Tell = Callable[[Callable[[Unit], bool]], bool | None]

__all__ = ["check", "find", "read", "write"]


def check(knob: Knob, value: Any) -> None:
    """Raise KnobValueError unless a plugin may write this value."""
    if not knob.can_be_written:
        raise KnobValueError(f"{knob.name} can only be read: found {described(value)} to write to it")
    if not knob.values.accepts(value):
        raise KnobValueError(f"{knob.name}: found {described(value)}, expected {knob.values.expected}")


def read(knob: Knob, place: Place) -> Any:
    """Return the value of a knob."""
    return _together(knob, _read(knob, place))


def write(knob: Knob, place: Place, value: Any, tell: Tell) -> Any:
    """Write a value that ``check`` accepts; return the previous one.

    :param tell: asks or changes the cgroup's unit; returns None if there is none, or if systemd does not answer.
    """
    file, levels = _file(knob, place), _levels(knob, place)
    before: list[Any] = []
    try:
        before = _read(knob, place)
        previous = _together(knob, before)
    except NoKnobError:
        if not file.told:
            raise
        previous = None  # systemd may enable the controller
    changed = tell(lambda unit: _tell(unit, file, value)) if file.told else None
    if changed:
        knobs.wait_for(f"{levels[0]}/{file.name}")
    done = f"systemd was told of {file.told} before that" if changed else ""
    before = before or _read(knob, place)
    if knob.level == SETS:
        knobs.after(done, _write_sets, place.mount.version, levels, value, knob.name)
    else:
        _write_levels(knob, file, levels, before, value, done)
    if changed is not None:
        _check_kept(file, levels[0], value)
    return previous


def _write_levels(knob: Knob, file: File, levels: list[str], before: list[Any], value: Any, done: str) -> None:
    values = file.values
    steps = [
        (level, had)
        for depth, (level, had) in enumerate(zip(levels, before, strict=True))
        if not values.same(had, value) and (not depth or knob.level != LIMIT or values.limits(had))
    ]
    # In v1 a child's quota may not exceed its scope's: a tighter one goes to the child first.
    if knob.level == LIMIT and values.tightest(before[0], value) != before[0]:
        steps.reverse()
    for level, had in steps:
        knobs.after(done, _write_all, file, level, value, had)
        done = f"{knob.name} of {level} was written before that, it was {described(had)}" + (done and f"; {done}")


def _write_all(file: File, level: str, value: Any, had: Any) -> None:
    knobs.write_all(level, file.steps(level, value, had), "it was there a moment ago", file.hints)


def _write_sets(version: int, levels: list[str], value: frozenset[int], name: str) -> None:
    given = [cpuset.own(level, version, name) for level in levels]
    inherits = version == 2 and not given[-1]
    if given[0] != value or not (inherits or given[-1] == value):
        cpuset.assign_all(version, levels, value, name)


def _tell(unit: Unit, file: File, value: Any) -> bool:
    """Give the unit this value of the file's property, if it has another; return whether it had another."""
    if isinstance(value, frozenset):
        return unit.set_numbers(file.told, value)
    if isinstance(value, Quota):
        return unit.set_quota(value)
    return unit.set_number(file.told, INFINITY if value is None else file.values.in_file(value))


def _check_kept(file: File, level: str, value: Any) -> None:
    """Raise CgroupError unless the cgroup has what was just written."""
    now = file.read(level)
    if not file.values.kept(now, value):
        raise CgroupError(
            f"{level}/{file.name} has {described(now)} right after it was given {described(value)}: "
            "expected that it stays"
        )


def _file(knob: Knob, place: Place) -> File:
    """Return the knob's file in the hierarchy's version; raise NoKnobError if that has no such knob."""
    version = place.mount.version
    if version not in knob.files:
        raise NoKnobError(
            f"{place.directory} has no {knob.name}: cgroup v{version} has nothing that does the same; "
            f"expected a node with cgroup v{3 - version} for {knob.controller}"
        )
    return knob.files[version]


def _levels(knob: Knob, place: Place) -> list[str]:
    """Return the directories that count for this knob, outer first."""
    levels = place.levels(_file(knob, place).name)
    if knob.level == INNER:
        return levels[-1:]
    return levels[:1] if knob.level == SCOPE else levels


def _read(knob: Knob, place: Place) -> list[Any]:
    """Return the value of each level."""
    file, values = _file(knob, place), []
    for level in _levels(knob, place):
        try:
            if knob.level == SETS:
                values.append(cpuset.own(level, place.mount.version, knob.name))
            else:
                values.append(file.read(level))
        except AbsentFileError as absent:
            raise NoKnobError(f"{absent} does not exist: {_why_absent(knob, level, place.mount.version)}") from absent
    return values


def _together(knob: Knob, levels: list[Any]) -> Any:
    """Return the value that a scope and crun's child have together."""
    if knob.level == SETS:
        return next(filter(None, reversed(levels)), levels[0])
    outer, *inner = levels
    for value in inner:
        outer = knob.values.tightest(outer, value)
    return outer


def _why_absent(knob: Knob, level: str, version: int) -> str:
    kernel = f"the kernel lacks it, which needs {knob.needs}"
    if version == 1:
        return f"{kernel}; or this is no cgroup of {knob.controller}"
    listed = knobs.read_optional(f"{level}/cgroup.controllers")
    if listed is not None and knob.controller in listed.split():
        return kernel
    parent = (
        f"the cgroup.subtree_control of the parent lacks {knob.controller}; "
        f"'+{knob.controller}' written there enables it"
    )
    return parent if listed is not None else f"{parent}; or {kernel}"
