"""From a plugin's type to its executable.

Only the configured directories are searched, never ``$PATH``, and a type is a plain file name: what a configuration
says can not name a file elsewhere.
"""

from __future__ import annotations

import os

from nri.client.errors import PluginError
from nri.config.quick import is_type_name
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_BIN_DIRS = ("/opt/nri/bin",)
"""Where plugins are looked for, as by the Go client."""


def find(plugin_type: str, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS) -> str:
    """The path of the executable of ``plugin_type``: the first one in ``bin_dirs``.

    :raises PluginError: when there is none; something by that name that can't be run is named.
    """
    if not is_type_name(plugin_type):
        expected = "letters, digits and . _ -, beginning with a letter or digit"
        raise PluginError(shorten(plugin_type), f"is not the name of a plugin; expected {expected}")
    unusable = []
    for directory in bin_dirs:
        path = f"{directory}/{plugin_type}"
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            try:
                unusable.append(f"{path} is a link to {os.readlink(path)}, which does not exist")
            except OSError:
                pass  # no link, or one that has just gone
            continue
        except OSError as error:
            unusable.append(f"{path} cannot be looked at: {error.strerror}")
            continue
        if mode & 0o170000 != 0o100000:
            unusable.append(f"{path} is not a file")
        elif not os.access(path, os.X_OK):
            unusable.append(f"{path} is not executable (mode {mode & 0o7777:04o}); expected one like 0755")
        else:
            return path
    what = "; ".join(unusable) or f"no such executable in {', '.join(bin_dirs) or 'an empty list of directories'}"
    raise PluginError(plugin_type, f"not found: {what}")
