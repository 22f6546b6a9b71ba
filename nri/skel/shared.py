"""The process of a prefork server that several plugins of one build share, inside the executable of their host.

A host of the same build starts it, and hands over its plugins (:mod:`nri.prefork.server.sharing`). Each plugin is
loaded when it is handed over.
"""

from __future__ import annotations

import os
import sys

from nri import build_mark
from nri.prefork.protocol import SHARED_VERB
from nri.prefork.server import serving
from nri.prefork.server.sharing import LoadError, SharedServing
from nri.skel.plugin import Plugin
from nri.skel.process import program_of
from nri.types.v1 import Request, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from nri.prefork.server.worker import Program


class Nothing(Plugin):
    """A plugin that does nothing, for requests that are rehearsed before a plugin is loaded."""

    type = SHARED_VERB

    def invoke(self, request: Request) -> Result:
        """Return an empty result."""
        return request.new_result(self.type)


def main(build: str) -> NoReturn:
    """Serve plugins until the host closes stdin.

    :param build: the host's build; a process of another build refuses to serve.
    """
    if build_mark.read(build_mark.OWN)[1] != build:
        serving.refuse(SHARED_VERB, None, "this executable is of another build than the host that has started it")
    serve()


def serve() -> NoReturn:
    """Serve plugins whatever the build is, as :func:`main` does."""
    control = serving.take_control(SHARED_VERB)
    serving.close_stderr()
    for variable in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[variable]  # PyInstaller's; they name the host's executable
    serving.prepare(program_of(Nothing()))
    SharedServing(control, load).run()


def load(module: str) -> Program:
    """Return the plugin that the executable of ``module`` runs.

    :raises LoadError: when it cannot be loaded, or defines another number of plugins than one.
    """
    try:
        __import__(module)
    except ImportError as error:
        raise LoadError(f"{module} cannot be imported: {error}") from error
    found = [
        value
        for value in vars(sys.modules[module]).values()
        if isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin
    ]
    if len(found) != 1:
        raise LoadError(f"{module} has {len(found)} classes of plugins; expected one")
    return program_of(found[0]())
