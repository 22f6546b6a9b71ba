"""The bridge options: one JSON object, all keys optional.

A runtime that launches the bridge passes them to it (``/etc/nri/conf.d/10-v1bridge.conf``); otherwise they come from
the file that ``--config`` names. Plugins and their confs are in the host configuration, not here.
"""

from __future__ import annotations

import os
from typing import ClassVar

from nri import files
from nri.config.entries import DEFAULT_TIMEOUT, SECONDS
from nri.config.site_options import SiteOptions
from nri.node import options as node_options
from nri.places import DEFAULT_CONF_DIR
from nri.types import fields
from nri.v2.api.names import INDEX_VARIABLE, NAME_VARIABLE


class BridgeOptions(
    SiteOptions,
    title="Options of the bridge",
    description="The file of `nri bridge --config`, or /etc/nri/conf.d/10-v1bridge.conf: "
    "docs/configuration.md.",
):
    """The bridge options, with the default of each that is not given or wrong.

    containerd 1.7 ends when a plugin does not accept its configuration; a misspelt key must not take a node down.
    """

    timeout: float = fields.value(
        SECONDS,
        "seconds, for entries without a timeout; the runtime's deadline is usually shorter",
        default=DEFAULT_TIMEOUT,
        key="pluginTimeout",
    )
    resident: bool = fields.flag("keep plugins running that have opted in", default=True)
    check_owner: bool = fields.flag(
        "use only files that no other user can write to; false is for development, and logs a "
        "warning",
        default=True,
    )
    late_create: bool = fields.flag(
        "run a late create for containers that started without the bridge; false: they are "
        "logged and listed",
        default=True,
    )
    reapply: bool = fields.flag(
        "after a change of the configuration, run it for containers that run, too; false: `nri "
        "reapply` does it",
        default=False,
    )
    nice: int = fields.integer(
        "nice value that bridge and plugins run at, if theirs is higher and may be lowered "
        "(CAP_SYS_NICE)",
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


CONF_DIR = "/etc/nri/conf.d"
"""Where runtimes look for the options of a plugin that they launch: ``NN-NAME.conf``, or ``NAME.conf``."""


def adopt(text: str) -> tuple[BridgeOptions, list[str]]:
    """Return the options in a text that a runtime passes to the bridge that it launches, and what is wrong with them.

    The last valid ones stay in use; where there are none, the right keys count, with ``BridgeOptions.doubts``.
    """
    options, faults = BridgeOptions.of_text(text)
    if not faults and not node_options.is_nodes(options.record_dir):
        return options, []  # a trial's, such as the demonstration's: it is not the node's bridge
    recorded = node_options.last(node_options.BRIDGE, BridgeOptions)
    if not faults:
        faults = _doubts(text, options, recorded)
    if faults:
        return _still(options, recorded, faults)
    if not text.strip():
        return options, []
    wrong = node_options.record(node_options.BRIDGE, text.encode("utf-8", "surrogateescape"))
    return options, list(filter(None, [wrong]))


def _doubts(text: str, options: BridgeOptions, recorded: BridgeOptions | None) -> list[str]:
    """Return why valid options are not those that an operator has given."""
    if not text.strip():
        if recorded is not None:
            return ["there are none, where there were some; expected {} for the defaults"]
        if text or _is_blank_file():
            return ["the file is empty; expected {} for the defaults"]
    # Without recorded options, the configuration says that its directory is not there, and is known when it is.
    is_default = options.conf_dir == DEFAULT_CONF_DIR
    if recorded is None or is_default or os.path.isdir(options.conf_dir):
        return []
    return [
        f"confDir: {options.conf_dir} does not exist, expected the directory of the configuration"
    ]


def _still(
    options: BridgeOptions, recorded: BridgeOptions | None, faults: list[str]
) -> tuple[BridgeOptions, list[str]]:
    """Return the options that are in use in spite of faults."""
    if recorded is not None:
        return recorded, [f"{fault}; still using the last valid ones" for fault in faults]
    options.__dict__["doubts"] = tuple([f"the options of the bridge: {fault}" for fault in faults])
    return options, [f"{fault}; no plugin runs before there are valid ones" for fault in faults]


def _is_blank_file() -> bool:
    """Return whether the file of options is there, and holds nothing: a runtime passes "" for none, too."""
    name = os.environ.get(NAME_VARIABLE, "")
    index = os.environ.get(INDEX_VARIABLE, "")
    for path in (f"{CONF_DIR}/{index}-{name}.conf", f"{CONF_DIR}/{name}.conf"):
        try:
            document, _ = files.read_regular(path, node_options.MAX_OPTIONS)
        except OSError:
            continue
        return not document.strip()
    return False
