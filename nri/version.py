"""The version of this build, and the commit that it was made from. See tools/stamp."""

from nri import __commit__, __date__, __version__


def describe() -> str:
    """Return the version with the commit and its date, for example ``0.1.0 (commit 1a2b3c4d5e6f, 2026-11-21)``.

    A commit that ends in ``-dirty`` had uncommitted changes. It is ``unknown`` if this runs from its source.
    """
    known = f"commit {__commit__ or 'unknown'}", __date__
    return f"{__version__} ({', '.join(filter(None, known))})"


def build() -> dict[str, str | None]:
    """Return the version, the commit and its date, as JSON has them; what is not known is None."""
    return {"version": __version__, "commit": _known(__commit__), "date": _known(__date__)}


def _known(text: str) -> str | None:
    return text or None


def install(extra: str) -> str:
    """Return the command that installs an extra; nri is not registered on PyPI."""
    return f"pip install 'PATH[{extra}]', where PATH is nri's checkout or its wheel"
