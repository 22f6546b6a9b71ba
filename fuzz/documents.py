"""JSON documents that are nearly valid: a valid one with one or two changes. Random bytes are rarely valid JSON."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

WORDS = [
    "",
    "0.1",
    "create",
    "setup",
    "fail",
    "ignore",
    "konfine",
    "a/b",
    "x\n",
    "\u017f",
    "type",
    "x-note",
    "conf",
    "/a",
]
_SCALARS: list[Any] = [
    *WORDS, None, True, False, 0, 1, -1, 3600, 2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 10**30, 0.5, -0.0, 1.0,
    1e3, 3600.5, 1e300, "\ud800", "\x1b[2J",
]  # fmt: skip
_REPLACED = (("s", "\u017f"), ("k", "\u212a"), ("i", "\u0131"))


def mutate(document: bytes, random: random.Random, changes: int) -> bytes:
    """Return ``document`` with up to ``changes`` changes of its values; unchanged if it is not JSON."""
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        return document
    for _ in range(changes):
        value = changed(value, random)
    return json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "replace")


def changed(value: Any, random: random.Random) -> Any:
    """Return ``value`` with one change, made in place if possible; the root is rarely replaced."""
    path = random.choice(list(places(value)))
    if not path:
        return _value(random) if random.randrange(10) == 0 else value
    around = value
    for part in path[:-1]:
        around = around[part]
    name = path[-1]
    change = random.choice(["replace", "delete", "rename", "add", "repeat"])
    if change == "replace":
        around[name] = _value(random)
    elif change == "delete":
        del around[name]
    elif change == "rename" and isinstance(around, dict):
        around[_spelt(name, random)] = around.pop(name)
    elif change == "add" and isinstance(around, dict):
        around[random.choice([_spelt(name, random), random.choice(WORDS)])] = _value(random)
    elif change == "repeat" and isinstance(around, list):
        around.append(copy.deepcopy(around[name]))
    return value


def _value(random: random.Random, depth: int = 2) -> Any:
    kind = random.randrange(8) if depth else 0
    if kind == 6:
        return [_value(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 7:
        return {random.choice(WORDS): _value(random, depth - 1) for _ in range(random.randrange(3))}
    return random.choice(_SCALARS)


def _spelt(key: str, random: random.Random) -> str:
    """Return another spelling of a key, which Go may treat as the same."""
    ways = [key.upper(), key.lower(), key.capitalize(), key + "\n", key[:-1], f"x-{key}"]
    return random.choice([*ways, *(key.replace(*pair) for pair in _REPLACED)])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a document, beginning with the document itself."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*path, key))
