"""The host configuration in use, for a process that stays: looked at for each event, and reported when it changes.

``nri.node.in_use`` decides which files count.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from nri.config import ConfigList, Fault, refused
from nri.config.entries import types_of
from nri.config.site import Site
from nri.node.acceptance import Acceptance
from nri.node.in_use import ACCEPTS_ALL, AcceptsAll, InUse, how_long
from nri.types.gojson import shorten
from nri.v1bridge.runs import MAX_TEXT

NONE = ConfigList()

log = logging.getLogger("nri.v1bridge")


class Configuration:
    """The host configuration of a directory, or of the single file that is read instead.

    :param doubts: faults of the options that name the site. With any, the configuration is not known.
    :param acceptance: see ``InUse``.
    """

    def __init__(
        self,
        site: Site,
        doubts: Sequence[str] = (),
        acceptance: Acceptance | AcceptsAll = ACCEPTS_ALL,
    ) -> None:
        if doubts:
            self._in_use: InUse = _Unknown(site, doubts)
        else:
            self._in_use = InUse(site, acceptance=acceptance)
        self._lock = threading.Lock()
        self._reported: object = None  # what the log has last
        self._rejected_since: float | None = None

    def use(self, site: Site, acceptance: Acceptance | AcceptsAll) -> None:
        """Use the plugins of another site, with the same places, from now on."""
        with self._lock:
            self._in_use.site = site
            self._in_use.acceptance = acceptance

    def current(self) -> ConfigList:
        """Return the configuration in use; no plugins before the first valid one. It raises nothing."""
        in_use = self._in_use
        with self._lock:
            try:
                in_use.look()
            # Such as no memory, or a module that cannot be loaded.
            except (Exception, SystemExit) as error:
                in_use.reject(
                    f"cannot be read: {type(error).__name__}: {shorten(str(error), MAX_TEXT)}"
                )
            self._report()
            return self._used

    @property
    def _used(self) -> ConfigList:
        return self._in_use.config or NONE

    @property
    def is_known(self) -> bool:
        """Return whether there has been a valid configuration, be it an empty one."""
        return self._in_use.config is not None

    @property
    def fault(self) -> str:
        """Why the record of the configuration in use cannot be used, "" if it can be."""
        return self._in_use.fault

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the configuration: docs/status.md."""
        in_use = self._in_use
        refusal = refused.read(self._in_use.site.conf_dir)
        with self._lock:
            return {
                "files": list(in_use.documents),
                "missing": list(in_use.lost),
                "hash": self._used.content_hash() if self.is_known else None,
                "valid": self.is_known and not in_use.rejected,
                "faults": list(map(str, in_use.rejected)),
                "since": in_use.since,
                "rejectedSince": self._rejected_since,
                "refused": None if refusal is None else refusal._asdict(),
            }

    def keep(self) -> None:
        """Write the record of the configuration in use again, if it has been lost."""
        with self._lock:
            self._in_use.keep()

    def _report(self) -> None:
        """Log what the log does not have yet."""
        in_use = self._in_use
        news: object = in_use.config, in_use.rejected, in_use.lost
        if news == self._reported:
            return
        self._reported = news
        if in_use.rejected:
            self._rejected_since = self._rejected_since or time.time()
        else:
            self._rejected_since = None
        if in_use.lost:
            paths = shorten(", ".join(in_use.lost), MAX_TEXT)
            about = "missing, and still in use %s (%s): %s"
            log.error(about, how_long(in_use), self._names(), paths)
        elif not in_use.rejected:
            fields = [("hash", self._used.content_hash())]
            log.info("configuration: %s", self._names(), extra={"fields": fields})
        if self.is_known:
            used = f"still using the last valid one ({self._names()})"
        else:
            used = "there has been no valid one, so no plugin runs"
        for fault in in_use.rejected:
            log.error("invalid configuration; %s: %s", used, fault)

    def _names(self) -> str:
        """Return the types of the plugins in use, for the log."""
        return shorten(", ".join(types_of(self._used.plugins)), MAX_TEXT) or "no plugins"


class _Unknown(InUse):
    """The configuration of a site that is in doubt: no file counts.

    :param doubts: why.
    """

    def __init__(self, site: Site, doubts: Sequence[str]) -> None:
        super().__init__(site.replace(record_dir=""))
        self._doubts = [Fault(file=site.conf_dir, message=f"not known: {one}") for one in doubts]

    def look(self) -> None:
        """Look at nothing."""
        self.rejected = self._doubts
