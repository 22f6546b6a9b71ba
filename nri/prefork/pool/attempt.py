"""One attempt to have a plugin preforked: its server is started, and the files it was loaded from are checked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from nri.prefork.pool import eligibility
from nri.prefork.pool.server_handle import ServerHandle
from nri.prefork.pool.standby import Standby
from nri.prefork.pool.watched_files import Files, Look, Seen, identity, wait_until_settled

if TYPE_CHECKING:
    Server = ServerHandle | Standby


class Attempt(NamedTuple):
    """The outcome of an attempt."""

    server: Server | None
    """None also for a plugin that is not to be preforked."""
    files: Files
    """The files that the plugin was loaded from, its executable first."""
    why_not: str = ""
    """The reason why the server can't be used or started."""
    seen: Seen | None = None
    """The plugin's files, if they are the reason."""


def attempt(path: str, plugin: str, prefork: str, files: Files, seen: Seen | None) -> Attempt:
    """Start a plugin's server, and wait until it is ready. A server that can't be used is ended.

    :param prefork: the setting in the plugin's entry: ``always``, ``never`` or "".
    :param files: the executable.
    :param seen: the files at the last attempt.
    """
    server: ServerHandle | None = None
    changing = None
    try:
        why = eligibility.FOREIGN if prefork == "never" else eligibility.why_not(path, plugin)
        wait_until_settled(files[path])
        look = Look(seen)
        if why == eligibility.FOREIGN:
            return Attempt(Standby(path, plugin) if prefork == "always" else None, files)
        if why == "":
            server = ServerHandle(path, plugin)
            why = server.prepare(eligibility.ANSWER_WITHIN)
        if server is not None and why == "":
            found = {each: identity(each) for each in server.files}
            # The executable may have two names, and is checked by one of them.
            loaded = files | {each: one for each, one in found.items() if one != files[path]}
            why = look.changed(loaded)
            if why == "":
                return Attempt(server, loaded)
            changing = Seen(loaded, time.monotonic_ns())
    except FileNotFoundError as error:
        why = f"a file is not there: {error.filename or path}"
        changing = Seen(files, time.monotonic_ns())
    except OSError as error:
        why = f"it cannot be started: {error.strerror}"
    if server is not None:
        server.retire()
    return Attempt(None, files, why, changing)
