"""The options that the bridge and nri-runc share: those of their site."""

from __future__ import annotations

from nri.config.entries import DEFAULT_TIMEOUT, FAILURE_POLICIES, SECONDS
from nri.config.site import Site
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, DEFAULT_RECORD_DIR
from nri.types import fields
from nri.types.conf import Conf


class SiteOptions(Conf):
    """The options of a site, with the default of each that is not given."""

    conf_dir: str = fields.path("directory of the host configuration", default=DEFAULT_CONF_DIR)
    conf_file: str = fields.path(
        "file that is read if that directory has no .conf file", default=DEFAULT_CONF_FILE
    )
    bin_dirs: tuple[str, ...] = fields.array(
        fields.PATH,
        "directories of plugins; the first that has the plugin is used",
        shortest=1,
        expected="an array of absolute paths, at least one",
        default=[*DEFAULT_BIN_DIRS],
    )
    record_dir: str = fields.path(
        "directory of the hosts' record (mode 0700); the bridge's status socket (.sock) is beside it. "
        "Keep it below /run",
        default=DEFAULT_RECORD_DIR,
    )
    failure_policy: str = fields.choice(
        *FAILURE_POLICIES,
        default="fail",
        description="for entries without one",
    )
    timeout: float = fields.value(
        SECONDS, "seconds, for entries without a timeout", default=DEFAULT_TIMEOUT
    )

    @property
    def site(self) -> Site:
        """The site that these options describe."""
        values = {name: self.__dict__[name] for name in Site.__slots__ if name in self.__dict__}
        return Site(**values)
