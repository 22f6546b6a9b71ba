"""The comparison of what a plugin wrote with what a test expects, as a text that shows the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Pair = tuple[str, str]


def difference(expected: Mapping[str, str] | Sequence[Pair], writes: Sequence[Pair]) -> str:
    """Return how the writes differ from the expected ones; "" if they do not.

    :param expected: as for :meth:`nri.testing.CgroupTree.assert_written`.
    :param writes: all writes, in order.
    """
    if isinstance(expected, (list, tuple)):
        wanted = [(name, text) for name, text in expected]
        if wanted == list(writes):
            return ""
        missing, extra = _without(wanted, writes), _without(writes, wanted)
        lines = ["the plugin did not write what was expected, in this order:", *_listed("expected", wanted)]
    else:
        last = dict(writes)
        if last == dict(expected):
            return ""
        wanted = list(dict(expected).items())
        missing = [pair for pair in wanted if pair[0] not in last]
        extra = [(name, text) for name, text in last.items() if name not in expected]
        other = [name for name, text in wanted if name in last and last[name] != text]
        lines = ["the plugin did not write what was expected:", *_listed("expected", wanted)]
        lines += [f"  {name}: expected {dict(expected)[name]!r}, written {last[name]!r}" for name in other]
    lines += _listed("written, in this order", writes)
    lines += [*(_listed("missing", missing) if missing else ()), *(_listed("not expected", extra) if extra else ())]
    if not missing and not extra and isinstance(expected, (list, tuple)):
        lines.append("  the writes are the expected ones, in another order")
    return "\n".join(lines)


def _listed(title: str, pairs: Iterable[Pair]) -> list[str]:
    return [f"  {title}:", *([f"    {name} = {text!r}" for name, text in pairs] or ["    nothing"])]


def _without(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    left = list(others)
    return [pair for pair in pairs if pair not in left or left.remove(pair)]  # type: ignore[func-returns-value] # each counts once
