"""Releases of containerd besides the machine's own: Debian has three generations, one in each suite.

    release = find((1, 7), cache=Path(".cache/containerd"))

The machine's own containerd is used if it is of the generation. Otherwise the machine's apt-get downloads the suite's
package from the machine's Debian mirror, verifies it and unpacks it into `cache`, where the next run finds it; delete
the directory to get a newer one. Nothing is installed, and no file of the machine's apt is changed: sources, lists
and cache are private. Only containerd comes from the suite. runc is the machine's own, because the suite's may need a
newer libc.
"""

import fcntl
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import debian
from harness.containerd.instance import Release
from harness.debian import UnavailableError

SUITES = {(1, 6): "bookworm", (1, 7): "trixie", (2,): "sid"}
OWN = Path("/usr/bin")
# The keyring of any of these suites has the keys of all (bookworm's since 12.10).
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The machine's Post-Invoke commands empty its package cache or index downloads: they must not run here. `_apt`, the
# user that downloads by default, may have no access to a checkout. `_fetch` retries. The lists of a mirror that is
# weeks behind have expired for a suite like sid, but are signed all the same.
_APT_CONF = """\
Dir::Etc::SourceList "{work}/debian.sources";
Dir::Etc::SourceParts "-";
Dir::State::Lists "{work}/lists";
Dir::Cache "{work}/cache";
APT::Sandbox::User "root";
Acquire::Retries "0";
Acquire::Check-Valid-Until "false";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""

_SOURCES = """\
Types: deb
URIs: {mirrors}
Suites: {suite}
Components: main
Targets: Packages
Languages: none
Signed-By: {keyring}
"""


def find(generation: tuple[int, ...], *, cache: Path, pauses: Sequence[float] = ()) -> Release:
    """Return a containerd of `generation`, such as (1, 7) or (2,).

    :param cache: the directory for downloads.
    :param pauses: the seconds before each further attempt to download.
    :raises UnavailableError: the generation is neither installed nor downloadable.
    """
    cache, versions = cache.absolute(), []
    for programs in (OWN, cache / SUITES[generation] / "usr/bin"):
        if programs != OWN:
            _fetch(SUITES[generation], cache, pauses)
        if (programs / "containerd").exists():
            release = Release.at(programs)
            if release.version[: len(generation)] == generation:
                return release
            versions.append(f"{_dotted(release.version)} in {programs}")
    raise UnavailableError(f"needs containerd {_dotted(generation)}, found {', '.join(versions)}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _fetch(suite: str, cache: Path, pauses: Sequence[float]) -> None:
    """Unpack the suite's containerd in `cache`/`suite`, unless another process has done so."""
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / f"{suite}.lock"):
        for pause in (*pauses, None):
            if (cache / suite).exists():
                return
            try:
                _download(suite, cache)
            except UnavailableError:
                if pause is None:
                    raise
                time.sleep(pause)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:  # the kernel unlocks it, also when the process is killed
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(suite: str, cache: Path) -> None:
    work = cache / f"{suite}.part"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    (work / "lists").mkdir(parents=True)
    try:
        (work / "apt.conf").write_text(_APT_CONF.format(work=work))
        sources = _SOURCES.format(mirrors=" ".join(debian.mirrors()), suite=suite, keyring=KEYRING)
        (work / "debian.sources").write_text(sources)
        # One of several mirrors may fail; only the package counts.
        updated = debian.run(work, "apt-get", "-qq", "-c", "apt.conf", "update")
        loaded = debian.run(work, "apt-get", "-qq", "-c", "apt.conf", "download", f"containerd/{suite}")
        packages = list(work.glob("containerd_*.deb"))
        if not packages:
            raise UnavailableError(f"no containerd from Debian's suite {suite}:\n{updated}{loaded}")
        unpacked = debian.run(work, "dpkg", "--extract", packages[0], "tree")
        if not (work / "tree/usr/bin/containerd").exists():
            raise UnavailableError(f"{packages[0].name} cannot be unpacked:\n{unpacked}")
        (work / "tree").rename(cache / suite)  # atomically
    finally:
        shutil.rmtree(work, ignore_errors=True)
