"""The status of a node where no bridge is expected: native containerd 1.6, OCI hooks, ``nri-runc``.

There nothing runs between two containers that could count. So this is what ``nri check`` knows: the configuration is
valid, and each plugin is found and can run. It has the form of a bridge's status, with null for what only a bridge
knows; pages and judgement take both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.status.client import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Sequence


def document(
    *, time: float, files: Sequence[str], hash: str | None, faults: Sequence[str], plugins: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a status whose ``bridge`` is null.

    :param time: seconds since 1970.
    :param files: the files of the configuration.
    :param hash: of its content; None if it is not valid.
    :param faults: of the configuration; it is valid without one.
    :param plugins: of :func:`plugin`.
    """
    configuration = {
        "files": [*files],
        "hash": hash,
        "valid": not faults,
        "faults": [*faults],
        "since": None,
        "rejectedSince": None,
    }
    return {
        "protocol": PROTOCOL,
        "time": time,
        "bridge": None,
        "runtime": None,
        "configuration": configuration,
        "plugins": [*plugins],
        "events": [],
        "lateCreates": None,
        "record": None,
        "withoutPlugins": [],
        "inProgress": None,
        "log": None,
    }


def plugin(
    *,
    type: str,
    source: str,
    index: int,
    states: Sequence[str],
    binary: str | None,
    problem: str | None,
    build: str | None,
) -> dict[str, Any]:
    """Return a plugin of such a status; the keys are those of docs/status.md."""
    known = {
        "type": type,
        "source": source,
        "index": index,
        "states": [*states],
        "binary": binary,
        "problem": problem,
        "build": build,
    }
    unknown = dict.fromkeys(("timeout", "failurePolicy", "resident", "seconds", "last", "lastError"))
    return known | unknown | {"runs": {}}
