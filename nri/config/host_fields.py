"""Fields that the options of the bridge and of nri-runc share: where the host configuration and the plugins are."""

from __future__ import annotations

from nri.config.entries import FAILURE_POLICIES
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, DEFAULT_RECORD_DIR
from nri.types import fields

CONF_DIR = fields.path("directory of the host configuration", default=DEFAULT_CONF_DIR)
CONF_FILE = fields.path("file that is read if that directory has no .conf file", default=DEFAULT_CONF_FILE)
BIN_DIRS = fields.array(
    fields.PATH,
    "directories of plugins; the first that has the plugin is used",
    shortest=1,
    expected="an array of absolute paths, at least one",
    default=[*DEFAULT_BIN_DIRS],
)
RECORD_DIR = fields.path(
    "directory of the hosts' record (mode 0700); the bridge's status socket (.sock) is beside it. Keep it below /run",
    default=DEFAULT_RECORD_DIR,
)
FAILURE_POLICY = fields.choice(
    *FAILURE_POLICIES,
    default="fail",
    description="for entries without one",
)
