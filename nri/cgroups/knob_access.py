"""Reading and writing a knob of the table in a container's cgroup.

What holds for all knobs: the value is checked before anything is touched; every level is read before one is written;
nothing is written that is already there; a unit of systemd's is told before its files are written, which are then
read again.
"""

from __future__ import annotations

from . import cpuset, knobs, unit_properties
from .errors import CgroupError, KnobValueError, described
from .knob_forms import UNCHANGED, AbsentFileError
from .knob_row import INNER, LIMIT, SCOPE, SETS, Knob
from .knob_table import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .knob_forms import KnobForm
    from .resolve import Place
    from .units import Unit

    Tell = Callable[[Callable[[Unit], bool]], bool | None]

__all__ = ["check", "find", "read", "write"]


def check(knob: Knob, value: Any) -> None:
    """Raise KnobValueError unless a plugin may write this value."""
    if not knob.can_be_written:
        raise KnobValueError(f"{knob.name} can only be read: found {described(value)} to write to it")
    if not knob.kind.accepts(value):
        raise KnobValueError(f"{knob.name}: found {described(value)}, expected {knob.kind.expected}")


def read(knob: Knob, place: Place) -> Any:
    """Return the value of a knob."""
    form, levels = _form(knob, place), _levels(knob, place)
    if knob.level == SETS:
        return _set_of(place.mount.version, levels, knob.name)
    return _together(knob, [_read(knob, form, level, place) for level in levels])


def write(knob: Knob, place: Place, value: Any, tell: Tell) -> Any:
    """Write a value that :func:`check` accepts; return the previous one.

    :param tell: asks or changes the unit that the cgroup is; returns None if it is none, or cannot be told.
    """
    form, levels, version = _form(knob, place), _levels(knob, place), place.mount.version
    wanted = unit_properties.property_of(knob.name, version, value)
    before: list[Any] = []
    try:
        if knob.level == SETS:
            previous = _set_of(version, levels, knob.name)
        else:
            before = [_read(knob, form, level, place) for level in levels]
            previous = form.previous(_together(knob, before), value)
    except _NoKnobError:
        if not wanted:
            raise
        previous = None  # systemd may enable the controller
    told = tell(lambda unit: unit_properties.tell(unit, knob.name, version, value)) if wanted else None
    if told:
        knobs.wait_for(f"{levels[0]}/{form.file}")
    done = f"systemd was told of {wanted} before that" if told else ""
    if knob.level == SETS:
        knobs.after(done, _write_sets, version, levels, value, knob.name)
    else:
        if not before:
            before = [_read(knob, form, level, place) for level in levels]
        _write_levels(knob, form, levels, before, value, done)
    if told is not None or knob.kind.is_remarked:
        _check_kept(knob, form, place, value)
    return previous


def _write_levels(knob: Knob, form: KnobForm, levels: list[str], before: list[Any], value: Any, done: str) -> None:
    steps = []
    for depth, (level, had) in enumerate(zip(levels, before, strict=True)):
        new = form.own(had, value) if depth and knob.level == LIMIT else value
        if new is not UNCHANGED and (new := form.changed(had, new)) is not UNCHANGED:
            steps.append((level, new, had))
    # In v1 a child's quota may not exceed its scope's: a tighter one goes to the child first.
    if knob.level == LIMIT and knob.kind.least(before[0], value) != before[0]:
        steps.reverse()
    for level, new, had in steps:
        knobs.after(done, form.write, level, new, had)
        done = f"{knob.name} of {level} was written before that, it was {described(had)}" + (done and f"; {done}")


def _write_sets(version: int, levels: list[str], value: frozenset[int], name: str) -> None:
    given = [cpuset.own(level, version, name) for level in levels]
    inherits = version == 2 and not given[-1]
    if given[0] != value or not (inherits or given[-1] == value):
        cpuset.assign_all(version, levels, value, name)


def _check_kept(knob: Knob, form: KnobForm, place: Place, value: Any) -> None:
    """Raise CgroupError unless the cgroup has the value that was just written."""
    level = place.directory
    now = cpuset.own(level, place.mount.version, knob.name) if knob.level == SETS else form.read(level)
    if form.is_kept(now, value):
        return
    raise CgroupError(
        f"{level}/{form.file} has {described(now)} right after it was given {described(value)}: "
        "expected that it stays"
    )


def _form(knob: Knob, place: Place) -> KnobForm:
    """Return the knob's form in the hierarchy's version; raise CgroupError if that has no such knob."""
    form = knob.forms.get(place.mount.version)
    if form is None:
        raise CgroupError(
            f"{place.directory} has no {knob.name}: cgroup v{place.mount.version} has nothing that does the same; "
            f"expected a node with cgroup v{3 - place.mount.version} for {knob.controller}"
        )
    return form


def _levels(knob: Knob, place: Place) -> list[str]:
    """Return the directories that count for this knob, outer first."""
    levels = place.levels(_form(knob, place).file)
    if knob.level == INNER:
        return levels[-1:]
    return levels[:1] if knob.level == SCOPE else levels


def _together(knob: Knob, values: list[Any]) -> Any:
    """Return what the values of the scope and of crun's child are together."""
    value = values[0]
    for inner in values[1:]:
        value = knob.kind.least(value, inner)
    return value


def _set_of(version: int, levels: list[str], name: str) -> frozenset[int]:
    return next((found for level in reversed(levels) if (found := cpuset.own(level, version, name))), frozenset())


class _NoKnobError(CgroupError):
    """The cgroup exists, and has no such knob."""


def _read(knob: Knob, form: KnobForm, level: str, place: Place) -> Any:
    try:
        return form.read(level)
    except AbsentFileError as absent:
        raise _NoKnobError(f"{absent} does not exist: {_why_absent(knob, level, place.mount.version)}") from absent


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
