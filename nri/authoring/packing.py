"""The settings with which PyInstaller packs this project's executables and the plugins of others.

``build.spec`` and ``nri build`` share them. A spec file imports this module within PyInstaller, from sources that may
not be installed, so it needs the standard library alone, and never imports PyInstaller: the compiled ``nri`` must not
contain it.
"""

from __future__ import annotations

import os
import py_compile
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

NEVER_USED = (
    *("_hashlib", "unittest", "tkinter", "pydoc", "doctest", "asyncio", "multiprocessing"),
    *("_multiprocessing", "_posixshmem", "_uuid", "bz2", "_bz2", "lzma", "_lzma", "pyexpat", "xml"),
    *(
        "_multibytecodec",
        "_codecs_cn",
        "_codecs_hk",
        "_codecs_iso2022",
        "_codecs_jp",
        "_codecs_kr",
        "_codecs_tw",
    ),
    *("jsonschema.benchmarks", "jsonschema.tests"),
)
"""Optional modules of libraries that this project never uses. hashlib has its own algorithms."""

NOT_IN_PLUGINS = (
    *NEVER_USED,
    *(
        "inspect",
        "pkgutil",
        "dataclasses",
        "argparse",
        "ctypes",
        "email",
        "hashlib",
        "http",
        "logging",
        "pathlib",
    ),
    *(
        "pickle",
        "random",
        "socket",
        "_ssl",
        "ssl",
        "statistics",
        "subprocess",
        "tempfile",
        "threading",
        "urllib",
    ),
    "zipfile",
    *(
        "click",
        "jsonschema",
        "google",
        "nri.config",
        "nri.client",
        "nri.hook",
        "nri.runc",
        "nri.cli",
    ),
)
"""Modules that no plugin of this project needs. linecache and tokenize are not among them: a plugin that fails prints
a traceback."""

UNCOMPRESSED = {"PYINSTALLER_ZLIB_COMPRESSION_LEVEL": "0"}
"""Environment of PyInstaller: modules are not compressed, since unpacking them takes time at every start."""

_CODECS = (
    *(
        "aliases",
        "ascii",
        "base64_codec",
        "charmap",
        "cp1252",
        "cp437",
        "hex_codec",
        "idna",
        "iso8859_1",
        "latin_1",
    ),
    *(
        "punycode",
        "quopri_codec",
        "raw_unicode_escape",
        "rot_13",
        "undefined",
        "unicode_escape",
        "zlib_codec",
    ),
)

HIDDEN = ("json.decoder", "nri.skel.resident")
"""Modules that nri.skel imports late, and that PyInstaller would not find or that nothing else would keep."""

INTERPRETER_OPTIONS = (("X utf8", None, "OPTION"),)
"""Texts and file names are UTF-8, whatever the locale."""

NO_DOCSTRINGS = 2
"""The level of optimization without docstrings and asserts."""

DOCSTRINGS = 1
"""The level that keeps docstrings, which are the help of ``nri``. A process that stays does not need them."""

_STRIPPED = {"strip": True, "upx": False}
_RUN_TIME_HOOK = "pyi_rth_"
_CTYPES = "pyimod03_ctypes"
"""The part of PyInstaller's loader that imports ctypes at every start, and has it search the executable's folder."""

_UNWANTED_DATA = re.compile("/(benchmarks|tests)/")


def foreign_codecs() -> list[str]:
    """Return the modules of encodings that this project never uses: all but Unicode's, ASCII, Latin-1 and a few.

    The interpreter reads the list of what is in the archive with them at every start.
    """
    import encodings
    import pkgutil

    codecs: list[str] = []
    for _, name, _ in pkgutil.iter_modules(encodings.__path__):
        if name not in _CODECS and not name.startswith(("_", "utf_")):
            codecs.append(f"encodings.{name}")
    return codecs


class Packer:
    """Packs scripts as executables in one folder, around one shared folder of libraries.

    One folder, because a one-file binary unpacks itself at every start. Each script is analysed by itself, so that
    its executable contains only its own modules.

    :param spec: the names that PyInstaller defines in a spec file: its ``globals()``.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._analysis = spec["Analysis"]
        self._pyz = spec["PYZ"]
        self._exe: Callable[..., Any] = spec["EXE"]
        self._collect: Callable[..., Any] = spec["COLLECT"]
        self._work: str = spec["workpath"]
        self.parts: dict[str, Any] = {}  # PyInstaller's analyses by the names of their executables
        self._without_search: set[str] = set()

    def add(  # noqa: PLR0913 - optional, by name
        self,
        name: str,
        script: str,
        *,
        pathex: Sequence[str],
        excludes: Iterable[str],
        hidden: Iterable[str] = (),
        datas: Iterable[tuple[str, str]] = (),
        optimize: int = NO_DOCSTRINGS,
        searches: bool = True,
        bare: str = "",
        documented: str = "",
    ) -> None:
        """Analyse a script, which becomes the executable ``name``.

        :param searches: ctypes finds libraries of the executable's folder.
        :param bare: a package whose modules lose their docstrings whatever ``optimize`` is, except for those of
            the package ``documented``.
        """
        analysis = self._analysis(
            [script],
            pathex=list(pathex),
            hiddenimports=[*HIDDEN, *hidden],
            datas=list(datas),
            excludes=list(excludes),
            optimize=optimize,
            noarchive=False,
        )
        analysis.datas = [entry for entry in analysis.datas if not _UNWANTED_DATA.search(entry[0])]
        if bare:
            # In a new list, which PyInstaller does not know, so that it compiles all modules anew.
            analysis.pure = [
                _without_docstrings(entry, bare, documented) for entry in analysis.pure
            ]
        self.parts[name] = analysis
        if not searches:
            self._without_search.add(name)

    def collect(self, folder: str) -> None:
        """Write the executables and what they need to ``folder`` below PyInstaller's folder of results."""
        collected: list[Any] = []
        for name, analysis in self.parts.items():
            collected += [self._executable(name, analysis), analysis.binaries, analysis.datas]
        self._collect(*collected, name=folder, **_STRIPPED)

    def _executable(self, name: str, analysis: Any) -> Any:
        # The run-time hooks import the modules that they patch (inspect, pkgutil) at every start; none is needed.
        scripts = [entry for entry in analysis.scripts if not entry[0].startswith(_RUN_TIME_HOOK)]
        pyz = self._pyz(analysis.pure)
        if name in self._without_search:
            dependencies = []
            for entry in pyz.dependencies:
                dependencies.append(self._no_search() if entry[0] == _CTYPES else entry)
            pyz.dependencies = dependencies
        return self._exe(
            pyz,
            scripts,
            list(INTERPRETER_OPTIONS),
            exclude_binaries=True,
            name=name,
            console=True,
            **_STRIPPED,
        )

    def _no_search(self) -> tuple[str, str, str]:
        """Return a module in place of ``_CTYPES`` that does nothing."""
        source = os.path.join(self._work, f"{_CTYPES}.py")
        with open(source, "w", encoding="ascii") as file:
            file.write("def install():\n    pass\n")
        # Without the time, so that builds are reproducible.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(
            source, f"{source}c", f"{_CTYPES}.py", doraise=True, invalidation_mode=mode
        )
        return _CTYPES, f"{source}c", "PYMODULE"


def _without_docstrings(
    entry: tuple[str, str, str], bare: str, documented: str
) -> tuple[str, str, str]:
    name, path, kind = entry
    if f"{name}.".startswith(f"{bare}.") and not f"{name}.".startswith(f"{documented}."):
        kind = f"PYMODULE-{NO_DOCSTRINGS}"
    return name, path, kind


def mark_build(folder: str, modules: Mapping[str, str]) -> None:
    """Append the mark of ``nri.client.build_mark`` to each executable of a build. Equal executables get equal marks.

    :param folder: where the executables are.
    :param modules: the module that each runs, by its name.
    """
    import hashlib

    from nri.client import build_mark

    digest = hashlib.sha256()
    for name in sorted(modules):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(f"{name}\n".encode() + hashlib.sha256(file.read()).digest())
    build = digest.hexdigest()[:32]
    for name, module in modules.items():
        with open(os.path.join(folder, name), "ab") as file:
            file.write(build_mark.encode(build, module))


ELF = b"\x7fELF"
_ORIGIN = ("$ORIGIN/", "${ORIGIN}/")


def elf_files(folder: str) -> list[str]:
    """Return all ELF files in the folder that are no links."""
    paths = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    if file.read(len(ELF)) == ELF:
                        paths.append(path)
    return sorted(paths)


def remove_rpaths(folder: str, patchelf: str) -> None:
    """Remove each path of libraries (RPATH, RUNPATH) that is not relative to the library from those in the folder.

    A library of the Python that builds may name that Python's own folder. On a node another user may put files there,
    which every plugin would load as root. Executables at the top are PyInstaller's launcher with an archive, and have
    none.

    :param patchelf: the path of this program.
    :raises subprocess.CalledProcessError: when it fails.
    """
    for path in elf_files(folder):
        if os.path.dirname(path) == folder:
            continue
        before = _run(patchelf, "--print-rpath", path).strip()
        after = ":".join([entry for entry in before.split(":") if f"{entry}/".startswith(_ORIGIN)])
        if after != before:
            change = ("--set-rpath", after) if after else ("--remove-rpath",)
            _run(patchelf, *change, path)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
