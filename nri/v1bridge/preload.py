"""Import in advance every module that the bridge may need later.

An upgrade removes the directory that a running bridge was started from. An import from there then fails, and ends a
compiled program. So the modules that only a fault needs are imported in the background as soon as the bridge serves
its runtime: by name, and by running once the functions that import the rest.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import threading
from typing import TYPE_CHECKING

from nri.v1bridge.explaining import considerate

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = (
    *("ctypes", "difflib", "fcntl", "json", "linecache", "resource", "termios", "tokenize", "traceback"),
    *("encodings.idna", "encodings.unicode_escape", "encodings.utf_16_le"),
    *("nri.adjust.cdi", "yaml"),
    "nri.config.diagnostics",
)

log = logging.getLogger("nri.v1bridge")
_first = threading.Lock()  # the first call acquires it; it is never released


def load() -> None:
    """Import all of them, unless another call has begun to; log what cannot be imported."""
    if not _first.acquire(blocking=False):
        return
    steps: dict[str, Callable[[], object]] = {
        **{name: functools.partial(importlib.import_module, name) for name in MODULES},
        "diagnosis of a configuration": _diagnose,
        "formatting of a traceback": _format_a_traceback,
    }
    with considerate():
        for what, step in steps.items():
            try:
                step()
            except (Exception, SystemExit) as error:  # PyInstaller raises SystemExit when its files are gone
                log.warning("cannot preload %s: %s: %s", what, type(error).__name__, error)
    log.debug("preloaded modules")


def _diagnose() -> None:
    from nri.config.diagnostics import diagnose

    for document in _BROKEN:
        diagnose("", document)


def _format_a_traceback() -> None:
    try:
        raise ValueError("é") from KeyError("a")
    except ValueError:
        logging.Formatter().format(logging.LogRecord("", 0, "", 0, "", None, sys.exc_info()))


_BROKEN = (
    b"",
    b"\xff",
    b"{",
    b'{"version": 1e999}',
    b'{"\\ud800": 1, "\xc3\xa9": 1, "version": "0.1", "version": "0.2"}',
    b'{"versoin": 1, "x": [], "plugins": {}}',
    b'{"version": "0.1", "plugins": [{}, {"type": 1}, {"tpye": "a"}, 1]}',
    b'{"version": "0.1", "plugins": [{"type": "", "states": ["creat", "create", "create"]}]}',
    b'{"version": "0.1", "plugins": [{"type": "a", "timeout": 0, "resident": 1, "failurePolicy": "no"}]}',
    b'{"version": "0.1", "plugins": [{"type": "a", "timeout": 1e9, "states": {}}]}',
)
"""Configurations with each kind of fault."""
