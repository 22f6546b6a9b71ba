"""Finds out whether an executable is a plugin of this very build, whose code this process has itself.

It is one if it is a file of the folder that this process was started from, and its mark (:mod:`nri.build_mark`) names
the build of this process's own executable. A copy, a script or another build in the place of a plugin is none.
"""

from __future__ import annotations

import os
import sys

from nri import build_mark
from nri.process.afresh import LoadedProgram
from nri.process.spawn import PLUGIN_ENVIRONMENT

_STATEFUL = ("atexit", "logging", "multiprocessing", "random", "threading")
"""Modules whose state a fork shares or loses. No host that uses this invoker loads them."""


def find_program(path: str, argv: list[str]) -> LoadedProgram | None:
    """Return what the executable ``path`` runs, loaded, if it is a plugin of this build and can be forked; else None.

    :param argv: the arguments that it would be started with.
    """
    if not getattr(sys, "frozen", False) or not _can_be_forked():
        return None
    executable, module = build_mark.read_own_plugin(path)
    if not module:
        return None
    try:
        __import__(module)
    except ImportError:
        return None
    loaded = sys.modules[module]
    return LoadedProgram(
        loaded.main, loaded, path=path, executable=executable, argv=argv, environment=_environment(path, executable)
    )


def _can_be_forked() -> bool:
    # A variable without a name cannot be removed in the child.
    return "" not in os.environ and sys.modules.keys().isdisjoint(_STATEFUL)


def _environment(path: str, executable: str) -> dict[str, str]:
    """Return the environment of a plugin with the variables that PyInstaller's loader would add."""
    loader = {
        "LD_LIBRARY_PATH": os.path.join(os.path.dirname(executable), "_internal"),
        "_PYI_ARCHIVE_FILE": executable,
        "_PYI_LINUX_PROCESS_NAME": os.path.basename(path)[:15],
        "_PYI_PARENT_PROCESS_LEVEL": "1",
    }
    return PLUGIN_ENVIRONMENT | {name: value for name, value in loader.items() if name in os.environ}
