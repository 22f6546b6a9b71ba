"""What `nri apply` has refused last: a file beside the directory of the host configuration, until it accepts one.

The node goes on with what it has, so nothing else tells that another configuration was wanted.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from nri import files
from nri.errors import bounded, escape, reason_of
from nri.types import DecodeError, gojson

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_FAULTS = 20
MAX_FAULT = 1000
MAX_FILE = 64 * 1024
"""Faults that are kept; bytes of each; bytes of the file."""


class Refused(NamedTuple):
    """A configuration that was refused.

    :ivar since: in seconds since 1970, when it was refused first.
    :ivar source: the directory that was to be applied.
    :ivar faults: one line each.
    """

    since: float
    source: str
    faults: tuple[str, ...]


def path_of(conf_dir: str) -> str:
    """Return the file of a directory such as /etc/nri/resource.d."""
    return f"{conf_dir.rstrip('/')}.refused"


def read(conf_dir: str) -> Refused | None:
    """Return what was refused; None if nothing was. A file that cannot be used is a fault, too."""
    path = path_of(conf_dir)
    try:
        value: Any = gojson.loads(files.read_regular(path, MAX_FILE)[0])
        source = bounded(escape(str(value["source"])), MAX_FAULT)
        return Refused(float(value["since"]), source, _kept(value["faults"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = f"{path}: {reason_of(error)}"
    except (DecodeError, ValueError, LookupError, TypeError):
        fault = f"{path}: found other content than `nri apply` writes"
    return Refused(0.0, "", (fault,))


def _kept(faults: Sequence[object]) -> tuple[str, ...]:
    return tuple(bounded(escape(str(fault)), MAX_FAULT) for fault in faults[:MAX_FAULTS])


def note(conf_dir: str, source: str, faults: Sequence[str]) -> None:
    """Write what was refused.

    :raises OSError: it cannot be written.
    """
    kept = _kept(faults)
    before = read(conf_dir)
    since = round(time.time(), 3)
    if before is not None and (before.source, before.faults) == (source, kept):
        since = before.since
    value = {"since": since, "source": source, "faults": kept}
    files.replace(path_of(conf_dir), gojson.dumps(value), lambda fd: os.fchmod(fd, 0o644))


def clear(conf_dir: str) -> None:
    """Remove the file: a configuration was accepted."""
    try:
        os.unlink(path_of(conf_dir))
    except FileNotFoundError:
        pass
