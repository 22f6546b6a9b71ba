"""The recordings in tests/golden: requests of real runtimes, and adjustments as merged by NRI's own adaptation."""

from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"
"""The folder of the recordings."""


def recordings(pattern: str = "*") -> list[Path]:
    """Return the recorded requests whose file names match ``pattern``, in the order of their names."""
    return sorted(GOLDEN.glob(f"{pattern}.json"))
