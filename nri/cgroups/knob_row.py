"""A row of the table of knobs."""

from __future__ import annotations

from .knob_forms import KnobForm, OneFile
from .knob_kinds import CountKind, KnobKind

SCOPE, LIMIT, BOTH, SETS, INNER = "scope", "limit", "both", "sets", "inner"
"""What is read and written where crun made a child of the scope.

- ``scope``: the scope's. For what counts among siblings (weights), for all below (oom.group), and what is counted.
- ``limit``: written to the scope, and to the child if it has a limit of its own; the tightest is read.
- ``both``: written to both, since the child has only what it has itself (protections, boosts); the lesser is read.
- ``sets``: as :meth:`nri.cgroups.Cgroup.set_cpus` and ``cpus`` do.
- ``inner``: only read, from the child: what is in effect.
"""

COUNT = CountKind(0, 2**63 - 1)
"""A number that the kernel counts."""


class Knob:
    """One knob.

    :ivar controller: its name in v2.
    :ivar kind: the values that it takes.
    :ivar level: which of a scope and crun's child is meant, such as :data:`LIMIT`.
    :ivar forms: how it is read and written, by version of the hierarchy; a version without it is missing.
    :ivar needs: what a kernel must have for it.
    :ivar source: the document that describes it, below the kernel's ``Documentation``, or its address.
    :ivar can_be_written: False for what the kernel only shows.
    """

    __slots__ = ("can_be_written", "controller", "forms", "kind", "level", "name", "needs", "source")

    def __init__(
        self,
        name: str,
        kind: KnobKind,
        level: str,
        v2: KnobForm | None = None,
        v1: KnobForm | None = None,
        *,
        needs: str,
        source: str = "admin-guide/cgroup-v2.rst",
        can_be_written: bool = True,
    ) -> None:
        self.name, self.kind, self.level, self.needs, self.source = name, kind, level, needs, source
        self.controller = name.partition(".")[0]
        self.forms = {version: form for version, form in ((1, v1), (2, v2)) if form is not None}
        self.can_be_written = can_be_written


def shown(name: str, kind: KnobKind, level: str, v1: KnobForm | None, needs: str) -> Knob:
    """Return a knob that can only be read, and is one file in v2."""
    return Knob(name, kind, level, OneFile(name, kind), v1, needs=needs, can_be_written=False)
