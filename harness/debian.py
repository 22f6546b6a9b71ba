"""Debian's mirrors as this machine knows them, and commands of its package tools."""

import fcntl
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TIMEOUT = 300.0  # seconds for one command
# Seconds before a download is tried again.
PAUSES = (5, 15, 30) if os.environ.get("CI") == "true" else (2,)

# The keyring of any of these suites has the keys of all (bookworm's since 12.10).
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The machine's Post-Invoke commands empty its package cache or index downloads: they must not run here. `_apt`, the
# user that downloads by default, may have no access to a checkout. `fetch` retries. The lists of a mirror that is
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


class UnavailableError(RuntimeError):
    """Something of Debian is neither installed nor downloadable; the message has the reason."""


def mirrors() -> list[str]:
    """Return the Debian mirrors of the machine's apt sources, in any of their formats."""
    system = platform.freedesktop_os_release()
    suites = {system.get("VERSION_CODENAME"), "stable", "testing", "unstable", "sid"}
    # without --no-release-info it lists only suites that `apt-get update` has fetched
    listed = run(
        Path("/"),
        *(
            "apt-get",
            "indextargets",
            "--no-release-info",
            "--format",
            "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        ),
        "Created-By: Packages",
    )
    rows = [line.split() for line in listed.splitlines()]
    archives = {row[0] for row in rows if len(row) == 3 and row[1] in suites and row[2] == "main"}
    usable = {uri for uri in archives if not uri.startswith("cdrom:")}  # an installation medium
    # other distributions use these names, too; the keyring would refuse them, this only saves the attempt
    uris = [uri for uri in sorted(usable) if uri.rstrip("/").endswith("/debian")] or sorted(usable)
    if not uris:
        raise UnavailableError("no Debian mirror in this machine's apt sources")
    return uris


def run(cwd: Path, *command: str | Path, timeout: float = TIMEOUT) -> str:
    """Return the output of a command, with any exit status.

    :param timeout: in seconds.
    :raises UnavailableError: it is not installed, or takes longer.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"needs Debian's {command[0]}: {error}") from error
    return done.stdout


def fetch(package: str, suite: str, cache: Path, pauses: Sequence[float] = ()) -> Path:
    """Return the directory `cache`/`suite` with the files of a package of another suite.

    The machine's apt-get downloads it from the machine's mirror, verifies it and unpacks it there, where the next run
    finds it; delete the directory to get a newer one. Nothing is installed, and no file of the machine's apt is
    changed: sources, lists and cache are private.

    :param cache: an absolute path, of this package alone.
    :param pauses: the seconds before each further attempt to download.
    :raises UnavailableError: it cannot be downloaded.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / f"{suite}.lock"):
        for pause in (*pauses, None):
            if not (cache / suite).exists():
                try:
                    _download(package, suite, cache)
                except UnavailableError:
                    if pause is None:
                        raise
                    time.sleep(pause)
    return cache / suite


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:  # the kernel unlocks it, also when the process is killed
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(package: str, suite: str, cache: Path) -> None:
    work = cache / f"{suite}.part"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    (work / "lists").mkdir(parents=True)
    try:
        (work / "apt.conf").write_text(_APT_CONF.format(work=work))
        sources = _SOURCES.format(mirrors=" ".join(mirrors()), suite=suite, keyring=KEYRING)
        (work / "debian.sources").write_text(sources)
        # One of several mirrors may fail; only the package counts.
        updated = run(work, "apt-get", "-qq", "-c", "apt.conf", "update")
        loaded = run(work, "apt-get", "-qq", "-c", "apt.conf", "download", f"{package}/{suite}")
        packages = list(work.glob(f"{package}_*.deb"))
        if not packages:
            raise UnavailableError(f"no {package} from Debian's suite {suite}:\n{updated}{loaded}")
        unpacked = run(work, "dpkg", "--extract", packages[0], "tree")
        if not (work / "tree/usr").exists():
            raise UnavailableError(f"{packages[0].name} cannot be unpacked:\n{unpacked}")
        (work / "tree").rename(cache / suite)  # atomically
    finally:
        shutil.rmtree(work, ignore_errors=True)
