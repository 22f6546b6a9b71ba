"""The build that runs: its version, and the commit that it was made from. See tools/stamp."""

from nri import __commit__, __date__, __version__


def describe() -> str:
    """Return the version with its commit and the commit's date, as in ``0.1.0 (commit 1a2b3c4d5e6f, 2026-11-21)``.

    A commit that ends in ``-dirty`` had changes on top. It is ``unknown`` where this runs from its source.
    """
    date = f", {__date__}" if __date__ else ""
    return f"{__version__} (commit {__commit__ or 'unknown'}{date})"
