"""Debian's mirrors as this machine knows them, and commands of its package tools."""

import os
import platform
import subprocess
from pathlib import Path

TIMEOUT = 300.0  # seconds for one command


class UnavailableError(RuntimeError):
    """Something of Debian is neither installed nor downloadable; the message has the reason."""


def mirrors() -> list[str]:
    """Return the Debian mirrors of the machine's apt sources, in any of their formats."""
    system = platform.freedesktop_os_release()
    suites = {system.get("VERSION_CODENAME"), "stable", "testing", "unstable", "sid"}
    # without --no-release-info it lists only suites that `apt-get update` has fetched
    listed = run(
        Path("/"),
        *("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"),
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
