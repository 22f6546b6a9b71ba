"""What a plugin's own code reaches: its local modules, the packages that it imports, the standard library.

From its source, all modules that it names are looked up, parsed and followed, without running anything. Of the
standard library that gives the modules that are needed: those that the plugin, or a package that it imports, names
anywhere, and what these import when they are loaded, or name anywhere themselves. A package of the standard library
is one module in this: from Python 3.13, the functions of ``pathlib`` are in ``pathlib._local``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from typing import TYPE_CHECKING

from nri.authoring.build_errors import BuildError
from nri.authoring.named_modules import NamedModules
from nri.authoring.plugin_source import parse

if TYPE_CHECKING:
    from nri.authoring.named_modules import Named

EVERYWHERE = ("os", "importlib._bootstrap_external")
"""Modules that every plugin loads. What a function of theirs imports late counts only if the plugin names the
function: ``os.popen`` needs subprocess."""


class Missing:
    """An import of the plugin's own code that finds no module."""

    def __init__(self, path: str, named: Named) -> None:
        self.path, self.line, self.module = path, named.line, named.module


class Survey:
    """What one plugin reaches.

    :param script: the plugin's source file.
    :param search: the folders in which its imports are looked up, the script's own first.
    :raises BuildError: when a local module is no Python.
    """

    def __init__(self, script: str, search: list[str]) -> None:
        self.search = search
        self.missing: list[Missing] = []  # imports of its own code that nothing catches
        self.own: set[str] = set()  # modules that its own code names, and that are there
        self.hidden: set[str] = set()  # modules that it names in texts only
        self.unreadable: set[str] = set()  # modules of packages that are no source
        self.elsewhere: dict[str, str] = {}  # packages that only this interpreter's finders know, with their places
        self.standard: set[str] = set()  # modules of the standard library that are needed
        self._words: set[str] = set()
        self._texts: set[str] = set()
        self._home = os.path.dirname(script)
        self._seen: set[str] = set()
        self._named_standard: set[str] = set()
        self._follow("__main__", script, is_own=True)
        self._add_standard()

    def needs(self, module: str) -> bool:
        """Return whether a module, or one within it, is needed, or named in a text of the plugin."""
        return any(
            name == module or name.startswith(f"{module}.") for name in self.standard | self._seen | self._texts
        )

    def known(self, names: set[str]) -> set[str]:
        """Return those of these names that are modules in a file: not built in, not made by another module."""
        return {
            name
            for name in names
            if (spec := self._find(name)) is not None and spec.has_location and spec.name == name
        }

    def mentions(self, words: frozenset[str]) -> bool:
        """Return whether the plugin, or a package that it imports, uses one of these names."""
        return not words.isdisjoint(self._words)

    def _follow(self, module: str, path: str, *, is_own: bool) -> None:
        """Follow the imports of a module of the plugin or of a package."""
        waiting = [(module, path, is_own)]
        while waiting:
            module, path, is_own = waiting.pop()
            try:
                found = NamedModules(parse(path), is_main=module == "__main__")
            except BuildError:
                if is_own:
                    raise
                continue  # of a package; it fails in the same way when it is imported
            self._words |= found.words
            self._texts |= found.texts if is_own else set()
            package = module if os.path.basename(path) == "__init__.py" else module.rpartition(".")[0]
            for named in found.imports:
                for name, is_certain in _names(named, package):
                    waiting += self._reach(name, named, path, is_own=is_own, is_certain=is_certain)

    def _reach(
        self, name: str, named: Named, path: str, *, is_own: bool, is_certain: bool
    ) -> list[tuple[str, str, bool]]:
        """Note one import; return the module that is to be followed."""
        spec = self._find(name)
        if spec is None:
            if is_own and is_certain and not named.is_caught:
                self.missing.append(Missing(path, named))
            return []
        if is_own:
            self.own.add(name)
            if named.is_text:
                self.hidden.add(name)
        if self._is_standard(name, spec):
            self._named_standard.add(_of_file(name))
            return []
        if name in self._seen:
            return []
        self._seen.add(name)
        origin = spec.origin or ""
        if origin.endswith(".py"):
            return [(name, origin, self._is_local(origin))]
        if origin:
            self.unreadable.add(name)
        return []

    def _find(self, name: str) -> ModuleSpec | None:
        """Look a module up as an import would, without importing its package."""
        top, _, rest = name.partition(".")
        spec = BuiltinImporter.find_spec(top) or PathFinder.find_spec(top, self.search)
        if spec is None and (spec := _find_elsewhere(top)) is not None:
            places = list(spec.submodule_search_locations or [spec.origin or ""])
            self.elsewhere[top] = places[0]
        full = top
        for part in rest.split(".") if rest else []:
            if spec is None or spec.submodule_search_locations is None:
                return spec if (full, rest) == ("os", "path") else None  # a module that os itself makes
            full += f".{part}"
            spec = PathFinder.find_spec(full, list(spec.submodule_search_locations))
        return spec

    def _is_standard(self, name: str, spec: ModuleSpec) -> bool:
        return name.partition(".")[0] in sys.stdlib_module_names and not self._is_local(spec.origin or "")

    def _is_local(self, path: str) -> bool:
        """Return whether a file is the plugin's own. A folder of packages may be within the plugin's folder."""
        within = [folder for folder in self.search if path.startswith(folder + os.sep)]
        return max(within, key=len, default="") == self._home

    def _add_standard(self) -> None:
        """Follow the standard library: all that a named module names, and of these what they import when loaded."""
        waiting = sorted(self._named_standard | set(_encodings(self._texts)))
        named = set(waiting)
        while waiting:
            name = waiting.pop()
            self.standard.add(name)
            for each in self._names_of(name, is_named=True) - named:
                if each.partition(".")[0] == name.partition(".")[0]:
                    named.add(each)
                    waiting.append(each)
                else:
                    self._add_loaded(each)

    def _add_loaded(self, name: str) -> None:
        """Add a module of the standard library that is loaded, with what it imports then."""
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if each not in self.standard:
                self.standard.add(each)
                waiting += self._names_of(each, is_named=False)

    def _names_of(self, name: str, *, is_named: bool) -> set[str]:
        spec = self._find(name)
        if spec is None or not (spec.origin or "").endswith(".py"):
            return set()
        found = NamedModules(parse(spec.origin or ""), is_main=False)
        counted = [
            each
            for each in found.imports
            if not each.function or (is_named and (name not in EVERYWHERE or each.function in self._words))
        ]
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        names = {each for named in counted for each, _ in _names(named, package)}
        return {_of_file(each) for each in names if self._find(each) is not None}


def _names(named: Named, package: str) -> list[tuple[str, bool]]:
    """Return the modules of one import with their whole names, and whether each must be a module."""
    base = named.module
    if named.level:
        parts = package.split(".")
        parts = parts[: len(parts) - named.level + 1]
        base = ".".join([*parts, base] if base else parts)
    if not base or base.startswith("."):
        return []
    return [(base, True), *[(f"{base}.{child}", False) for child in named.children if child != "*"]]


def _of_file(name: str) -> str:
    """Return the name that a module of the standard library has by its file."""
    return "posixpath" if name.startswith("os.") else name


def _find_elsewhere(top: str) -> ModuleSpec | None:
    """Ask this interpreter's other finders, as that of an editable installation."""
    if top in sys.stdlib_module_names:
        return FrozenImporter.find_spec(top)
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return None


def _encodings(texts: set[str]) -> list[str]:
    """Return the modules of the text encodings that are named."""
    from encodings import normalize_encoding
    from encodings.aliases import aliases

    found = [normalize_encoding(text).lower() for text in texts]
    return [f"encodings.{aliases.get(name, name)}" for name in found if name in aliases or name in aliases.values()]
