"""Releases of containerd besides the machine's own: Debian has three generations, one in each suite.

    release = find((1, 7), cache=Path(".cache/containerd"))

The machine's own containerd is used if it is of the generation, else ``harness.debian.fetch`` gets the suite's.
Only containerd comes from the suite. runc is the machine's own, because the suite's may need a newer libc.
"""

from collections.abc import Sequence
from pathlib import Path

from harness import debian
from harness.containerd.instance import Release
from harness.debian import UnavailableError

SUITES = {(1, 6): "bookworm", (1, 7): "trixie", (2,): "sid"}
OWN = Path("/usr/bin")


def find(generation: tuple[int, ...], *, cache: Path, pauses: Sequence[float] = ()) -> Release:
    """Return a containerd of `generation`, such as (1, 7) or (2,).

    :param cache: the directory for downloads.
    :param pauses: the seconds before each further attempt to download.
    :raises UnavailableError: the generation is neither installed nor downloadable.
    """
    cache, versions = cache.absolute(), []
    for programs in (OWN, cache / SUITES[generation] / "usr/bin"):
        if programs != OWN:
            debian.fetch("containerd", SUITES[generation], cache, pauses)
        if (programs / "containerd").exists():
            release = Release.at(programs)
            if release.version[: len(generation)] == generation:
                return release
            versions.append(f"{_dotted(release.version)} in {programs}")
    raise UnavailableError(f"needs containerd {_dotted(generation)}, found {', '.join(versions)}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
