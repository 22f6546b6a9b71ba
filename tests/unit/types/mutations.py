"""Documents that are nearly right: a good one, changed in a place or two."""

import copy

from hypothesis import strategies as st

WORDS = ["", "0.1", "create", "setup", "fail", "ignore", "konfine", "a/b", "x\n", "\u017f", "type", "x-note", "conf"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 4000),
    st.sampled_from([2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 10**30, 0.5, -0.0, 1.0, 1e3, 3600.5, 1e300]),
    st.sampled_from(WORDS),
    st.text(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)


def paths(value, path=()):
    """All places in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def key_variants(key):
    """Other spellings of a key, some of which Go takes for the same."""
    return [
        key.upper(),
        key.lower(),
        key.capitalize(),
        key.replace("s", "\u017f"),
        key.replace("k", "\u212a"),
        key.replace("i", "\u0131"),
        key + "\n",
        key + " ",
        key[:-1],
        f"x-{key}",
    ]


@st.composite
def mutated(draw, documents):
    """One of ``documents``, changed up to three times."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list(paths(document))))
        if not path:
            if draw(st.integers(0, 9)) == 0:
                return draw(values)
            continue
        around = document
        for part in path[:-1]:
            around = around[part]
        name = path[-1]
        change = draw(st.sampled_from(["replace", "delete", "rename", "add", "repeat"]))
        if change == "replace":
            around[name] = draw(values)
        elif change == "delete":
            del around[name]
        elif change == "rename" and isinstance(around, dict):
            around[draw(st.sampled_from(key_variants(name)))] = around.pop(name)
        elif change == "add" and isinstance(around, dict):
            around[draw(st.sampled_from([*WORDS, *key_variants(name)]))] = draw(values)
        elif change == "repeat" and isinstance(around, list):
            around.append(copy.deepcopy(around[name]))
    return document
