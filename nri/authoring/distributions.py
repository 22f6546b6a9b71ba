"""The glibc of distributions' releases: an executable runs where glibc is as new as the one that it needs."""

from __future__ import annotations

RELEASES = {
    # https://packages.debian.org/libc6
    "Debian": {"10": "2.28", "11": "2.31", "12": "2.36", "13": "2.41"},
    # https://packages.ubuntu.com/libc6
    "Ubuntu": {"18.04": "2.27", "20.04": "2.31", "22.04": "2.35", "24.04": "2.39"},
    # https://docs.redhat.com, "Package manifest" of each release; the same in Rocky, Alma and CentOS Stream
    "RHEL": {"8": "2.28", "9": "2.34", "10": "2.39"},
    # https://docs.aws.amazon.com/linux, "Comparing Amazon Linux 2 and Amazon Linux 2023"
    "Amazon Linux": {"2": "2.26", "2023": "2.34"},
    # ldd in registry.suse.com/suse/sle15:15.2 and later; listed in data/distros.tsv of docs.rs/crate/linux-targets
    "SLES": {"15 SP2": "2.26", "15 SP3": "2.31", "15 SP6": "2.38"},
}
"""Each release that brought another glibc, oldest first. Alpine has musl, which runs none of our executables;
Flatcar's glibc changes with its updates."""

PACKAGED = ("Debian", "Ubuntu", "RHEL")
"""The distributions that the packages' documentation names."""


def number(version: str) -> tuple[int, ...]:
    """Return a version such that it can be compared."""
    return tuple(int(part) for part in version.split("."))


def distributions(version: str, names: tuple[str, ...] = tuple(RELEASES)) -> tuple[list[str], list[str]]:
    """Return the first release of each distribution that has this glibc, and the last one that does not."""
    first, last = [], []
    for name in names:
        releases = RELEASES[name]
        runs = [release for release, has in releases.items() if number(has) >= number(version)]
        others = [f"{name} {release} ({has})" for release, has in releases.items() if release not in runs]
        first += [f"{name} {release}" for release in runs[:1]]
        last += others[-1:]
    return first, last
