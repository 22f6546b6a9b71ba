"""The bridge options: one JSON object, all keys optional.

A runtime that launches the bridge passes them to it (``/etc/nri/conf.d/10-v1bridge.conf``); otherwise they come from
the file that ``--config`` names. Plugins and their confs are in the host configuration, not here.
"""

from __future__ import annotations

from nri.config import host_fields
from nri.config.entries import DEFAULT_TIMEOUT
from nri.config.validate import SECONDS
from nri.errors import NRIError
from nri.places import DEFAULT_RECORD_FILE
from nri.types import DecodeError, fields, gojson
from nri.types.conf import Conf


class OptionsError(NRIError):
    """The bridge options cannot be used; the message names the key, what was found, and what would be right."""


class BridgeOptions(
    Conf,
    title="Options of the bridge",
    description="The file of `nri bridge --config`, or /etc/nri/conf.d/10-v1bridge.conf: docs/configuration.md.",
):
    """The bridge options, with the default of each that is not given."""

    conf_dir: str = host_fields.CONF_DIR
    conf_file: str = host_fields.CONF_FILE
    bin_dirs: tuple[str, ...] = host_fields.BIN_DIRS
    failure_policy: str = host_fields.FAILURE_POLICY
    plugin_timeout: float = fields.value(SECONDS, "seconds that each plugin has", default=DEFAULT_TIMEOUT)
    resident: bool = fields.flag("keep the plugins running that have opted in", default=True)
    check_owner: bool = fields.flag("run and read only what root alone can write to", default=True)
    late_create: bool = fields.flag("serve containers that have started without the bridge", default=True)
    record_file: str = fields.path("the record of containers that were served", default=DEFAULT_RECORD_FILE)
    log_file: str = fields.path("the log, instead of the journal or syslog", default="")
    log_level: str = fields.choice(
        "debug", "info", "warning", "error", default="info", description="the least level that is logged"
    )
    log_format: str = fields.choice("text", "json", default="text", description="the form of a line of the log")

    @classmethod
    def parse(cls, document: str) -> BridgeOptions:
        """Return the options of a JSON text; "" (or blanks) means no options.

        :raises OptionsError: with all faults.
        """
        options, faults = cls.read(document)
        if faults:
            raise OptionsError(f"bridge options: {'; '.join(faults)}")
        return options

    @classmethod
    def read(cls, document: str) -> tuple[BridgeOptions, list[str]]:
        """Return the valid options of a JSON text, with the defaults for the rest, and the faults.

        containerd 1.7 ends when a plugin does not accept its configuration; a misspelt key must not take a node down.
        """
        if not document.strip():
            return cls(), []
        try:
            value = gojson.loads(document)
        except DecodeError as error:
            return cls(), [f"they are not JSON: {error}"]
        return cls.of_right(value)
