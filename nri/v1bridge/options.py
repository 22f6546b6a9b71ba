"""The bridge options: one JSON object, all keys optional.

A runtime that launches the bridge passes them to it (``/etc/nri/conf.d/10-v1bridge.conf``); otherwise they come from
the file that ``--config`` names. Plugins and their confs are in the host configuration, not here.
"""

from __future__ import annotations

from nri.config import host_fields
from nri.config.entries import DEFAULT_TIMEOUT
from nri.config.validate import SECONDS
from nri.places import DEFAULT_RECORD_DIR
from nri.types import fields
from nri.types.conf import Conf


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
    record_dir: str = fields.path(
        "directory of the record of containers that have had their create (mode 0700); the status socket (.sock) is "
        "beside it. It must outlive the bridge but not a reboot: keep it below /run",
        default=DEFAULT_RECORD_DIR,
    )
    log_file: str = fields.path("file that the log is appended to (mode 0600)", default="")
    log_level: str = fields.choice(
        *("debug", "info", "warning", "error"),
        default="info",
        description="lowest level that is logged; an event is info, or error if a plugin failed",
    )
