"""The version of this build, and the commit that it was made from. See tools/stamp."""

from nri import __commit__, __date__, __version__


def describe() -> str:
    """Return the version with the commit and its date, for example ``0.1.0 (commit 1a2b3c4d5e6f, 2026-11-21)``.

    A commit that ends in ``-dirty`` had uncommitted changes. It is ``unknown`` if this runs from its source.
    """
    date = f", {__date__}" if __date__ else ""
    return f"{__version__} (commit {__commit__ or 'unknown'}{date})"


def install(extra: str) -> str:
    """Return the command that installs an extra; nri is not registered on PyPI."""
    return f"pip install 'PATH[{extra}]', where PATH is nri's checkout or its wheel"
