"""A site: where a host finds its configuration, its plugins and its record, and what entries have by default."""

from __future__ import annotations

from nri.config.entries import DEFAULT_TIMEOUT
from nri.config.loading import load
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, DEFAULT_RECORD_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.config.entries import ConfigList


class Site:
    """The settings that all hosts share. Nothing sets an attribute later.

    :ivar conf_dir: the directory of the host configuration; "" for *conf_file* alone.
    :ivar conf_file: the file that is read if that directory has no ``*.conf``.
    :ivar bin_dirs: the directories of plugins; the first that has a plugin is used.
    :ivar record_dir: the directory of the hosts' record; "" for none.
    :ivar check_owner: whether files that other users can write to are refused.
    :ivar failure_policy: for entries without one.
    :ivar timeout: seconds, for entries without one.
    """

    __slots__ = (
        "bin_dirs",
        "check_owner",
        "conf_dir",
        "conf_file",
        "failure_policy",
        "record_dir",
        "timeout",
    )

    def __init__(
        self,
        *,
        conf_dir: str = DEFAULT_CONF_DIR,
        conf_file: str = DEFAULT_CONF_FILE,
        bin_dirs: Iterable[str] = DEFAULT_BIN_DIRS,
        record_dir: str = DEFAULT_RECORD_DIR,
        check_owner: bool = True,
        failure_policy: str = "fail",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.conf_dir = conf_dir
        self.conf_file = conf_file
        self.bin_dirs = tuple(bin_dirs)
        self.record_dir = record_dir
        self.check_owner = check_owner
        self.failure_policy = failure_policy
        self.timeout = timeout

    def replace(self, **changes: Any) -> Site:
        """Return a copy with other values for some attributes."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return Site(**(values | changes))

    def load(self) -> ConfigList:
        """Return the host configuration, as its files are now.

        :raises ConfigError: they are not valid.
        """
        return load(self.conf_dir, self.conf_file, check_owner=self.check_owner)

    def has_places_of(self, other: Site) -> bool:
        """Return whether another site has its configuration and record in the same places."""
        places = (self.conf_dir, self.conf_file, self.record_dir)
        return places == (other.conf_dir, other.conf_file, other.record_dir)
