"""Demands of a value what a rule accepts; what explains a fault is loaded only for one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.types.table import Rule

FIRST = 3
"""Faults of one value that an error lists, unless its reader wants more."""


def demand(rule: Rule, value: object, where: str, limit: int = FIRST) -> None:
    """Do nothing for a value that *rule* accepts.

    :param where: the name of the value, which begins the place of each fault.
    :raises nri.types.DecodeError: the first faults of a wrong one, at most *limit*.
    """
    if not rule.accepts(value):
        from nri.types.table_explained import refusal

        raise refusal(rule, value, where, limit)
