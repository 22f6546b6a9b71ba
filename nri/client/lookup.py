"""Finds the executable of a plugin.

Only the configured directories are searched, never ``$PATH``. A type is a plain file name, so a configuration cannot
name a file elsewhere. An executable that other users could have put there is refused (:mod:`nri.trust`).
"""

from __future__ import annotations

import os

from nri import filekind, trust
from nri.client.errors import PluginError
from nri.config.entries import is_type_name
from nri.places import DEFAULT_BIN_DIRS
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def find(plugin_type: str, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS, *, check_owner: bool = True) -> str:
    """Return the path of the executable of ``plugin_type``: the first one in ``bin_dirs``.

    :param check_owner: refuse an executable that users other than root and the caller can write to.
    :raises PluginError: if there is none; the error names each file of that name that cannot be run. Also if the
        first executable is refused; no other directory is searched then, as the file may have replaced a trusted one.
    """
    if not is_type_name(plugin_type):
        expected = "letters, digits and . _ -, beginning with a letter or digit"
        raise PluginError(shorten(plugin_type), f"is not the name of a plugin; expected {expected}")
    unusable = []
    for directory in bin_dirs:
        path = f"{directory}/{plugin_type}"
        try:
            status = os.stat(path)
        except FileNotFoundError:
            try:
                unusable.append(f"{path} is a link to {os.readlink(path)}, which does not exist")
            except OSError:
                pass  # not a link, or removed a moment ago
            continue
        except OSError as error:
            unusable.append(f"{path} cannot be looked at: {error.strerror}")
            continue
        mode = status.st_mode
        if mode & 0o170000 != 0o100000:
            unusable.append(f"{path} is {filekind.describe(mode)}; expected an executable file")
        elif not os.access(path, os.X_OK):
            unusable.append(f"{path} is not executable{_why_not(path, mode)}")
        else:
            if check_owner:
                _require_trusted(plugin_type, path, status)
            return path
    if unusable:
        raise PluginError(plugin_type, f"not run: {'; '.join(unusable)}")
    where = ", ".join(bin_dirs) or "an empty list of directories"
    raise PluginError(plugin_type, f"not found: no such executable in {where}")


def _why_not(path: str, mode: int) -> str:
    if mode & 0o111 and os.statvfs(path).f_flag & os.ST_NOEXEC:
        return ", because its file system is mounted with noexec"
    return f" (mode {mode & 0o7777:04o}); expected one like 0755"


def _require_trusted(plugin_type: str, path: str, status: os.stat_result) -> None:
    try:
        wrong = trust.judge_path(path, status)
    except OSError as error:
        wrong = f"{path} cannot be checked: {error.strerror}; expected an accessible parent directory"
    if wrong:
        raise PluginError(plugin_type, f"not run: {wrong}")
