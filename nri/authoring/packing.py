"""The settings with which PyInstaller packs this project's executables and the plugins of others.

``build.spec`` and ``nri build`` share them. The reasons: docs/compiling.md. A spec file imports this module within
PyInstaller, from sources that may not be installed, so it needs nothing but the standard library, and never imports
PyInstaller: the compiled ``nri`` must not contain it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

NEVER_USED = (
    *("_hashlib", "_ssl", "ssl", "unittest", "tkinter", "pydoc", "doctest", "asyncio", "multiprocessing"),
    *("_multiprocessing", "_posixshmem", "_uuid", "bz2", "_bz2", "lzma", "_lzma", "pyexpat", "xml"),
    *("_multibytecodec", "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw"),
    *("jsonschema.benchmarks", "jsonschema.tests"),
)
"""Optional modules of libraries that this project never uses. OpenSSL is 5 MB; hashlib has its own algorithms."""

NOT_IN_PLUGINS = (
    *NEVER_USED,
    *("inspect", "pkgutil", "dataclasses", "argparse", "ctypes", "email", "hashlib", "http", "logging", "pathlib"),
    *("pickle", "random", "socket", "statistics", "subprocess", "tempfile", "threading", "urllib", "zipfile"),
    *("click", "jsonschema", "google", "nri.config", "nri.client", "nri.hook", "nri.runtime", "nri.cli"),
)
"""Modules that no plugin of this project needs. linecache and tokenize are not among them: a plugin that fails prints
a traceback."""

HIDDEN = ("json.decoder", "nri.prefork.server.serving")
"""Modules that nri.skel imports late, and that PyInstaller would not find or that nothing else would keep."""

INTERPRETER_OPTIONS = (("X utf8", None, "OPTION"),)
"""Texts and file names are UTF-8, whatever the locale."""

NO_DOCSTRINGS = 2
"""The level of optimization without docstrings and asserts."""

DOCSTRINGS = 1
"""The level that keeps docstrings, which are the help of ``nri``."""

_STRIPPED = {"strip": True, "upx": False}
_RUN_TIME_HOOK = "pyi_rth_"
_UNWANTED_DATA = ("/benchmarks/", "/tests/")


class Packer:
    """Packs scripts as executables in one folder, around one shared folder of libraries.

    One folder, because a one-file binary unpacks itself at every start. Each script is analysed by itself, so that
    its executable contains only its own modules.

    :param spec: the names that PyInstaller defines in a spec file: its ``globals()``.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._analysis, self._pyz = spec["Analysis"], spec["PYZ"]
        self._exe: Callable[..., Any] = spec["EXE"]
        self._collect: Callable[..., Any] = spec["COLLECT"]
        self.parts: dict[str, Any] = {}  # PyInstaller's analyses by the names of their executables

    def add(
        self,
        name: str,
        script: str,
        *,
        pathex: Sequence[str],
        excludes: Iterable[str],
        hidden: Iterable[str] = (),
        datas: Iterable[tuple[str, str]] = (),
        optimize: int = NO_DOCSTRINGS,
    ) -> None:
        """Analyse a script, which becomes the executable ``name``."""
        analysis = self._analysis(
            [script],
            pathex=list(pathex),
            hiddenimports=[*HIDDEN, *hidden],
            datas=list(datas),
            excludes=list(excludes),
            optimize=optimize,
            noarchive=False,
        )
        analysis.datas = [entry for entry in analysis.datas if not any(part in entry[0] for part in _UNWANTED_DATA)]
        self.parts[name] = analysis

    def collect(self, folder: str) -> None:
        """Write the executables and what they need to ``folder`` below PyInstaller's folder of results."""
        collected: list[Any] = []
        for name, analysis in self.parts.items():
            collected += [self._executable(name, analysis), analysis.binaries, analysis.datas]
        self._collect(*collected, name=folder, **_STRIPPED)

    def _executable(self, name: str, analysis: Any) -> Any:
        # The run-time hooks import the modules that they patch (inspect, pkgutil) at every start; none is needed.
        scripts = [entry for entry in analysis.scripts if not entry[0].startswith(_RUN_TIME_HOOK)]
        return self._exe(
            self._pyz(analysis.pure),
            scripts,
            list(INTERPRETER_OPTIONS),
            exclude_binaries=True,
            name=name,
            console=True,
            **_STRIPPED,
        )
