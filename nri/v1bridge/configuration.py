"""The host configuration in use, for a process that stays: looked at for each event, and reported when it changes.

``nri.node.in_use`` decides which files count.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from nri.config import ConfigError, ConfigList, Fault, refused
from nri.config.entries import types_of
from nri.config.site import Site
from nri.node.acceptance import Acceptance
from nri.node.in_use import InUse, how_long
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
        acceptance: Acceptance | None = None,
    ) -> None:
        self.doubts = tuple(doubts)
        if doubts:
            site = site.replace(record_dir="")
        self._in_use = InUse(site, acceptance=acceptance)
        self._lock = threading.Lock()
        self._current: ConfigList | None = None
        self._hash = ""  # of the configuration in use
        self._reported: object = ()  # what the log has last
        self._rejected_since: float | None = None

    def use(self, site: Site, acceptance: Acceptance | None) -> None:
        """Use the plugins of another site, with the same places, from now on."""
        with self._lock:
            self._in_use.site = site
            self._in_use.acceptance = acceptance

    def current(self) -> ConfigList:
        """Return the configuration in use; no plugins before the first valid one. It raises nothing."""
        in_use = self._in_use
        with self._lock:
            rejected = in_use.rejected
            try:
                if self.doubts:
                    faults = []
                    for doubt in self.doubts:
                        faults.append(
                            Fault(file=in_use.site.conf_dir, message=f"not known: {doubt}")
                        )

                    in_use.rejected = ConfigError(faults)
                else:
                    in_use.look()
            # Such as no memory, or a module that cannot be loaded.
            except (Exception, SystemExit) as error:
                in_use.reject(
                    f"cannot be read: {type(error).__name__}: {shorten(str(error), MAX_TEXT)}"
                )
            if in_use.rejected is None:
                self._rejected_since = None
            else:
                self._rejected_since = self._rejected_since or time.time()
            is_new = in_use.config is not self._current and in_use.config != self._current
            self._current = in_use.config
            is_valid_again = rejected is not None and in_use.rejected is None
            is_to_be_said = is_new or is_valid_again
            if self._current is not None and is_to_be_said:
                self._hash = self._current.content_hash()
                log.info(
                    "configuration: %s", self._names(), extra={"fields": [("hash", self._hash)]}
                )
            self._report()
            return self._current or NONE

    @property
    def is_known(self) -> bool:
        """Return whether there has been a valid configuration, be it an empty one."""
        return self._current is not None

    @property
    def fault(self) -> str:
        """Why the record of the configuration in use cannot be used, "" if it can be."""
        return self._in_use.fault

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the configuration: docs/status.md."""
        in_use = self._in_use
        refusal = refused.read(self._in_use.site.conf_dir)
        with self._lock:
            faults = () if in_use.rejected is None else in_use.rejected.faults
            missing = [] if in_use.is_waiting else list(in_use.missing)
            return {
                "files": list(in_use.documents),
                "missing": missing,
                "hash": self._hash or None,
                "valid": in_use.rejected is None and self._current is not None,
                "faults": list(map(str, faults)),
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
        rejected = self._in_use.rejected
        missing: tuple[str, ...] = ()
        if not self._in_use.is_waiting:
            missing = tuple(self._in_use.missing)
        news: object = missing if rejected is None else rejected.faults
        if news == self._reported:
            return
        self._reported = news
        kept = "" if self._current is None else self._names()
        if missing:
            until = how_long(self._in_use)
            paths = shorten(", ".join(missing), MAX_TEXT)
            log.error("missing, and still in use %s (%s): %s", until, kept, paths)
        without = "there has been no valid one, so no plugin runs"
        if kept:
            used = f"still using the last valid one ({kept})"
        else:
            used = without
        for fault in rejected.faults if rejected is not None else ():
            log.error("invalid configuration; %s: %s", used, fault)

    def _names(self) -> str:
        """Return the types of the plugins in use, for the log."""
        plugins = self._current.plugins if self._current else ()
        return shorten(", ".join(types_of(plugins)), MAX_TEXT) or "no plugins"
