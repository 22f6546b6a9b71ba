"""The host configuration in use: the last valid set of files, beyond edits, restarts and files that are missing.

Absence is no answer: a file that was in use and is not there is being replaced, is not mounted yet, or is lost. So
the set in use is recorded, and each host (the bridge, ``nri hook``, ``nri-runc``) begins with the record:

| the files are | then |
| --- | --- |
| valid, and none in use is missing | they are in use from now on, if each plugin accepts its conf |
| valid, and some in use are missing | the set in use stays for ``MISSING_FOR``; then these count as removed, if |
| | the directory has not changed meanwhile, so that they were away throughout |
| valid, and the link to one in use leads nowhere | the set in use stays |
| not valid, or none is left | the set in use stays; "no plugins" is said: by a file with ``"plugins": []`` |
| not there, and none was ever in use | no plugins |

The record is one file for each directory, in the directory of the hosts' record (``nri.places``): a line of JSON,
then the bytes of the files. Times are of CLOCK_BOOTTIME and of our own noting. ``nri apply`` replaces the record, and
``make uninstall`` removes it.
"""

from __future__ import annotations

import os
import time
from binascii import crc32

from nri import trust
from nri.config.entries import ConfigList
from nri.config.faults import ConfigError, Fault
from nri.config.loading import Read, read_settled
from nri.errors import NRIError, reason_of
from nri.node.record import read_file, write_file
from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nri.config.site import Site
    from nri.node.acceptance import Acceptance

    Documents = dict[str, bytes]

MISSING_FOR = 2.0
"""Seconds after which a file that was in use and is missing counts as removed, if another one is there."""

POLL = 0.02
"""Seconds between two looks of a host that waits for a missing file."""


class AcceptsAll:
    """Asks no plugin, in place of ``nri.node.acceptance.Acceptance``."""

    def faults(self, _config: ConfigList, _used: ConfigList) -> list[Fault]:
        """Return no fault."""
        return []

    def is_changed(self) -> bool:
        """Return False: no executable has refused anything."""
        return False


ACCEPTS_ALL = AcceptsAll()


class InUse:
    """The configuration in use of a directory, or of the single file that is read instead.

    :param site: without a directory of the record only this object remembers, and so if owners are not checked:
        no other host could believe it. Another one with the same places may be set later.
    :param writes: False for a tool, which reads the record and changes nothing.
    :param acceptance: asks the plugins whether they accept their confs; by default none is asked.
    :ivar config: the configuration in use; None if there has been no valid one.
    :ivar documents: the content of each of its files, by path.
    :ivar since: when it was accepted, in seconds since 1970; None if nothing was.
    :ivar rejected: why the files as they are now are not in use; nothing if they are, or are missing.
    :ivar missing: the files in use that are not there, each with when that was noted first, of CLOCK_BOOTTIME.
    :ivar is_waiting: True while a missing file may come back.
    :ivar is_kept: True if files that are missing stay in use however long they are away.
    :ivar fault: why the record cannot be used, "" if it can be.
    """

    def __init__(
        self,
        site: Site,
        *,
        writes: bool = True,
        acceptance: Acceptance | AcceptsAll = ACCEPTS_ALL,
    ) -> None:
        self.config: ConfigList | None = None
        self.documents: Documents = {}
        self.since: float | None = None
        self.rejected: Sequence[Fault] = ()
        self.missing: dict[str, float] = {}
        self.is_waiting = False
        self.is_kept = False
        self.fault = ""
        self.site = site
        self.acceptance = acceptance
        self._writes = writes
        # The directory's metadata when files were missing: it changes when one is there again.
        self._directory: object = None
        self._read: Read | None = None  # what was read last
        self._judged: Read | None = None  # what was judged last
        places = map(os.path.abspath, (site.conf_dir, site.conf_file))
        self._of = "\0".join(map(_latin, places))
        # Its name is not that of a container. crc32, since hashlib takes longer to import than a look.
        name = f".in-use.{crc32(self._of.encode()):08x}"
        self._path = f"{site.record_dir}/{name}" if site.record_dir else ""
        self._is_loaded = not self._has_record

    @property
    def _has_record(self) -> bool:
        return self._path != "" and self.site.check_owner

    @property
    def lost(self) -> tuple[str, ...]:
        """The files in use that are not there, and are not waited for."""
        return () if self.is_waiting else tuple(self.missing)

    def look(self) -> None:
        """Look at the files, and use them if they are to be used."""
        site = self.site
        if not self._is_loaded:
            self._load()
        read = read_settled(
            site.conf_dir, site.conf_file, check_owner=site.check_owner, last=self._read
        )
        self._read = read
        if self._is_to_be_judged(read):
            self._judged = None  # if it cannot be judged, such as for want of memory
            self._judge(read)
            self._judged = read

    def _is_to_be_judged(self, read: Read) -> bool:
        if self._judged is None or self.is_waiting or not read.is_as(self._judged):
            return True
        return self.acceptance.is_changed()

    def keep(self) -> None:
        """Write the record again if it could not be written, or was removed."""
        is_there = self.fault == "" and os.path.exists(self._path)
        if self.documents and not is_there:
            self._save()

    def reject(self, reason: str) -> None:
        """Have the files looked at again, since they could not be for this reason."""
        self._judged = None
        self.rejected = [Fault(file=self.site.conf_dir, message=reason)]

    def use(self, documents: Documents) -> None:
        """Use these files from now on, whatever is missing: ``nri apply`` has put them there.

        :raises ConfigError: they are not valid.
        """
        self._accept(Read(documents).parsed(), documents)

    def _judge(self, read: Read) -> None:
        """Use the files that were read, if they are to be used."""
        is_same = self.config is not None and read.documents == self.documents
        if is_same and not read.faults:
            self._stay({}, ())
            return
        try:
            config = read.parsed()
        except ConfigError as error:
            self._stay({}, error.faults)
            return
        missing, is_kept = self._missing(read)
        stays = bool(missing) and is_kept
        if stays or self.is_waiting:
            self._stay(missing, ())
            return
        # Nothing is there, and nothing says that nothing was.
        if not read.documents and self.config is None and self.fault:
            reason = (
                f"there are no files, and the record of those in use cannot be used: {self.fault}"
            )
            self._stay({}, [Fault(file=self.site.conf_dir, message=reason)])
            return
        refusal = self._refusal(config, read)
        if refusal:
            self._stay({}, refusal)
        else:
            self._accept(config, read.documents)

    def _missing(self, read: Read) -> tuple[dict[str, float], bool]:
        """Return the files in use that are missing, each with when that was noted, and whether they are never removed
        by absence: none of the directory is left, or a link leads nowhere.
        """
        gone = self._gone(read.documents)
        if gone and self._is_accepted_elsewhere(read):
            gone = []
        is_kept = read.documents.keys() <= {self.site.conf_file}
        is_kept |= any(os.path.islink(path) for path in gone)
        self.is_kept = is_kept
        directory = self._directory_now()
        now = boottime()
        noted = self.missing
        if not is_kept and directory != self._directory:
            noted = {}
        missing = {}
        for path in gone:
            missing[path] = min(now, noted.get(path, now))
        self._directory = directory
        self.is_waiting = any(now - since < MISSING_FOR for since in missing.values())
        return missing, is_kept

    def _refusal(self, config: ConfigList, read: Read) -> Sequence[Fault]:
        """Return what plugins find wrong with their confs, where another set can stay in use."""
        used = self.config
        if used is None or self._is_accepted_elsewhere(read):
            return ()
        return ConfigError(self.acceptance.faults(config, used)).faults

    def _gone(self, documents: Documents) -> list[str]:
        """Return the files in use that are not there, nor under a new name; the single one gives way to others."""
        single = self.site.conf_file if documents else None
        new = [document for path, document in documents.items() if path not in self.documents]
        gone = []
        for path, document in self.documents.items():
            is_there = path in documents or document in new
            if not is_there and path != single:
                gone.append(path)
        return gone

    def _directory_now(self) -> object:
        try:
            status = os.stat(self.site.conf_dir)
        except OSError:
            return None
        return [status.st_dev, status.st_ino, status.st_mtime_ns]

    def _is_accepted_elsewhere(self, read: Read) -> bool:
        """Return whether another host, or ``nri apply``, has recorded the files as they are now."""
        try:
            return self._has_record and self._recorded()[1] == read.documents
        except (OSError, NRIError, ValueError):
            return False

    def _stay(self, missing: dict[str, float], rejected: Sequence[Fault]) -> None:
        self.rejected = rejected
        self.is_waiting = self.is_waiting and bool(missing)
        if missing != self.missing:
            self.missing = missing
            self._save()

    def _accept(self, config: ConfigList, documents: Documents) -> None:
        is_recorded = documents == self.documents and not self.missing and not self.fault
        if documents != self.documents or self.since is None:
            self.since = time.time()
        self.config = config
        self.documents = documents
        self.rejected = ()
        self.missing = {}
        if not is_recorded:
            self._save()

    def _load(self) -> None:
        """Begin with the record, if there is one."""
        self._is_loaded = True
        try:
            head, documents, missing = self._recorded()
            self._read = Read(documents)
            self.config = self._read.parsed()
            self.documents = documents
            self.missing = missing
            self.since = head["since"]
            self._directory = head["directory"]
        except PermissionError:
            pass  # it is another user's
        except FileNotFoundError:
            self.fault = self._unsafe()
        except (OSError, NRIError, ValueError) as error:
            self.fault = f"{self._path}: {reason_of(error)}"

    def _unsafe(self) -> str:
        """Return why no host can have written a record, "" if one can."""
        for place in (os.path.dirname(self._path), os.path.dirname(os.path.dirname(self._path))):
            try:
                wrong = trust.judge(os.stat(place))
            except OSError:
                continue
            if wrong:
                return f"{place} {wrong}"
        return ""

    def _recorded(self) -> tuple[dict[str, Any], Documents, dict[str, float]]:
        """Return the head of the record, the files of the recorded set, and which were missing since when.

        :raises OSError: it cannot be read.
        :raises NRIError: others can write to it.
        :raises ValueError: it is damaged.
        """
        line, _, content = read_file(self._path).partition(b"\n")
        at = 0
        documents: Documents = {}
        missing: dict[str, float] = {}
        try:
            head: Any = gojson.loads(line)
            if head["of"] != self._of:  # the names of two records are the same by chance
                raise FileNotFoundError
            for name, size, noted in head["files"]:
                path = os.fsdecode(name.encode("latin-1"))
                documents[path] = content[at : at + size]
                at += size
                if noted is not None:
                    missing[path] = float(noted)
            if at != len(content):
                raise ValueError
            head["directory"]
            head["since"] = float(head["since"])
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise ValueError(
                "is damaged, or of another version; expected what a host of nri has written"
            ) from None
        return head, documents, missing

    def _save(self) -> None:
        if not self._has_record or not self._writes:
            return
        sizes = []
        for path, document in self.documents.items():
            sizes.append([_latin(path), len(document), self.missing.get(path)])

        about = {
            "of": self._of,
            "since": self.since,
            "directory": self._directory,
            "files": sizes,
        }
        head = gojson.dumps(about)
        try:
            write_file(self._path, b"\n".join([head, b"".join(self.documents.values())]))
            self.fault = ""
        except (OSError, NRIError) as error:
            self.fault = f"{self._path} cannot be written: {reason_of(error)}"


def _latin(path: str) -> str:
    """Return a path of any bytes as a text of JSON."""
    return os.fsencode(path).decode("latin-1")


def wait(in_use: InUse, until: float, note: Callable[[str], object]) -> ConfigList:
    """Return the configuration in use, for a process that runs one chain.

    :param until: a time of ``time.monotonic``; until then a missing file is waited for.
    :param note: called with a line if the files as they are now are not in use.
    :raises ConfigError: there has been no valid configuration, or a file is still missing.
    """
    in_use.look()
    in_use.keep()
    while in_use.is_waiting:
        if time.monotonic() >= until:
            away = (
                "was in use, and is missing for a moment: it is being replaced, or was removed; "
                "try again"
            )
            raise ConfigError([Fault(file=path, message=away) for path in in_use.missing])
        time.sleep(POLL)
        in_use.look()
    if in_use.config is None:
        raise ConfigError(in_use.rejected)
    for line in why_not(in_use):
        note(line)
    return in_use.config


def why_not(in_use: InUse) -> list[str]:
    """Return why the files as they are now are not in use, or will not be remembered, a line for each reason."""
    still = "invalid configuration; still using the last valid one"
    lines = [f"{still}: {fault}" for fault in in_use.rejected]
    if in_use.missing:
        missing = f"missing, and still in use {how_long(in_use)}: {', '.join(in_use.missing)}"
        lines.append(f'{missing}; for no plugins, write a file with "plugins": []')
    if in_use.fault:
        lines.append(f"the record of the configuration in use: {in_use.fault}")
    return lines


def how_long(in_use: InUse) -> str:
    """Return how long files that are missing stay in use."""
    if in_use.is_kept:
        return "until they are back, or others are applied"
    return f"for {MISSING_FOR:g} seconds without any change"


def boottime() -> float:
    """Return the seconds since the boot, also those of a suspended machine; this clock cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
