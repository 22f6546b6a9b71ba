"""From a plugin's file to a server that is ready, or to the reason why the plugin is not preforked.

A plugin is preforked if it was built with :mod:`nri.skel`, ``TYPE version`` reports it, and its server becomes
ready. ``TYPE version`` is never run if the plugin's file does not mention :mod:`nri.skel`: it may not know the verb.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, NamedTuple

from nri import __version__
from nri.prefork.pool.server_handle import ServerHandle, stated_reason
from nri.prefork.pool.server_process import OwnProcess
from nri.prefork.pool.standby import Standby
from nri.prefork.pool.watched_files import Files, Look, Seen, identity, wait_until_settled
from nri.prefork.protocol import VERSION
from nri.process import launch
from nri.types import gojson
from nri.types.gojson import shorten

if TYPE_CHECKING:
    from nri.prefork.pool.shared_server import Joined, SharedServer
    from nri.process.lines import Log

    Server = ServerHandle | Standby

ANSWER_WITHIN = 10.0  # seconds that a plugin has to answer `TYPE version`, and then to become ready
MARKS = (b"nri.skel", b"nri import skel")  # text in the file of a plugin that was built with nri.skel
MAX_VERSION = 100  # characters of a plugin's version that are kept
MAX_FILE = 64 * 1024 * 1024  # bytes of a file that are searched
FOREIGN = "it was not built with nri.skel"


class Attempt(NamedTuple):
    """The outcome of an attempt."""

    server: Server | None  # also None for a plugin that must not be preforked
    files: Files  # the files that the plugin was loaded from, its executable first
    why_not: str = ""  # the reason why the server can't be used or started
    seen: Seen | None = None  # the plugin's files, if they are the reason
    build: str = ""  # the version that it reports


def attempt(
    path: str, plugin: str, prefork: str, files: Files, seen: Seen | None, shared: SharedServer | None = None
) -> Attempt:
    """Start a plugin's server, and wait until it is ready. A server that can't be used is ended.

    :param prefork: the value of ``prefork`` in the plugin's entry: ``always``, ``never`` or "".
    :param files: the executable.
    :param seen: the files at the last attempt.
    :param shared: serves the plugins that are part of the host's own build.
    """
    if shared is not None and prefork != "never" and (joined := shared.join(path, plugin)) is not None:
        return _attempt_shared(joined, files)
    server = changing = None
    build = ""
    try:
        why, build = (FOREIGN, "") if prefork == "never" else _ask_whether(path, plugin)
        wait_until_settled(files[path])
        look = Look(seen)
        if why == FOREIGN:
            return Attempt(Standby(path, plugin) if prefork == "always" else None, files)
        if why == "":
            server, why = _start(path, plugin)
            if why == "":
                found = {each: identity(each) for each in server.files}
                # The executable may have two names, and is checked by one of them.
                loaded = files | {each: one for each, one in found.items() if one != files[path]}
                why = look.changed(loaded)
                if why == "":
                    return Attempt(server, loaded, build=build)
                changing = Seen(loaded, time.monotonic_ns())
    except FileNotFoundError as error:
        why = f"a file is not there: {error.filename or path}"
        changing = Seen(files, time.monotonic_ns())
    except OSError as error:
        why = f"it cannot be started: {error.strerror}"
    if server is not None:
        server.retire()
    return Attempt(None, files, why, changing, build)


def _start(path: str, plugin: str) -> tuple[ServerHandle, str]:
    """Start a server of the plugin's own; return it, and "" or the reason why it can't be used."""
    server = ServerHandle(plugin, functools.partial(OwnProcess, path, plugin))
    until = time.monotonic() + ANSWER_WITHIN
    return server, server.load(until) or server.prepare(until)


def _attempt_shared(joined: Joined, files: Files) -> Attempt:
    why = joined.server.prepare(time.monotonic() + ANSWER_WITHIN)
    if why:
        joined.server.retire()
    return Attempt(None if why else joined.server, files | joined.files, why, build=__version__)


def try_prefork(path: str, plugin: str) -> str:
    """Start and end a plugin's server; return "", or the reason why the plugin is started for each request.

    A plugin that was not built with :mod:`nri.skel` is not run; the answer is "".
    """
    try:
        why, _ = _ask_whether(path, plugin)
        if why == "":
            server, why = _start(path, plugin)
            server.retire(wait=True)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return "" if why == FOREIGN else why


def is_built_with_skel(path: str) -> bool:
    """Return whether the file shows that the plugin was built with :mod:`nri.skel`.

    :raises OSError: when it can't be read.
    """
    with open(path, "rb") as file:
        content = file.read(MAX_FILE)
    return any(mark in content for mark in MARKS)


def _ask_whether(path: str, plugin: str) -> tuple[str, str]:
    """Return the reason why a plugin can't be preforked, or "" if it reports that it can; and its version."""
    if not is_built_with_skel(path):
        return FOREIGN, ""
    output = _ask(path, plugin, "version")
    try:
        answer = gojson.loads(output.stdout)
    except ValueError:
        return "it does not answer 'version'" + (f": {shorten(output.stderr, 200)}" if output.stderr else ""), ""
    about = answer if isinstance(answer, dict) else {}
    number, version = about.get("prefork"), about.get("version")
    build = shorten(version, MAX_VERSION) if isinstance(version, str) else ""
    if number == VERSION:
        return "", build
    if number is not None:
        found = gojson.describe(number)
        return f"it was built with another version of nri.skel: its prefork is {found}, expected {VERSION}", build
    # It gives the reason, unless its nri.skel is older than this verb.
    lines: list[str] = []
    _ask(path, plugin, "prefork", lines.append)
    stated = stated_reason("\n".join(lines).encode(), plugin)
    return stated or "it was built with a version of nri.skel that can't", build


def _ask(path: str, plugin: str, verb: str, log: Log = lambda _line: None) -> launch.Output:
    return launch.launch(path, [plugin, verb], b"", time.monotonic() + ANSWER_WITHIN, log=log)
