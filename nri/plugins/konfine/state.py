"""Which container has which CPUs, and why: one file below ``/run/nri/konfine``, and a note on each cgroup.

Each request takes the lock, reads the file, compares it with the cgroups, and replaces it as a whole. The file is
written before any cgroup is, so CPUs that a killed process has begun to give away are not given to another container;
the next request finishes what was begun. The cgroups are the truth: a container whose cgroup is gone has given back
its CPUs, and one whose CPUs are not those of the file gets them again.

The same entry is an extended attribute of the container's cgroup, where the kernel has these (v2; v1 on most nodes).
A file that is lost, damaged or of another boot is made again of them. A container without one counts as one that
shares its CPUs.
"""

from __future__ import annotations

import os

from nri import files, trust
from nri.cgroups.paths import is_pod
from nri.cgroups.topology import Topology, online_cpus
from nri.errors import NRIError
from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]

FILE, LOCK = "state.json", "lock"

ATTRIBUTE = "trusted.konfine.nri"
"""The extended attribute of a cgroup, which root alone can read and write."""

SETUP_WITHIN = 120.0
"""Seconds from ``setup`` to the container's cgroup; then its CPUs are free again, and ``create`` chooses anew."""

MAX_FILE = 16 * 1024 * 1024
"""Bytes of the file; 500 containers on 256 CPUs take 150 KiB."""

_BOOT = "/proc/sys/kernel/random/boot_id"


class State:
    """The content of the file, while this process holds the lock; a context manager.

    An entry has ``path`` (cgroupsPath), ``pid``, ``name`` for people, ``directory`` of its cpuset ("" before its
    cgroup exists), ``kind`` (``exclusive``, ``pool`` or ``shared``), ``cpus`` (those that it has alone), ``within``
    (those that it may have of the shared ones), ``told`` (those that the runtime has been told), ``untold`` (true if
    systemd could not be told of its CPUs), ``pool``, ``milli`` (CPUs that it requests, in thousandths), ``since``
    (seconds after the boot), ``subgroup`` (crun's, of its scope).

    :ivar containers: the entries by the containers' ids.
    :ivar pools: the CPUs of each pool that grows, by the pool's name.
    :ivar rebuilt: why the file was made again; "" if it was there.
    """

    def __init__(self, run: str, sys: str) -> None:
        self.directory, self._sys = f"{run}/nri/konfine", sys
        self.containers: dict[str, Entry] = {}
        self.pools: dict[str, str] = {}
        self.topology: Topology
        self.rebuilt = ""
        self._lock, self._read = -1, b""

    def __enter__(self) -> State:
        import fcntl

        try:
            trust.make_private(self.directory)
            lock = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # it may be a FIFO
            self._lock = os.open(f"{self.directory}/{LOCK}", lock, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)  # the host's deadline bounds it
            self.load()
        except OSError as error:
            self.__exit__()
            where = error.filename or self.directory
            wanted = "files that it can read and write" if where != self.directory else "a directory of root's alone"
            raise NRIError(f"{where}: {error.strerror}; konfine keeps its record of CPUs there: {wanted}") from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def load(self) -> None:
        """Read the file, and the topology in it, or else the machine's.

        :raises OSError: it is there, and cannot be read.
        """
        try:
            self._read, _ = files.read_regular(f"{self.directory}/{FILE}", MAX_FILE)
            value: Any = gojson.loads(self._read)
            if value["boot"] != _boot():
                self.rebuilt = "it was of another boot"
            else:
                self.containers = {id_: _checked(entry) for id_, entry in value["containers"].items()}
                self.pools = {name: str(cpus) for name, cpus in value["pools"].items()}
        except FileNotFoundError:
            self.rebuilt = "there was none"
        except (DecodeError, LookupError, TypeError, AttributeError, ValueError) as error:
            value, self.rebuilt = {}, f"it was damaged: {gojson.shorten(str(error))}"
            self.containers, self.pools = {}, {}
        try:
            self.topology = Topology.from_value(value["topology"])
            if self.rebuilt or self.topology.online != online_cpus(self._sys):
                raise ValueError
        except (LookupError, ValueError, TypeError, UnboundLocalError):
            self.topology = Topology.read(self._sys)

    def rebuild(self, top: str, mount: str) -> None:
        """Make the entries of all cgroups that have none, of the notes on them.

        :param top: the directory of the cgroup above the containers that count without a note, too.
        :param mount: where its hierarchy is mounted.
        """
        for directory, names, _ in os.walk(mount):
            path = directory.removeprefix(mount)
            entry: Entry = {"path": path, "pid": 0, "name": path, "directory": directory, "kind": "shared"}
            entry |= {"cpus": "", "within": ""}
            try:
                noted: Any = gojson.loads(os.getxattr(directory, ATTRIBUTE))
                entry = _checked(noted["entry"]) | {"directory": directory}
                self.containers[noted["id"]] = entry
                if pooled := noted.get("pool"):
                    self.pools[str(entry["pool"])] = str(pooled)
            except (OSError, DecodeError, LookupError, TypeError, AttributeError, ValueError):
                if not is_pod(os.path.dirname(path)) or not directory.startswith(f"{top}/"):
                    continue  # a pod, a class, or no container at all
                self.containers.setdefault(path, entry)
            names.clear()  # what is below belongs to the container

    def drop(self, id_: str) -> None:
        """Forget a container, which may run on."""
        if (entry := self.containers.pop(id_, None)) is not None and entry["directory"]:
            try:
                os.removexattr(entry["directory"], ATTRIBUTE)
            except OSError:
                pass  # there is none, or the cgroup is gone

    def note(self, id_: str) -> None:
        """Write a container's entry to its cgroup."""
        entry = self.containers[id_]
        noted = {"id": id_, "entry": entry, "pool": self.pools.get(entry.get("pool") or "")}
        try:
            os.setxattr(entry["directory"], ATTRIBUTE, gojson.dumps(noted))
        except OSError:
            pass  # this kernel or file system has none, or the cgroup is gone

    def save(self) -> None:
        """Replace the file, if it has another content.

        :raises NRIError: it cannot be written.
        """
        value = {"boot": _boot(), "topology": self.topology.to_value()}
        document = gojson.dumps(value | {"containers": self.containers, "pools": self.pools})
        if document == self._read:
            return
        path = f"{self.directory}/{FILE}"
        try:
            os.close(files.replace(path, document))
        except OSError as error:
            raise NRIError(f"{path}: {error.strerror}; expected to be able to replace it") from error
        self._read = document


def _checked(entry: Any) -> Entry:
    """Return an entry if each value is of its type; raise TypeError otherwise."""
    texts = ("path", "directory", "kind", "cpus", "within", "name")
    is_right = all(isinstance(entry[key], str) for key in texts) and isinstance(entry.get("subgroup", ""), str)
    if not is_right or not isinstance(entry["pid"], int):
        raise TypeError("an entry has a value of another type")
    return entry  # type: ignore[no-any-return] # it is a dictionary


def _boot() -> str:
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
