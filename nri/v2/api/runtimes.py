"""The abilities of a container runtime, by the NRI that it was built with: its events, the size of its messages.

From NRI 0.12 on a runtime sends its NRI's version in ``ConfigureRequest.nri_version``. A Go binary without module
information, as in Debian's containerd, sends ``0.0.0-unknown`` or ``(devel)`` (``UnknownVersion`` in pkg/version of
containerd/nri): the presence of the field is enough then.

A runtime that does not send it has 0.11 or older, and is looked up by its name and version in ``RELEASES``. A
runtime that is not listed is assumed to know only the events of every NRI: a plugin that subscribes to an event that
the runtime does not know is disconnected.
"""

from __future__ import annotations

import re

from nri.v2.api.events import Version

SENDS_VERSION: Version = (0, 12)
"""The first NRI that sends its version."""

SPLITS_SYNCHRONIZE: Version = (0, 7)
"""The first NRI that sends Synchronize in several messages of at most 4 MiB, not in one of any length.

Source: ``plugin.synchronize`` in pkg/adaptation/plugin.go of containerd/nri, v0.6.1 and v0.7.0.
"""

MAX_REQUEST = 64 * 1024 * 1024
"""Bytes of a runtime's longest request: some 35,000 pods with a container each in one Synchronize."""

UNKNOWN: Version = (0, 9)
"""The NRI assumed for a runtime that is not listed: up to this one, all have the same events."""

RELEASES: dict[str, tuple[tuple[tuple[int, int, int], Version], ...]] = {
    "containerd": (
        ((1, 7, 0), (0, 3)),
        ((1, 7, 7), (0, 4)),
        ((1, 7, 14), (0, 6)),
        ((1, 7, 16), (0, 6, 1)),
        ((1, 7, 26), (0, 8)),
        ((2, 0, 0), (0, 8)),
        ((2, 2, 0), (0, 10)),
        ((2, 2, 1), (0, 11)),
        ((2, 3, 0), (0, 12)),
    ),
    "cri-o": (
        ((1, 26, 0), (0, 2)),
        ((1, 26, 2), (0, 3)),
        ((1, 29, 0), (0, 5)),
        ((1, 29, 2), (0, 6)),
        ((1, 31, 0), (0, 6, 1)),
        ((1, 32, 0), (0, 9)),
        ((1, 34, 0), (0, 10)),
        ((1, 35, 0), (0, 11)),
    ),
}
"""The first release with each NRI, oldest first, by the name that a runtime sends.

Source: ``github.com/containerd/nri`` in go.mod of each release tag of containerd/containerd and cri-o/cri-o; the
names are ``Name`` of containerd's version package and ``runtimeName`` of internal/nri/nri.go of CRI-O. A
pseudo-version counts as the release before it: CRI-O 1.33 has 0.9.1-0.20250219, with some events of 0.10.
"""

DROPS_CDI: dict[tuple[str, int], tuple[int, int, int]] = {
    ("containerd", 1): (1, 7, 30),
    ("containerd", 2): (2, 1, 0),
}
"""The first releases that apply the CDI devices of plugins, of each line, by the name that a runtime sends. Those
before them, of the same line, drop them without a word."""

APPLIES_ALONE: dict[str, tuple[str, ...]] = {"docker": ("env", "mounts")}
"""The fields of an adjustment that a runtime applies, if they are few; it has no updates then.

Source: ``applyAdjustments`` and ``CreateContainer`` in daemon/internal/nri of moby/moby.
"""

SENDS_ALONE: dict[str, tuple[str, ...]] = {"docker": ("setup",)}
"""The states of v0.1 for which a runtime has an event, if it has not one for each."""

_RUNTIME = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?(?![0-9])")


def nri_version(name: str, version: str, sent: str = "") -> Version:
    """Return the version of a runtime's NRI.

    :param name: the name that the runtime sends, such as ``containerd``.
    :param version: the runtime's own version, as in ``v2.1.9`` or ``1.7.24~ds1``.
    :param sent: the NRI version that it sends; "" if it sends none.
    """
    if sent:
        sent_version = numbers(sent)[:2]
        return sent_version if sent_version > (0, 0) else SENDS_VERSION
    return listed(name, version) or UNKNOWN


def drops_cdi(name: str, version: str) -> str:
    """Return the first release of a runtime's line that applies CDI devices if this one is older; "" if it is not."""
    release = numbers(version)
    first = DROPS_CDI.get((name, release[0]), release)
    return ".".join(map(str, first)) if release < first else ""


def listed(name: str, version: str) -> Version | None:
    """Return the version of the NRI of a runtime in ``RELEASES``; None if it is not there, or older."""
    release = numbers(version)
    return next((nri for first, nri in reversed(RELEASES.get(name, ())) if first <= release), None)


def numbers(version: str) -> tuple[int, int, int]:
    """Return the three numbers of a runtime's version; zeros if it has none."""
    match = _RUNTIME.match(version)
    if match:
        return (int(match[1]), int(match[2]), int(match[3] or 0))
    return (0, 0, 0)
