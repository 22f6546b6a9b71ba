"""The bridge options: one JSON object, all keys optional.

A runtime that launches the bridge passes them to it (``/etc/nri/conf.d/10-v1bridge.conf``); otherwise they come from
the file that ``--config`` names. Plugins and their confs are in the host configuration, not here.
"""

from __future__ import annotations

import os

from nri import files, trust
from nri.config import host_fields
from nri.config.entries import DEFAULT_TIMEOUT
from nri.config.validate import SECONDS
from nri.errors import NRIError, reason_of
from nri.places import DEFAULT_CONF_DIR, DEFAULT_RECORD_DIR
from nri.types import fields
from nri.types.conf import Conf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

MAX_OPTIONS = 1024 * 1024
"""Bytes of recorded options."""


class BridgeOptions(
    Conf,
    title="Options of the bridge",
    description="The file of `nri bridge --config`, or /etc/nri/conf.d/10-v1bridge.conf: docs/configuration.md.",
):
    """The bridge options, with the default of each that is not given or wrong.

    containerd 1.7 ends when a plugin does not accept its configuration; a misspelt key must not take a node down.
    """

    conf_dir: str = host_fields.CONF_DIR
    conf_file: str = host_fields.CONF_FILE
    bin_dirs: tuple[str, ...] = host_fields.BIN_DIRS
    failure_policy: str = host_fields.FAILURE_POLICY
    plugin_timeout: float = fields.value(
        SECONDS,
        "seconds, for entries without a timeout; the runtime's deadline is usually shorter",
        default=DEFAULT_TIMEOUT,
    )
    resident: bool = fields.flag("keep plugins running that have opted in", default=True)
    check_owner: bool = fields.flag(
        "use only files that no other user can write to; false is for development, and logs a warning", default=True
    )
    late_create: bool = fields.flag(
        "run a late create for containers that started without the bridge; false: they are logged and listed",
        default=True,
    )
    reapply: bool = fields.flag(
        "after a change of the configuration, run it for containers that run, too; false: `nri reapply` does it",
        default=False,
    )
    record_dir: str = host_fields.RECORD_DIR
    nice: int = fields.integer(
        "nice value that bridge and plugins run at, if theirs is higher and may be lowered (CAP_SYS_NICE)",
        -20,
        19,
        default=-10,
    )
    log_file: str = fields.path("file that the log is appended to (mode 0600)", default="")
    doubts: ClassVar[tuple[str, ...]] = ()
    """Why these are not the options that an operator has given; then no configuration is known."""
    log_level: str = fields.choice(
        *("debug", "info", "warning", "error"),
        default="info",
        description="lowest level that is logged; an event is info, or error if a plugin failed",
    )


def adopt(text: str) -> tuple[BridgeOptions, list[str]]:
    """Return the options in a text that a runtime passes to the bridge that it launches, and what is wrong with them.

    A runtime passes "" for a file that is not there, so that is no answer where there have been options. The last
    valid ones are recorded, in the default directory of the hosts' record, which does not depend on what is lost, and
    stay in use; where there are none, the right keys count, with ``BridgeOptions.doubts``.
    """
    path = f"{DEFAULT_RECORD_DIR}/.options"
    options, faults = BridgeOptions.of_text(text)
    if (
        not faults
        and options.record_dir != DEFAULT_RECORD_DIR
        and not os.path.realpath(options.record_dir).startswith("/run/")
    ):
        return options, []  # a trial's, such as the demonstration's: it is not the node's bridge
    recorded, recorded_faults = _recorded(path)
    if not faults and options.conf_dir != DEFAULT_CONF_DIR and not os.path.isdir(options.conf_dir):
        if recorded is None or recorded_faults:
            return options, []  # the configuration says that it is not there, and is known when it is
        faults = [f"confDir: {options.conf_dir} does not exist, expected the directory of the configuration"]
    if not text.strip() and recorded is not None:
        faults = ["there are none, where there were some; expected {} for the defaults"]
    if not faults:
        if text.strip():
            faults = _record(path, text)
        return options, faults
    if recorded is not None and not recorded_faults:
        return recorded, [f"{fault}; still using the last valid ones" for fault in faults]
    options.__dict__["doubts"] = tuple([f"the options of the bridge: {fault}" for fault in faults])
    return options, [f"{fault}; no plugin runs before there are valid ones" for fault in faults]


def _recorded(path: str) -> tuple[BridgeOptions | None, list[str]]:
    try:
        document, status = files.read_regular(path, MAX_OPTIONS)
        if trust.judge_path(path, status):
            return None, []
        return BridgeOptions.of_text(document.decode())
    except (OSError, ValueError):
        return None, []


def _record(path: str, text: str) -> list[str]:
    try:
        trust.make_private(os.path.dirname(path))
        files.replace(path, text.encode())
    except (OSError, NRIError, ValueError) as error:
        return [f"cannot be recorded: {path}: {reason_of(error)}"]
    return []
