"""One knob of a cgroup: the values that it takes, its files in both versions, and how it is read and written.

Rules for all knobs: the value is checked before anything is touched; every level is read before one is written;
nothing is written that is already there; systemd gets a unit's property before the files are written, which are then
read again. systemd writes a property's value when another one of the same controller changes; a file that it has no
property for it leaves alone. No text of a file is trusted: one may hold what cannot be written, such as the weight 0
of a cgroup with ``cpu.idle``, so ``parse`` is more lenient than ``accepts``.
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

from . import knobs
from .errors import CgroupError, KnobValueError, NoKnobError, described, quoted
from .units import INFINITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .resolve import Place
    from .units import Unit

    Conversion = tuple[Callable[[int], int], Callable[[int], int]]
    Tell = Callable[[Callable[[Unit], bool]], bool | None]

SCOPE = "scope"
LIMIT = "limit"
BOTH = "both"
SETS = "sets"
INNER = "inner"
"""The level that is read and written where crun made a child of the scope.

- ``scope``: the scope's. For what counts among siblings (weights), for all below (oom.group), and what is counted.
- ``limit``: written to the scope, and to the child if it has a limit of its own; the tightest is read.
- ``both``: written to both, since the child has only what it has itself (protections, boosts); the lesser is read.
- ``sets``: as ``nri.cgroups.Cgroup.set_cpus`` and ``cpus`` do.
- ``inner``: only read, from the child: what is in effect.
"""

_COUNTED = {SCOPE: slice(1), INNER: slice(-1, None)}
"""The directories of a scope and crun's child that count for a level; for the other levels both."""

MOST = 2**63 - 1
"""LONG_MAX: v1 shows "no limit" as the greatest multiple of a page that is not above."""


def number(word: str) -> int:
    """Return a decimal number of the kernel's, which may be negative. Raise ValueError for any other text."""
    digits = word.removeprefix("-")
    # 64 bits have at most 20 digits.
    if not digits.encode().isdigit() or len(digits) > 20:
        raise ValueError(word)
    return int(word)


class Values:
    """The values of a knob; this one has any whole number from *low* to *high*.

    :param convert: from the file's number to the value, and back: for v1.
    :ivar expected: the values that a plugin may write, for people.
    """

    __slots__ = ("_from_file", "_to_file", "expected", "high", "low")

    def __init__(
        self,
        low: int = 0,
        high: int = MOST,
        unit: str = "a number",
        *,
        convert: Conversion = (int, int),
    ) -> None:
        shown = "2**63 - 1" if high == MOST else high
        self.expected = f"{unit} from {low} to {shown}"
        self.low = low
        self.high = high
        self._from_file, self._to_file = convert

    def accepts(self, value: Any) -> bool:
        """Return whether a plugin may write this value."""
        return type(value) is int and self.low <= value <= self.high  # True is an int, too

    def parse(self, text: str) -> Any:
        """Return the value in the text of a file; raise ValueError if it has anything else."""
        value = number(text)
        if value < min(self.low, 0):
            raise ValueError(text)
        return self._from_file(value)

    def word(self, value: Any) -> str:
        """Return the kernel's word for a value."""
        return str(self._to_file(value))

    def stored(self, value: Any) -> Any:
        """Return the value that the kernel makes of one."""
        return self._from_file(self._to_file(value))

    def in_file(self, value: int) -> int:
        """Return the number that is written for a value."""
        return self._to_file(value)

    def same(self, now: Any, value: Any) -> bool:
        """Return whether the kernel would store the same for both values."""
        return bool(self.stored(now) == self.stored(value))

    def kept(self, now: Any, value: Any) -> bool:
        """Return whether *now* is what became of a value that was written, and told systemd."""
        return self.same(now, value)

    def shown(self, value: Any) -> str:
        """Return a value of the knob for people."""
        return described(value)

    def limits(self, value: Any) -> bool:
        """Return whether a value is a limit."""
        return value is not None

    def tightest(self, one: Any, other: Any) -> Any:
        """Return the one of two values that limits more."""
        return min(one, other)


class Limits(Values):
    """Whole numbers, or None for no limit.

    :param none: the kernel's word for no limit.
    :param step: of how many the kernel stores whole multiples, rounded down.
    """

    __slots__ = ("_step", "none")

    def __init__(
        self,
        none: str,
        low: int = 0,
        high: int = MOST,
        unit: str = "a number",
        *,
        step: int = 1,
    ) -> None:
        super().__init__(low, high, unit)
        self.expected += ", or None for no limit"
        self.none = none
        self._step = step

    def accepts(self, value: Any) -> bool:
        return value is None or super().accepts(value)

    def parse(self, text: str) -> Any:
        if text == self.none:
            return None
        value = super().parse(text)
        return value if value // self._step < MOST // self._step else None

    def word(self, value: Any) -> str:
        return self.none if value is None else str(value)

    def stored(self, value: Any) -> Any:
        return None if value is None else value // self._step * self._step

    def tightest(self, one: Any, other: Any) -> Any:
        limits = [value for value in (one, other) if value is not None]
        return min(limits, default=None)


class AbsentFileError(Exception):
    """A file of a knob that the cgroup does not have; its path."""


def text_of(path: str) -> str:
    """Return the text of a file in a cgroup. Raise AbsentFileError if the cgroup does not have it."""
    text = knobs.read_optional(path)
    if text is None:
        raise AbsentFileError(path)
    return text


class File:
    """A file in which a version of the hierarchy has a knob; its subclasses are knobs with several.

    :param told: the property of a unit of systemd's that has the same; "" for none.
    :param hints: the reasons for the kernel's errors, by errno.
    """

    __slots__ = ("hints", "name", "told", "values")

    def __init__(
        self, name: str, values: Values, told: str = "", hints: Mapping[int, str] = knobs.NO_HINTS
    ) -> None:
        self.name = name
        self.values = values
        self.told = told
        self.hints = hints

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, for people."""
        return (self.name,)

    def read(self, directory: str) -> Any:
        """Return the value in a cgroup. Raise AbsentFileError if the cgroup does not have the file."""
        return self._parsed(directory, self.name, self.values)

    def steps(self, directory: str, value: Any, before: Any) -> list[tuple[str, str]]:
        """Return the files with the texts that are written to them, in order, for *value* in place of *before*."""
        return [(self.name, self.values.word(value))]

    def tell(self, unit: Unit, value: Any) -> bool:
        """Give the unit this value of the property, if it has another; return whether it had another."""
        number = INFINITY if value is None else self.values.in_file(value)
        return unit.set_number(self.told, number)

    def write(
        self, knob: Knob, levels: list[str], before: list[Any], value: Any, done: str
    ) -> None:
        """Write the value to those levels that need it.

        :param before: the value of each.
        :param done: what was done before that, for an error, as ``knobs.after`` takes it.
        """
        values = self.values
        steps = []
        for depth, (level, had) in enumerate(zip(levels, before, strict=True)):
            if values.same(had, value):
                continue
            is_free = depth > 0 and knob.level == LIMIT and not values.limits(had)
            if not is_free:
                steps.append((level, had))

        # In v1 a child's quota may not exceed its scope's: a tighter one goes to the child first.
        if knob.level == LIMIT and values.tightest(before[0], value) != before[0]:
            steps.reverse()
        for level, had in steps:
            knobs.after(done, self._write_one, level, value, had)
            was = values.shown(had)
            done = f"; {knob.name} of {level} was written before that, it was {was}{done}"

    def _write_one(self, level: str, value: Any, had: Any) -> None:
        knobs.write_all(
            level, self.steps(level, value, had), "it was there a moment ago", self.hints
        )

    def _parsed(self, directory: str, name: str, values: Values) -> Any:
        path = f"{directory}/{name}"
        return self._value_in(text_of(path), path, values)

    def _value_in(self, text: str, path: str, values: Values) -> Any:
        """Return the value in a text; the error for any other names the path."""
        try:
            return values.parse(text)
        except ValueError as error:
            raise CgroupError(
                f"{path} holds {quoted(text)}: expected the kernel's text for {values.expected}"
            ) from error


class Knob:
    """One knob.

    :ivar controller: its name in v2.
    :ivar values: those that it takes.
    :ivar level: which of a scope and crun's child is meant, such as ``LIMIT``.
    :ivar files: where it is, by version of the hierarchy; a version without it is missing.
    :ivar needs: what a kernel must have for it.
    :ivar can_be_written: False for what the kernel only shows.
    """

    __slots__ = ("can_be_written", "controller", "files", "level", "name", "needs", "values")

    def __init__(  # noqa: PLR0913 - a key each
        self,
        name: str,
        level: str,
        values: Values,
        needs: str,
        *,
        v1: File | None = None,
        v2: File | None = None,
        told: str = "",
        hints: Mapping[int, str] = knobs.NO_HINTS,
    ) -> None:
        """Take a knob that v2 has in the file *name*, and v1 in *v1*; *told* is v2's property."""
        self.name = name
        self.level = level
        self.values = values
        self.needs = needs
        self.controller = name.partition(".")[0]
        self.files = {2: v2 or File(name, values, told, hints)}
        if v1 is not None:
            self.files[1] = v1
        self.can_be_written = level != INNER


def check(knob: Knob, value: Any) -> None:
    """Raise KnobValueError unless a plugin may write this value."""
    if not knob.can_be_written:
        raise KnobValueError(
            f"{knob.name} can only be read: found {described(value)} to write to it"
        )
    if not knob.values.accepts(value):
        raise KnobValueError(
            f"{knob.name}: found {described(value)}, expected {knob.values.expected}"
        )


def read(knob: Knob, place: Place) -> Any:
    """Return the value of a knob."""
    return _together(knob, _read(knob, place))


def write(knob: Knob, place: Place, value: Any, tell: Tell) -> Any:
    """Write a value that ``check`` accepts; return the previous one.

    :param tell: asks or changes the cgroup's unit; returns None if there is none, or if systemd does not answer.
    """
    file = _file(knob, place)
    levels = _levels(knob, place)
    before: list[Any] = []
    try:
        before = _read(knob, place)
        previous = _together(knob, before)
    except NoKnobError:
        if not file.told:
            raise
        previous = None  # systemd may enable the controller
    if file.told:
        changed = tell(lambda unit: file.tell(unit, value))
    else:
        changed = None
    done = ""
    if changed:
        knobs.wait_for(f"{levels[0]}/{file.name}")
        done = f"; systemd was told of {file.told} before that"
    before = before or _read(knob, place)
    file.write(knob, levels, before, value, done)
    if changed is not None:
        _check_kept(file, levels[0], value)
    return previous


def _check_kept(file: File, level: str, value: Any) -> None:
    """Raise CgroupError unless the cgroup has what was just written."""
    now = file.read(level)
    if not file.values.kept(now, value):
        given = f"has {file.values.shown(now)} right after it was given {file.values.shown(value)}"
        raise CgroupError(f"{level}/{file.name} {given}: expected that it stays")


def _file(knob: Knob, place: Place) -> File:
    """Return the knob's file in the hierarchy's version; raise NoKnobError if that has no such knob.

    Some distributions' kernels have files of v2 in v1, too: the file decides.
    """
    version = place.mount.version
    if version not in knob.files:
        if knobs.exists(f"{place.directory}/{knob.name}"):
            return File(knob.name, knob.values)
        raise NoKnobError(
            f"{place.directory} has no {knob.name}: cgroup v{version} has nothing that does the same; "
            f"expected a node with cgroup v{3 - version} for {knob.controller}"
        )
    return knob.files[version]


def _levels(knob: Knob, place: Place) -> list[str]:
    """Return the directories that count for this knob, outer first."""
    levels = place.levels(_file(knob, place).name)
    return levels[_COUNTED.get(knob.level, slice(None))]


def _read(knob: Knob, place: Place) -> list[Any]:
    """Return the value of each level."""
    file = _file(knob, place)
    values = []
    for level in _levels(knob, place):
        try:
            values.append(file.read(level))
        except AbsentFileError as absent:
            raise NoKnobError(
                f"{absent} does not exist: {_why_absent(knob, level, place.mount.version)}"
            ) from absent
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
    parent = (
        f"the cgroup.subtree_control of the parent lacks {knob.controller}; "
        f"'+{knob.controller}' written there enables it"
    )
    if listed is None:
        return f"{parent}; or {kernel}"
    if knob.controller in listed.split():
        return kernel
    return parent
