"""The fuzz targets, on their seeds and on inputs that hypothesis derives from them: see ``fuzz``."""

from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import documents, targets

NAMES = targets.names()


@st.composite
def damaged(draw: st.DrawFn, target: ModuleType) -> bytes:
    """A seed or several, with up to four places replaced, words of the target's language among what is put there."""
    first, *more = draw(st.lists(st.sampled_from(target.SEEDS), min_size=1, max_size=3))
    data = b"".join([first, *(seed[1:] for seed in more)])
    new = st.binary(max_size=8) | st.sampled_from([b"", *getattr(target, "WORDS", ())])
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(start + 8, len(data))))
        data = data[:start] + draw(new) + data[end:]
    return data


@st.composite
def nearly_right(draw: st.DrawFn, target: ModuleType) -> bytes:
    """A seed that is JSON, with other values, keys and spellings."""
    data: bytes = draw(st.sampled_from(target.SEEDS))
    random = draw(st.randoms(use_true_random=False))
    behind = 1 if hasattr(target, "CHOICES") else 0
    return data[:behind] + documents.mutate(data[behind:], random, draw(st.integers(1, 3)))


def inputs(target: ModuleType) -> st.SearchStrategy[bytes]:
    strategy = st.binary(max_size=200) | damaged(target)
    if hasattr(target, "WORDS"):
        strategy |= st.lists(st.sampled_from(target.WORDS), max_size=12).map(b"".join)
    return strategy | nearly_right(target) if hasattr(target, "JSON") else strategy


@pytest.mark.parametrize("name", NAMES)
def test_the_invariant_holds_for_the_seeds(name: str) -> None:
    target = targets.load(name)
    assert len(target.SEEDS) >= 3
    for seed in target.SEEDS:
        target.check(seed)


@pytest.mark.parametrize("name", NAMES)
def test_hypothesis_finds_nothing_that_breaks_it(name: str) -> None:
    target = targets.load(name)

    @settings(
        max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(inputs(target))
    def holds(data: bytes) -> None:
        target.check(data)

    holds()
