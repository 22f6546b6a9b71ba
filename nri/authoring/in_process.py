"""Try a plugin on one request, in this process: its tracebacks are whole, and its writes to cgroups are seen."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nri import skel
from nri.authoring import plugin_source
from nri.authoring.build_errors import BuildError
from nri.authoring.node_cgroups import NodeCgroups
from nri.cgroups.paths import expand
from nri.client import Invoker
from nri.config.entries import is_type_name
from nri.errors import NRIError, escape
from nri.process.conversation import Output
from nri.testing import CgroupTree, Pod
from nri.types.gojson import describe, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.process.conversation import Stop
    from nri.types.v1 import Request


class TryError(NRIError):
    """A plugin cannot be tried; the message is one line, and says what to do."""


class Cgroups(Protocol):
    """The cgroups that a plugin is tried on."""

    writes: list[tuple[str, str]]

    def make(self, path: str) -> None:
        """Make a cgroup, and those above it."""


class Asked(NamedTuple):
    """One request that the plugin got.

    :ivar writes: the files of cgroups that were written, and the texts, in order.
    :ivar stderr: what it printed, tracebacks in full.
    """

    request: dict[str, Any]
    result: dict[str, Any]
    writes: list[tuple[str, str]]
    stderr: str


def load(path: str) -> skel.Plugin:
    """Return the plugin that a source file gives to ``skel.main``.

    :raises TryError: it cannot be loaded, or calls no ``skel.main``; the message has the end of the traceback.
    """
    found: list[skel.Plugin] = []

    class Captured(BaseException):
        pass

    def capture(plugin: skel.Plugin) -> None:
        found.append(plugin)
        raise Captured

    real, path = skel.main, os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(path))
    skel.main = capture  # type: ignore[assignment] # it returns, by an exception
    try:
        runpy.run_path(path, run_name="__main__")
    except Captured:
        return _checked(found[0], path)
    except SystemExit as error:
        raise TryError(
            f"{path}: it exits with {error.code!r} when it is loaded; expected skel.main(PLUGIN)"
        ) from error
    except Exception as error:
        raise TryError(_explained(path, error)) from error
    finally:
        skel.main = real
        sys.path.remove(os.path.dirname(path))
    raise TryError(f"{path}: found no call of skel.main; expected skel.main(PLUGIN) at its end, under __main__")


def _checked(plugin: skel.Plugin, path: str) -> skel.Plugin:
    if not isinstance(plugin, skel.Plugin):
        raise TryError(f"{path}: skel.main got {describe(plugin)}, expected an object of a class of skel.Plugin")
    if not is_type_name(plugin.type):
        what = "letters, digits and . _ -, beginning with a letter or digit"
        raise TryError(f"{path}: found the type {shorten(repr(plugin.type))}, expected {what}")
    return plugin


def _explained(path: str, error: Exception) -> str:
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f"{path}:{frames[-1].lineno}" if frames else path
    if isinstance(error, SyntaxError) and error.filename == path:
        where = f"{path}:{error.lineno}"
    return escape(f"{where}: {type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}")


class InThisProcess(Invoker):
    """Calls one plugin, and keeps what it was asked and what it answered.

    :param on_asked: called after each request.
    """

    def __init__(self, plugin: skel.Plugin, cgroups: Cgroups, on_asked: Callable[[Asked], None]) -> None:
        self._plugin, self._cgroups, self._on_asked = plugin, cgroups, on_asked

    def find(self, plugin: str) -> str:
        """Return the name: there is no executable."""
        return plugin

    def run(
        self,
        path: str,
        plugin: str,
        request: bytes,
        deadline: float,
        *,
        max_output: int,
        log: Any,
        stop: Stop | None = None,
    ) -> Output:
        """Call the plugin, whatever time it takes: its author may be in a debugger."""
        started = time.monotonic()
        stdout, stderr, before = io.BytesIO(), io.StringIO(), len(self._cgroups.writes)
        with contextlib.redirect_stdout(stderr), contextlib.redirect_stderr(stderr):
            status = skel.run(self._plugin, [plugin, "invoke"], io.BytesIO(request), stdout, stderr)
        output = Output()
        output.stdout, output.stderr, output.status, output.stopped = stdout.getvalue(), "", status, ""
        output.seconds = time.monotonic() - started
        result = json.loads(output.stdout) if status == 0 else {}
        self._on_asked(Asked(json.loads(request), result, self._cgroups.writes[before:], stderr.getvalue()))
        return output


def ask(plugin: skel.Plugin, request: Request, cgroups: Cgroups) -> Asked:
    """Return what a plugin makes of one request, whose cgroup is made if it has none."""
    asked: list[Asked] = []
    if request.spec is not None and request.spec.cgroups_path:
        cgroups.make(expand(request.spec.cgroups_path))
    invoker = InThisProcess(plugin, cgroups, asked.append)
    invoker.run("", plugin.type, request.to_json(), 0, max_output=0, log=None)
    return asked[0]


def below(request: Request, top: str) -> Request:
    """Return a request whose container has its cgroup below *top*, and no process: it may be another node's."""
    if not top or request.spec is None:
        return request
    path = request.spec.cgroups_path
    spec = request.spec.replace(cgroups_path=top + expand(path) if path else "")
    return request.replace(spec=spec, pid=0)


def find_plugin(path: str) -> str:
    """Return the source file of a plugin: *path*, or the one plugin in the folder *path*."""
    try:
        return plugin_source.find(path)
    except BuildError as error:
        raise TryError(str(error)) from error


@contextlib.contextmanager
def cgroups(kind: str) -> Iterator[tuple[Cgroups, str]]:
    """Cgroups to try a plugin on, and the path above those that are made.

    :param kind: ``v1``, ``v2`` or ``hybrid`` for plain files, ``real`` for the node's own.
    """
    if kind == "real":
        with NodeCgroups() as node:
            yield node, node.top
    else:
        with CgroupTree(kind) as tree:
            yield tree, ""


def request_of(
    runtime: str,
    state: str,
    conf: Any,
    annotations: dict[str, str],
    labels: dict[str, str],
    *,
    tree: Cgroups,
    top: str,
) -> Request:
    """Return a request about a container ``app`` as a runtime sends it, and make the container's cgroup.

    :param top: the path above the cgroups that are made.
    :raises TryError: there is no such runtime, or it sends none of this state.
    """
    try:
        pod = Pod(
            annotations=annotations,
            labels=labels,
            runtime=runtime,
            cgroup_version=1 if isinstance(tree, CgroupTree) and tree.kind != "v2" else 2,
            cgroup_parent=f"{top}/kubepods/burstable/pod1" if top else "",
        )
        container = pod.container("app", annotations=annotations)
        request = container.request(state, conf=conf)
    except ValueError as error:
        raise TryError(str(error)) from error
    if isinstance(tree, CgroupTree):
        tree.add(container)
    return request
