"""From the PATH that a user gives to the source file of one plugin."""

from __future__ import annotations

import ast
import os
import stat

from nri.authoring.build_errors import BuildError
from nri.filekind import describe

MAX_SOURCE = 4 * 1024 * 1024
"""Bytes of a source file at most."""

_NO_PLUGINS = ("test_", "conftest.", "setup.", ".", "_")


def find(path: str) -> str:
    """Return the absolute path of the plugin's source file: ``path``, or the one plugin in the folder ``path``.

    :raises BuildError: when there is no plugin, or more than one.
    """
    if not os.path.isdir(path):
        parse(path)
        return os.path.realpath(path)
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise BuildError(f"{path}: can't be read: {error.strerror}") from error
    names = [name for name in names if name.endswith(".py") and not name.startswith(_NO_PLUGINS)]
    plugins = [name for name in names if _is_plugin(parse(os.path.join(path, name)))]
    if len(plugins) == 1:
        return os.path.realpath(os.path.join(path, plugins[0]))
    if plugins:
        raise BuildError(f"{path}: found {len(plugins)} plugins ({', '.join(plugins)}), expected one; name the file")
    found = ", ".join(names) or "no module"
    raise BuildError(f"{path}: found {found}, expected one module that calls skel.main()")


def parse(path: str) -> ast.Module:
    """Return the syntax tree of a source file.

    :raises BuildError: when it is no readable file of Python.
    """
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                found = describe(os.fstat(file.fileno()).st_mode)
                raise BuildError(f"{path}: found {found}, expected a plugin's source file or its folder")
            data = file.read(MAX_SOURCE + 1)
    except OSError as error:
        raise BuildError(f"{path}: can't be read: {error.strerror}") from error
    if len(data) > MAX_SOURCE:
        raise BuildError(f"{path}: found more than {MAX_SOURCE} bytes, expected a plugin's source file")
    try:
        return ast.parse(data, path)
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else path
        raise BuildError(f"{where}: {type(error).__name__}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise BuildError(f"{path}: no source of Python: {str(error) or type(error).__name__}") from error


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO without a writer would block


def _is_plugin(tree: ast.Module) -> bool:
    """Return whether a module calls ``skel.main`` or ``main``, and imports nri."""
    calls = [
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import)]
    froms = [getattr(node, "module", None) or node.names[0].name for node in imports]
    return "main" in calls and any(name == "nri" or name.startswith("nri.skel") for name in froms)
