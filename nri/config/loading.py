"""Read the files of the host configuration, and join them to one list of plugins.

Files that end in ``.conf`` in the drop-in directory are read in the byte order of their names, but no hidden ones.
The single file of the Go implementation is read only if that directory has no such file. Each file's kind is checked
before it is opened: a FIFO does not block a container's start, and no device is touched. Files that others can write
to are not read (``nri.trust``).

This module reads the files as they are. What a host uses is ``nri.node.in_use``.
"""

from __future__ import annotations

import os
import time

from nri import files, trust
from nri.config.entries import HOST_CONFIG, ConfigList, PluginEntry
from nri.config.faults import MAX_FAULTS, ConfigError, Fault
from nri.errors import reason_of
from nri.places import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from nri.types.conf import Conf

    Options = TypeVar("Options", bound=Conf)

SUFFIX = ".conf"
MAX_SIZE = 64 * 1024
"""The longest file that is accepted, in bytes; a real one has some hundreds. A container waits for what is read."""

ATTEMPTS = 4
PAUSE = 0.001
"""Readings of files that change meanwhile, after which the last one counts; and seconds between two."""


def load(
    conf_dir: str = DEFAULT_CONF_DIR,
    conf_file: str = DEFAULT_CONF_FILE,
    *,
    check_owner: bool = True,
) -> ConfigList:
    """Return the host configuration of the files as they are now; it has no plugins if there are no files.

    :param conf_file: the file that is read if *conf_dir* has no ``*.conf``.
    :param check_owner: whether files that others can write to are refused.
    :raises ConfigError: with the faults of all files, at most ``nri.config.faults.MAX_FAULTS``.
    """
    return read_settled(conf_dir, conf_file, check_owner=check_owner).parsed()


class Read:
    """A set of files as it was read.

    :ivar documents: the content of each file, by its path, in order.
    :ivar faults: why some of it cannot be used.
    """

    __slots__ = ("documents", "faults")

    def __init__(self, documents: dict[str, bytes]) -> None:
        self.documents = documents
        self.faults: list[Fault] = []

    def is_as(self, other: Read) -> bool:
        """Return whether another reading has found the same."""
        return self.documents == other.documents and self.faults == other.faults

    def parsed(self) -> ConfigList:
        """Return the configuration with the plugins of all files, in the order in which they are read.

        :raises ConfigError: with the faults of all files.
        """
        plugins: list[PluginEntry] = []
        faults = [*self.faults]
        for path, document in self.documents.items():
            value = parse(document)
            if value is None:
                from nri.config.diagnostics import diagnose

                if len(faults) <= MAX_FAULTS:
                    faults += diagnose(path, document, MAX_FAULTS + 1)
                continue
            for index, entry in enumerate(value["plugins"]):
                plugins.append(PluginEntry.of_accepted(entry, path, index))
        if faults:
            raise ConfigError(sorted(faults, key=lambda fault: os.fsencode(fault.file)))
        return ConfigList(plugins=plugins)


def parse(document: bytes) -> dict[str, Any] | None:
    """Return the value of a valid configuration; None for one that is not valid."""
    twice: list[str] = []
    try:
        text = str(document, "utf-8")
        value: Any = gojson.loads(text, twice)
    except ValueError:  # not UTF-8, or a DecodeError
        return None
    if twice or not HOST_CONFIG.accepts(value):
        return None
    if gojson.may_have_lone(text):  # which the plugin's conf keeps
        raw: Any = gojson.loads(text, keeps_lone=True)
        for entry, its_raw in zip(value["plugins"], raw["plugins"], strict=True):
            if "conf" in entry:
                entry["conf"] = its_raw["conf"]
    return value  # type: ignore[no-any-return] # it is an object


def read_settled(
    conf_dir: str, conf_file: str, *, check_owner: bool, last: Read | None = None
) -> Read:
    """Return the files, which are one set: those that differ from the last ones are read until they stay the same."""
    read = read_set(conf_dir, conf_file, check_owner=check_owner)
    for _ in range(ATTEMPTS - 1):
        if last is not None and read.is_as(last):
            break
        time.sleep(PAUSE)
        last = read
        read = read_set(conf_dir, conf_file, check_owner=check_owner)
    return read


def read_set(conf_dir: str, conf_file: str, *, check_owner: bool = True) -> Read:
    """Return the files as they are.

    :param conf_dir: "" for *conf_file* alone.
    """
    result = Read({})
    if check_owner:
        directories = _leading_to(conf_dir, result.faults)
    else:
        directories = []
    try:
        paths = _files(conf_dir)
    except ConfigError as error:
        result.faults += error.faults
        return result
    for path in paths or [conf_file]:
        try:
            result.documents[path] = read(path, check_owner=check_owner)
        except ConfigError as error:
            result.faults += error.faults
            continue
        except FileNotFoundError:
            continue  # there is no configuration, or the file was removed after the directory was listed
        # Other files of conf_dir are in no other directory.
        if check_owner and (not paths or os.path.islink(path)):
            try:
                directories += trust.directories(path)
            except OSError as error:
                result.faults.append(Fault(file=path, message=_not_followed(error)))
    result.faults[:0] = _of_directories(directories)
    return result


def read(path: str, *, check_owner: bool = False) -> bytes:
    """Return the content of a configuration file.

    :raises FileNotFoundError: when neither a file nor a symlink has that name.
    :raises ConfigError: when it is not a regular file, cannot be read, is too big, or others can write to it.
    """
    try:
        document, status = files.read_regular(path, MAX_SIZE)
    except OSError as error:
        raise _refusal(path, error, "a file of JSON that can be read") from None
    wrong = trust.judge(status) if check_owner else ""
    if wrong:
        raise _fault(path, trust.at_end(path) + wrong)
    return document


def read_options(path: str, kind: type[Options]) -> tuple[Options, list[str]]:
    """Return the options in a file, with the defaults for those that are wrong, and its faults.

    :param kind: their class, without required fields.
    :raises FileNotFoundError: when neither a file nor a symlink has that name.
    """
    try:
        document, status = files.read_regular(path, MAX_SIZE)
        wrong = trust.judge_path(path, status)
        if wrong:
            return kind(), [wrong]
        options, faults = kind.of_text(str(document, "utf-8"))
        if not document.strip():
            faults = ["is empty, expected a JSON object, such as {}"]
    except OSError as error:
        refusal = _refusal(path, error, "a file of JSON that can be read")
        if refusal is error:  # there is none
            raise
        return kind(), [str(refusal)]
    except UnicodeDecodeError as error:
        return kind(), [f"{path}: is not UTF-8: {error.reason}, expected a file of JSON"]
    return options, [f"{path}: {fault}" for fault in faults]


def list_files(conf_dir: str) -> list[str]:
    """Return the paths of the configuration files in a directory, in the order in which they are read.

    :raises OSError: when the directory cannot be listed.
    """
    paths = []
    for name in sorted(os.listdir(conf_dir), key=os.fsencode):
        if name.endswith(SUFFIX) and not name.startswith("."):
            paths.append(os.path.join(conf_dir, name))
    return paths


def unread(conf_dir: str, *, is_standard: bool) -> list[tuple[str, str]]:
    """Return a sentence for each file that looks like configuration and is not read, and what to do about it.

    :param is_standard: whether *conf_dir* is that of a node, so that what stands beside it was meant for it.
    """
    reason = f"is not read: its name does not end in {SUFFIX}"
    notes = []
    for path in _paths(conf_dir):
        name = os.path.basename(path)
        if not name.endswith(SUFFIX) and not name.startswith(".") and _has_plugins(path):
            notes.append((f"{path} {reason}", f"give it a name that ends in {SUFFIX}"))

    if is_standard:
        for path in _beside(conf_dir):
            notes.append((f"{path} is not read: it is not in {conf_dir}", f"move it to {conf_dir}"))

    return notes


def _beside(conf_dir: str) -> list[str]:
    """Return the files with plugins that stand beside a directory, and in others there."""
    above = os.path.dirname(conf_dir.rstrip("/"))
    single = os.path.join(above, "conf.json")
    paths = []
    for folder in (above, *_paths(above)):
        # The directory "kubernetes" has the earlier configurations.
        if folder == conf_dir or os.path.basename(folder) == "kubernetes":
            continue
        for path in _paths(folder):
            if path != single and _has_plugins(path):
                paths.append(path)
    return paths


def _paths(directory: str) -> list[str]:
    """Return the paths of what is in a directory; none if it cannot be listed."""
    try:
        names = sorted(os.listdir(directory), key=os.fsencode)
    except OSError:
        return []
    return [os.path.join(directory, name) for name in names]


def _has_plugins(path: str) -> bool:
    try:
        document = read(path)
    except (OSError, ConfigError):
        return False
    return document.lstrip().startswith(b"{") and b'"plugins"' in document


def _files(conf_dir: str) -> list[str]:
    try:
        return list_files(conf_dir)
    except OSError as error:
        refusal = _refusal(conf_dir, error, f"a directory of *{SUFFIX} files that can be read")
        if refusal is not error:
            raise refusal from None
    if conf_dir not in ("", DEFAULT_CONF_DIR):  # named, so it is no answer that it is not there
        raise _fault(
            conf_dir, "does not exist; expected a directory, since it is not the default one"
        )
    return []


def _leading_to(conf_dir: str, faults: list[Fault]) -> list[str]:
    """Return the directory of the files, and the directories of the symlinks that lead to it."""
    try:
        return [conf_dir, *trust.follow(conf_dir)[1]]
    except FileNotFoundError:
        return [conf_dir]
    except OSError as error:
        faults.append(Fault(file=conf_dir, message=_not_followed(error)))
        return []


def _not_followed(error: OSError) -> str:
    reason = reason_of(error).lower()
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
            continue  # it does not exist, or no longer exists
        except OSError as error:
            wrong = f"cannot be looked at: {reason_of(error).lower()}, expected a directory"
        if wrong and key not in faults:
            faults[key] = Fault(file=directory, message=wrong)
    return [*faults.values()]


def _refusal(path: str, error: OSError, expected: str) -> Exception:
    """Return the exception to raise for an OSError at *path*."""
    if isinstance(error, FileNotFoundError):
        try:
            target = os.readlink(path)
        except OSError:
            return error
        return _fault(
            path, f"found a symlink to {target!r}, which does not exist, expected {expected}"
        )
    if isinstance(error, files.UnfitFileError):
        return _fault(path, str(error.strerror))
    reason = reason_of(error).lower()
    return _fault(path, f"cannot be read: {reason}, expected {expected}")


def _fault(path: str, message: str) -> ConfigError:
    return ConfigError([Fault(file=path, message=message)])
