"""One scrape: the bridge is asked once, within a bounded time, and its absence is an answer, too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.metrics.page import render
from nri.status.client import AskError, status

if TYPE_CHECKING:
    from collections.abc import Callable


class Scraper:
    """Makes the text format of the bridge at a socket, from any thread.

    A bridge that does not answer is ``nri_v1bridge_up 0``; the reason is reported, once for as long as it lasts.

    :param path: the bridge's status socket.
    :param report: takes a line for people.
    """

    def __init__(self, path: str, report: Callable[[str], None]) -> None:
        self._path, self._report = path, report
        self._lock = threading.Lock()
        self._reason = ""

    def text(self) -> bytes:
        """Ask the bridge, and return the text format."""
        try:
            document, reason = status(self._path), ""
        except AskError as error:
            document, reason = None, str(error)
        self._note(reason)
        return render(document)

    def _note(self, reason: str) -> None:
        with self._lock:
            is_news, self._reason = reason != self._reason, reason
        if is_news:
            self._report(reason or "the bridge answers again")
