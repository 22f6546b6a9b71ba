"""Loading: which files there are, what is in them, one list of plugins out of all.

Files ending in ``.conf`` in the drop-in directory are read in the byte order of their names; hidden ones and editors'
backups are not. Only a directory without any makes room for the single file of the Go implementation. A file is
looked at before it is opened: a FIFO of that name does not block a container's start, a device is not touched.

Files and directories must be such that nobody but root and ourselves can write to them (:mod:`nri.trust`). What
somebody else wrote is not read.
"""

from __future__ import annotations

import os
import stat

from nri import filekind, trust
from nri.config import validate
from nri.config.entries import ConfigList
from nri.config.faults import ConfigError, Fault, Unexplained
from nri.places import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.entries import PluginEntry

    Files = dict[str, tuple[PluginEntry, ...]]

SUFFIX = ".conf"
MAX_SIZE = 1024 * 1024
"""Bytes of a file that are accepted; a real one has some hundreds."""


def load(
    conf_dir: str = DEFAULT_CONF_DIR, conf_file: str = DEFAULT_CONF_FILE, *, check_owner: bool = True
) -> ConfigList:
    """The host configuration; one without plugins where there is none.

    :param conf_dir: its ``*.conf``, in name order.
    :param conf_file: read only where ``conf_dir`` holds no ``.conf``; it need not exist.
    :param check_owner: whether it matters who can write to them.
    :raises ConfigError: with the faults of all files, at most :data:`nri.config.faults.MAX_FAULTS`.
    """
    try:
        files = load_files(conf_dir, conf_file, check_owner=check_owner)
    except ConfigError as error:
        raise error.explained() from None
    return ConfigList(plugins=[plugin for plugins in files.values() for plugin in plugins])


def load_files(conf_dir: str, conf_file: str, *, check_owner: bool = True) -> Files:
    """Return the files that are there, each with its plugins, in the order in which they are read.

    For a caller that must answer at once: a file that is not valid is one fault, which does not say what is wrong in
    it until :meth:`ConfigError.explained` is called.

    :raises ConfigError: as :func:`load` does.
    """
    files: Files = {}
    faults: list[Fault] = []
    plain: set[str] = set()
    directories = _leading_to(conf_dir, faults, plain) if check_owner else []
    for path in _files(conf_dir) or [conf_file]:
        known = len(faults)
        try:
            files[path] = _load_file(path, check_owner=check_owner)
        except ConfigError as error:
            faults += error.faults
        except FileNotFoundError:
            continue  # no configuration at all, or a file removed since the directory was listed
        if check_owner:
            try:
                directories += trust.directories(path, plain)
            except OSError as error:
                if len(faults) == known:
                    faults.append(Fault(file=path, message=_not_followed(error)))
    if check_owner:
        faults[:0] = _of_directories(directories)
    if faults:
        raise ConfigError(faults)
    return files


def read(path: str, *, check_owner: bool = False) -> bytes:
    """The bytes of a configuration file.

    :param check_owner: whether it matters who can write to it.
    :raises FileNotFoundError: when there is nothing of that name, not even a symlink.
    :raises ConfigError: when it is not a regular file, cannot be read, is too big, or others can
        write to it.
    """
    try:
        _require_regular(path, os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _require_regular(path, status.st_mode)
            wrong = trust.judge(status) if check_owner else ""
            if wrong:
                raise _fault(path, trust.at_end(path) + wrong)
            document = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise _refusal(path, error, "a file of JSON that can be read") from None
    if len(document) > MAX_SIZE:
        raise _fault(path, f"found more than {MAX_SIZE} bytes, expected a file of JSON of at most that many")
    return document


def _files(conf_dir: str) -> list[str]:
    try:
        names = os.listdir(conf_dir)
    except FileNotFoundError as error:
        refusal = _refusal(conf_dir, error, "a directory")
        if refusal is error:  # there is none
            return []
        raise refusal from None
    except OSError as error:
        raise _refusal(conf_dir, error, f"a directory of *{SUFFIX} files that can be read") from None
    names = [name for name in names if name.endswith(SUFFIX) and not name.startswith(".")]
    return [os.path.join(conf_dir, name) for name in sorted(names, key=os.fsencode)]


def _leading_to(conf_dir: str, faults: list[Fault], plain: set[str]) -> list[str]:
    """The directory of the files, and those of the links that lead to it."""
    try:
        return [conf_dir, *trust.follow(conf_dir, plain)[1]]
    except FileNotFoundError:
        return [conf_dir]
    except OSError as error:
        faults.append(Fault(file=conf_dir, message=_not_followed(error)))
        return []


def _not_followed(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"cannot be followed to its end: {reason}, expected a path of at most {trust.MAX_LINKS} links"


def _of_directories(directories: list[str]) -> list[Fault]:
    faults: dict[tuple[int, int] | str, Fault] = {}
    for directory in dict.fromkeys(directories):
        key: tuple[int, int] | str = directory
        try:
            status = os.stat(directory)
            key = status.st_dev, status.st_ino  # one directory may be reached by several paths
            wrong = trust.judge(status)
        except FileNotFoundError:
            continue  # there is none, or not any more
        except OSError as error:
            wrong = f"cannot be looked at: {(error.strerror or str(error)).lower()}, expected a directory"
        if wrong and key not in faults:
            faults[key] = Fault(file=directory, message=wrong)
    return [*faults.values()]


def _load_file(path: str, *, check_owner: bool) -> tuple[PluginEntry, ...]:
    document = read(path, check_owner=check_owner)
    value = validate.parse(document)
    if value is None:
        raise ConfigError([Unexplained(file=path, document=document)])
    plugins = ConfigList.from_value(value, path).plugins
    return tuple([plugin.replace(source=path, source_index=index) for index, plugin in enumerate(plugins)])


def _require_regular(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    raise _fault(path, f"found {filekind.describe(mode)}, expected a file of JSON")


def _refusal(path: str, error: OSError, expected: str) -> Exception:
    """The error to raise for an OSError at ``path``."""
    if isinstance(error, FileNotFoundError):
        try:
            target = os.readlink(path)
        except OSError:
            return error
        return _fault(path, f"found a symlink to {target!r}, which does not exist, expected {expected}")
    reason = (error.strerror or str(error)).lower()
    return _fault(path, f"cannot be read: {reason}, expected {expected}")


def _fault(path: str, message: str) -> ConfigError:
    return ConfigError([Fault(file=path, message=message)])
