"""The chains that run: each counts until it has ended, and leaves work for the time after the answer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from nri.client import ChainError
from nri.errors import bounded, escape
from nri.process import children
from nri.v1bridge.event_log import EventLog
from nri.v2.ttrpc import Code, StatusError

if TYPE_CHECKING:
    from nri.adjust import Changes
    from nri.client import Client
    from nri.process.conversation import Stop
    from nri.process.subreaper import Subreaper
    from nri.types.v1 import Request
    from nri.v1bridge.clients import Clients
    from nri.v1bridge.event_log import EventLines
    from nri.v1bridge.ledger import Ledger

MAX_ERROR = 4096
"""Bytes of an error, in one line, that the runtime shows to the pod's owner; a plugin may write a megabyte."""


class Chains:
    """Runs chains with the clients of the bridge. All methods may be called from any thread.

    :param subreaper: see :class:`nri.v1bridge.bridge.Bridge`.
    """

    def __init__(self, clients: Clients, ledger: Ledger, subreaper: Subreaper | None) -> None:
        self._clients, self._ledger, self._subreaper = clients, ledger, subreaper
        self._log = EventLog(self._note)
        self._busy = 0
        self._lock = threading.Lock()  # protects _busy
        self._idle = threading.Condition(self._lock)
        self._tidying = threading.Lock()

    def run(
        self,
        client: Client,
        request: Request,
        name: str,
        deadline: float | None,
        *,
        event: str = "",
        changes: Changes | None = None,
        stop: Stop | None = None,
    ) -> None:
        """Run the chain for a request, and log it.

        :param client: has the chain.
        :param name: ``NAMESPACE/POD[/CONTAINER]``, for the log.
        :param deadline: a time of :func:`time.monotonic`; None if only the timeouts of the plugins apply.
        :param event: the runtime's event; "" for a late create.
        :param changes: takes what the results ask for.
        :param stop: ends it.
        :raises StatusError: a plugin has failed; its text is fit for the runtime.
        """
        started = time.monotonic()
        lines = self._log.begin(request, name, client, deadline and deadline - started, event)
        message = ""
        with self._lock:
            self._busy += 1
        try:
            client.invoke(
                request,
                request.state,
                deadline=deadline,
                log=lines.says,
                on_step=lines.step,
                changes=changes,
                stop=stop,
            )
        except ChainError as error:
            message = bounded(escape(f"nri v0.1: {error}"), MAX_ERROR)
            raise StatusError(Code.ABORTED, message) from None
        except BaseException as error:
            message = escape(f"{type(error).__name__}: {error}")
            raise
        finally:
            lines.end(time.monotonic() - started, message)
            with self._lock:
                self._busy -= 1
                self._idle.notify_all()

    def _note(self, lines: EventLines, seconds: float, error: str) -> None:
        self._ledger.ran(lines.name, lines.request, lines.event, lines.steps, seconds, error)

    def tidy(self) -> None:
        """Do the work of chains that no event waits for."""
        with self._tidying:
            children.reap_late()
            self._clients.tidy()
            if self._subreaper is not None and self._subreaper.may_have_orphans():
                self._subreaper.end_orphans(self._lock, lambda: self._busy > 0)
            self._log.write()
            self._clients.configuration.explain()
            self._ledger.enter()

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until no chain is running and the log has all faults of the configuration, at most *timeout* seconds.

        Return whether no chain is running.
        """
        until = time.monotonic() + timeout
        with self._lock:
            is_idle = self._idle.wait_for(lambda: self._busy == 0, timeout)
        self._log.finish()
        configuration = self._clients.configuration
        configuration.explain()
        configuration.is_explained(max(0.0, until - time.monotonic()))
        return is_idle
