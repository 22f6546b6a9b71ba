"""Decides whether a plugin can be preforked: it was built with :mod:`nri.skel`, and says so itself.

A plugin whose file does not mention :mod:`nri.skel` is never asked: it may not know the question.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nri.prefork.pool.server_handle import ServerHandle
from nri.prefork.pool.starting import stated_reason
from nri.prefork.protocol import VERSION
from nri.process import launch
from nri.types import gojson
from nri.types.gojson import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to answer ``TYPE version``, and then to become ready."""

MARKS = (b"nri.skel", b"nri import skel")
"""Text in the file of a plugin that was built with :mod:`nri.skel`."""

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that are searched."""

FOREIGN = "it was not built with nri.skel"


def is_built_with_skel(path: str) -> bool:
    """Return whether the file shows that the plugin was built with :mod:`nri.skel`.

    :raises OSError: when it can't be read.
    """
    with open(path, "rb") as file:
        content = file.read(MAX_FILE)
    return any(mark in content for mark in MARKS)


def why_not(path: str, plugin: str) -> str:
    """Return why a plugin can't be preforked, or "" if it says that it can.

    :raises OSError: when it can't be read or started.
    """
    if not is_built_with_skel(path):
        return FOREIGN
    output = _ask(path, plugin, "version")
    try:
        about = gojson.loads(output.stdout)
        number = about.get("prefork") if isinstance(about, dict) else None
    except ValueError:
        return "it does not answer 'version'" + (f": {shorten(output.stderr, 200)}" if output.stderr else "")
    if number == VERSION:
        return ""
    if number is not None:
        found = gojson.describe(number)
        return f"it was built with another version of nri.skel: its prefork is {found}, expected {VERSION}"
    # It says why, unless its nri.skel is older than this verb.
    lines: list[str] = []
    _ask(path, plugin, "prefork", lines.append)
    reason = stated_reason("\n".join(lines).encode(), plugin)
    return reason or "it was built with a version of nri.skel that can't"


def try_prefork(path: str, plugin: str) -> str:
    """Start and end a plugin's server; return "", or the reason why the plugin is started for each request.

    A plugin that was not built with :mod:`nri.skel` is not run; the answer is "".
    """
    try:
        why = why_not(path, plugin)
        if why == "":
            server = ServerHandle(path, plugin)
            try:
                why = server.prepare(ANSWER_WITHIN)
            finally:
                server.retire(wait=True)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return "" if why == FOREIGN else why


def _ask(path: str, plugin: str, verb: str, log: Callable[[str], None] = lambda _line: None) -> launch.Output:
    return launch.launch(path, [plugin, verb], b"", time.monotonic() + ANSWER_WITHIN, log=log)
