"""The word that a misspelt one probably stands for."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: object, candidates: Iterable[str]) -> str | None:
    """Return the candidate that *word* is probably a misspelling of; None where there is none."""
    if not isinstance(word, str) or len(word) > 100:
        return None
    folded = {candidate.lower(): candidate for candidate in candidates}
    near = difflib.get_close_matches(word.lower().replace("_", ""), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None
