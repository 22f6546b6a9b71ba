"""The options of ``nri-runc``: one JSON object in ``FILE``, all keys optional.

The command line is the real runtime's, so there is no other place for them. No variable of the environment names
another file: an engine hands its own environment down, and in some of them a container's user sets variables.
"""

from __future__ import annotations

from nri import files
from nri.config.entries import SECONDS
from nri.config.loading import read_options
from nri.config.site_options import SiteOptions
from nri.node import options as node_options
from nri.places import RUNTIME_OPTIONS_FILE
from nri.types import fields
from nri.types.table import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

DEFAULT_DEADLINE = 30.0
"""Seconds for the whole chain of one state. The kubelet waits two minutes for a runtime, podman and docker longer."""


def _is_runtime(value: str) -> bool:
    return fields.PATH.accepts(value) or (
        value not in ("", ".", "..") and not set(value) & {"/", "\0"}
    )


_RUNTIME = text(
    matches=_is_runtime,
    pattern=r"^(/[^\0]{0,4094}|(?!\.{1,2}(?![\s\S]))[^/\0]+)(?![\s\S])",
    expected="an absolute path, or the name of an executable",
)


class WrapperOptions(
    SiteOptions,
    title="Options of nri-runc and nri-crun",
    description="The file /etc/nri/runtime.json: docs/configuration.md.",
):
    """The options, with the default of each that is not given."""

    runtime: str = fields.value(
        _RUNTIME,
        "the real runtime; a name is looked up in /usr/local/sbin, /usr/local/bin, /usr/sbin, /usr/bin, /sbin, /bin. "
        "By default runc for nri-runc, crun for nri-crun",
        default="",
    )
    deadline: float = fields.value(
        SECONDS, "seconds for the whole chain of one state", default=DEFAULT_DEADLINE
    )
    log_file: str = fields.path(
        "file that errors, and lines that plugins write to stderr, are appended to (mode 0600)",
        default="",
    )
    note: ClassVar[str] = ""
    """That these are the last valid options, since the file is missing; "" if they are those of the file."""
    fault: ClassVar[str] = ""
    """Why the file cannot be used, "" if it can be; then the options that are right are here all the same."""


def load(path: str = RUNTIME_OPTIONS_FILE) -> WrapperOptions:
    """Return the options in a file; without one the last valid ones, or the defaults if there were none.

    Nothing is raised, since some commands must work in any case: ``WrapperOptions.fault`` has what is wrong.
    """
    try:
        options, faults = read_options(path, WrapperOptions)
    except FileNotFoundError:
        recorded = None
        if path == RUNTIME_OPTIONS_FILE:
            recorded = node_options.last(node_options.RUNC, WrapperOptions)
        if recorded is None:
            return WrapperOptions()
        away = "is missing; still using the last valid options; expected {} for the defaults"
        recorded.__dict__["note"] = f"{path}: {away}"
        return recorded
    options.__dict__["fault"] = "; ".join(faults)
    if not faults and path == RUNTIME_OPTIONS_FILE:
        try:
            node_options.record(
                node_options.RUNC, files.read_regular(path, node_options.MAX_OPTIONS)[0]
            )
        except OSError:
            pass  # it was removed a moment ago
    return options
