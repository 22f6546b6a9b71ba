"""Find the plugins that a runtime launches, and their configuration.

Source: ``discoverPlugins`` in pkg/adaptation/adaptation.go, ``getPluginConfig`` in plugin.go of containerd/nri.
"""

from __future__ import annotations

import os

from nri.adaptation.errors import AdaptationError
from nri.api import names


def parse_name(file: str) -> tuple[str, str]:
    """Return the index and name of the executable ``NN-name``.

    :raises AdaptationError: when it has another name.
    """
    index, name = names.split_executable(file) or ("", "")
    if names.find_fault(name, index):
        raise AdaptationError(f"found {file!r}, expected a plugin's name such as 10-logger")
    return index, name


def discover(directory: str | None) -> list[tuple[str, str, str]]:
    """Return index, name and path of the executables in a plugin directory, sorted; none without a directory.

    :raises AdaptationError: when the directory can't be read, or an executable is not called ``NN-name``.
    """
    if directory is None:
        return []
    try:
        with os.scandir(directory) as entries:
            files = sorted(entry.name for entry in entries if entry.is_file() and entry.stat().st_mode & 0o111)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AdaptationError(f"{directory} can't be read: {error.strerror}") from error
    return [(*parse_name(file), os.path.join(os.path.abspath(directory), file)) for file in files]


def configuration(directory: str | None, index: str, name: str) -> str:
    """Return the text of a plugin's drop-in file, ``NN-name.conf`` or else ``name.conf``; "" where there is none.

    :raises AdaptationError: when it can't be read, or is not UTF-8.
    """
    if directory is None:
        return ""
    for file in (f"{index}-{name}.conf", f"{name}.conf"):
        path = os.path.join(directory, file)
        try:
            with open(path, encoding="utf-8") as text:
                return text.read()
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            raise AdaptationError(f"{path} is not UTF-8 at byte {error.start}") from error
        except OSError as error:
            raise AdaptationError(f"{path} can't be read: {error.strerror}") from error
    return ""
