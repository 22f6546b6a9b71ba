"""Which container has which CPUs, and why: one file below ``/run/nri/konfine``.

Each request takes the lock, reads the file, compares it with the cgroups, and replaces it as a whole. The file is
written before any cgroup is, so CPUs that a killed process has begun to give away are not given to another container;
the next request finishes what was begun. The cgroups are the truth: a container whose cgroup is gone has given back
its CPUs, and one whose CPUs are not those of the file gets them again.

A file may be lost, of another boot, or break a rule. Then konfine reads the cpuset files of all containers of the
machine (``.found``).
"""

from __future__ import annotations

import os
import time

from nri import files, trust
from nri.cgroups import CpuListError, knobs, parse_cpus, render_cpus
from nri.cgroups.topology import Topology
from nri.errors import NRIError
from nri.types import DecodeError, fields, gojson
from nri.types.demanding import demand
from nri.types.table import (
    FLAG,
    Key,
    Map,
    Rule,
    array,
    either,
    number,
    open_table,
    text,
    words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class Entry(TypedDict, total=False):
        """The entry of a container.

        ``id``, ``pod`` (its sandbox's id), ``name`` for people, ``cgroup`` (the path of its cpuset below the mount,
        "" before it exists), ``kind`` (``exclusive``, ``pool`` or ``shared``), ``cpus`` (those that no other has),
        ``plus`` (it has the shared ones, too), ``within`` (those
        that it may have of the shared ones), ``counted`` (those that the device plugin allocated), ``told`` (those
        that the runtime has been told), ``untold`` (systemd could not be told of its CPUs), ``pool``, ``milli`` (CPUs
        that it requests, in thousandths), ``since`` (seconds after the boot: it comes soon, or is over), ``ended``
        (its next start in the pod may have them), ``sandbox``, ``subgroup`` (crun's, of its scope), ``quota`` (which
        was lifted).
        """

        id: str
        pod: str
        name: str
        cgroup: str
        kind: str
        cpus: str
        plus: bool
        within: str
        counted: str
        told: list[str]
        untold: bool
        pool: str
        milli: int
        since: float
        ended: bool
        sandbox: bool
        subgroup: str
        quota: str

    Set = frozenset[int]

FILE = "state.json"
LOCK = "lock"

MAX_FILE = 16 * 1024 * 1024
"""Bytes of the file; 500 containers on 256 CPUs take 150 KiB."""

SETUP_WITHIN = 120
"""Seconds from ``setup`` to the container's cgroup; then its CPUs are free again, and ``create`` chooses anew."""

KEPT_TIMES = 3
"""Times of ``SETUP_WITHIN`` that a container which has ended has for its restart: the kubelet waits five minutes at
most."""

PROMISED_FOR = 600
"""Seconds that the CPUs of a container which the kubelet has admitted wait for it: images are pulled meanwhile."""

_PROMISE_ENDS = PROMISED_FOR - SETUP_WITHIN

LISTED_WITHIN = 10
"""Seconds after which the kubelet lists the devices of a pod that it has admitted."""

_POLL = 0.02
"""Seconds between two tries to lock, where they are bounded."""

_PROMISE = "admitted "
_BOOT = "/proc/sys/kernel/random/boot_id"


class Lists:
    """CPU lists and their sets: each is parsed, and rendered, once."""

    def __init__(self) -> None:
        self._sets: dict[str, Set] = {}
        self._texts: dict[Set, str] = {}

    def cpus(self, text: str) -> Set:
        """Return the set of a list.

        :raises CpuListError: it is none.
        """
        if text not in self._sets:
            self._sets[text] = parse_cpus(text)
        return self._sets[text]

    def text(self, cpus: Set) -> str:
        """Return the list of a set."""
        if cpus not in self._texts:
            self._texts[cpus] = render_cpus(cpus)
        return self._texts[cpus]

    def of_file(self, path: str) -> Set | None:
        """Return the set in a cgroup's file, none if it cannot be read or has no list; None if the cgroup is gone.

        No request fails for what another container's cgroup is like.
        """
        try:
            data = knobs.slurp(path, knobs.MAX_KNOB, os.O_CLOEXEC | os.O_NOFOLLOW)
            return self.cpus(data.decode("ascii", "replace").strip())
        except OSError:
            return frozenset() if os.path.isdir(os.path.dirname(path)) else None
        except CpuListError:
            return frozenset()


class Record:
    """The content of the file, while this process holds the lock; a context manager.

    :param within: seconds to wait for the lock; 0 for as long as it takes.
    :ivar containers: the entries, by the cgroup's path as the runtime names it.
    :ivar pools: the CPUs of each pool that grows, by the pool's name.
    :ivar conf: what others read of the conf: ``reserved`` and the ``fixed`` pools.
    :ivar rebuilt: why the file is to be made again of the cgroups; "" if it has all containers.
    :ivar lists: the CPU lists of its entries as sets.
    """

    def __init__(self, run: str, sys: str, *, within: float = 0.0) -> None:
        self._within = within
        self._sys = sys
        self.directory = f"{run}/nri/konfine"
        self.containers: dict[str, Entry] = {}
        self.pools: dict[str, str] = {}
        self.conf: dict[str, Any] = {"reserved": "", "fixed": {}}
        self.topology: Topology
        self.rebuilt = ""
        self.lists = Lists()
        self._unknown: dict[str, Any] = {}  # keys of a newer build
        self._lock = -1
        self._read = b""
        self._rules = _rules(self.lists)

    def __enter__(self) -> Record:
        try:
            trust.make_private(self.directory)
            lock = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # it may be a FIFO
            self._lock = os.open(f"{self.directory}/{LOCK}", lock, 0o600)
            self._wait_for_lock()
            self.load()
        except OSError as error:
            self.__exit__()
            where = error.filename or self.directory
            wanted = "a directory of root's alone, and files in it that it can read and write"
            why = f"konfine keeps its record of CPUs in {self.directory}: {wanted}"
            raise NRIError(f"{where}: {error.strerror}; {why}") from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_for_lock(self) -> None:
        import fcntl

        if not self._within:
            fcntl.flock(self._lock, fcntl.LOCK_EX)  # the host's deadline bounds it
            return
        until = time.monotonic() + self._within
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    held = f"another process has held it for {self._within:g} s; expected it to end"
                    raise NRIError(f"{self.directory}/{LOCK}: {held}") from None
                time.sleep(_POLL)
            else:
                return

    def __exit__(self, *_: object) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def load(self) -> None:
        """Read the file.

        :raises OSError: it is there, and cannot be read.
        """
        self.topology = Topology.read(self._sys)
        try:
            self._read, _ = files.read_regular(f"{self.directory}/{FILE}", MAX_FILE)
            self._take(gojson.loads(self._read))
        except FileNotFoundError:
            self.rebuilt = "there was none"
        except DecodeError as error:
            self.rebuilt = f"it was damaged: {gojson.shorten(str(error), 300)}"

    def _take(self, value: Any) -> None:
        """Take the content of the file.

        :raises DecodeError: it breaks a rule; what is right of it is taken.
        """
        document = self._rules["document"]
        if isinstance(value, dict) and value.get("boot") != _boot():
            self.rebuilt = "it was of another boot"
            return
        try:
            demand(document, value, FILE)
        except DecodeError:
            self._keep_right(value)
            raise
        self.containers = value["containers"]
        self.pools = value["pools"]
        self.conf = value["conf"]
        self.rebuilt = value.get("incomplete", "")
        self._unknown = {key: item for key, item in value.items() if key not in document.keys}

    def _keep_right(self, value: Any) -> None:
        """Take what is right of a damaged document: the rest is made again of the cgroups."""
        self.containers = _accepted(value, "containers", self._rules["entry"])
        self.pools = _accepted(value, "pools", self._rules["cpus"])

    def running(self) -> dict[str, Entry]:
        """Return the entries of the containers that have a cgroup."""
        return {key: entry for key, entry in self.containers.items() if entry["cgroup"]}

    def coming(self) -> dict[str, Entry]:
        """Return the entries without a cgroup: containers that begin, or begin again, or are over."""
        return {key: entry for key, entry in self.containers.items() if not entry["cgroup"]}

    def promise(self, cpus: frozenset[int], usable: frozenset[int], least: int) -> None:
        """Keep CPUs that the device plugin has allocated for their container, which comes soon.

        Those of another are left to it, and the shared ones to all others: the container's start decides then.

        :param usable: those that can be shared, of which so many must be.
        """
        waiting = self.waiting(cpus)
        taken = [entry["cpus"] for key, entry in self.containers.items() if key not in waiting]
        others = frozenset[int]().union(*map(parse_cpus, [*taken, *self.pools.values()]))
        free = cpus - others
        leaves = len(usable - others - free)
        if not free or leaves < min(least, len(usable)):
            return
        key = f"{_PROMISE}{render_cpus(cpus)}"
        while key in self.containers:  # a pod's containers may have the same ones
            key += "+"
        self.containers[key] = {
            "id": "",
            "name": "an admitted container",
            "cgroup": "",
            "kind": "exclusive",
            "cpus": render_cpus(free),
            "within": "",
            "counted": render_cpus(cpus),
            "since": now() + _PROMISE_ENDS,
        }

    def follow(self, listed: frozenset[int]) -> None:
        """End the promises whose CPUs no pod has, and keep the others.

        :param listed: the CPUs that pods have as devices, as the kubelet says.
        """
        for key, entry in self.promises().items():
            promised = parse_cpus(entry.get("counted", ""))
            age = now() - (entry.get("since", 0) - _PROMISE_ENDS)
            if not promised & listed and age > LISTED_WITHIN:
                del self.containers[key]
            elif promised <= listed and age > PROMISED_FOR / 2:
                entry["since"] = now() + _PROMISE_ENDS

    def promises(self) -> dict[str, Entry]:
        """Return the entries that wait for a container which the kubelet has admitted."""
        return {key: entry for key, entry in self.containers.items() if key.startswith(_PROMISE)}

    def waiting(self, cpus: frozenset[int]) -> set[str]:
        """Return the keys of what waits for one of these CPUs, which the device plugin has allocated.

        The kubelet allocates a device to one pod at a time, and those of an init container to its pod's others, too.
        So they are the promises of a pod, and what its containers have left, or a pod that is over.
        """
        coming = self.coming().items()
        return {key for key, entry in coming if parse_cpus(entry.get("counted", "")) & cpus}

    def promised(self, cpus: frozenset[int]) -> str:
        """Return the key of a promise of just these CPUs; "" if there is none."""
        base = f"{_PROMISE}{render_cpus(cpus)}"
        return next((key for key in self.containers if key.rstrip("+") == base), "")

    def end(self, key: str) -> None:
        """Note that a container has ended: its CPUs are free, or kept for its next start while its pod lives."""
        entry = self.containers.pop(key, None)
        if entry is not None and entry["kind"] == "exclusive":
            entry["cgroup"] = ""
            entry["ended"] = True
            entry.pop("since", None)
            self.containers[key] = entry

    def expire(self) -> None:
        """Forget the containers that are not coming any more."""
        pods = {entry["id"] for entry in self.containers.values() if entry.get("sandbox")}
        late = now() - SETUP_WITHIN
        too_late = now() - KEPT_TIMES * SETUP_WITHIN
        for key, entry in self.coming().items():
            since = entry.get("since", late)
            if entry.get("ended"):
                is_over = entry.get("pod") not in pods or since < too_late
            else:
                is_over = since < late
            if is_over:
                del self.containers[key]

    def save(self) -> None:
        """Replace the file, if it has another content. One that was not rebuilt yet says so.

        :raises NRIError: it cannot be written.
        """
        value = {
            **self._unknown,
            "boot": _boot(),
            "conf": self.conf,
            "incomplete": self.rebuilt,
        }
        document = gojson.dumps(value | {"containers": self.containers, "pools": self.pools})
        if document == self._read:
            return
        path = f"{self.directory}/{FILE}"
        try:
            files.replace(path, document)
        except OSError as error:
            raise NRIError(
                f"{path}: {error.strerror}; expected to be able to replace it"
            ) from error
        self._read = document


def _accepted(document: object, key: str, rule: Rule) -> dict[str, Any]:
    """Return the values below a key of a damaged document that follow the rule."""
    if isinstance(document, dict):
        values = document.get(key)
    else:
        values = None
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if rule.accepts(value)}


def now() -> int:
    """Return the seconds since the boot."""
    return round(time.clock_gettime(time.CLOCK_BOOTTIME))


def _rules(lists: Lists) -> dict[str, Any]:
    """Return the rules for the file, and for a CPU list, each of which is parsed once."""

    def is_list(value: str) -> bool:
        try:
            return bool(lists.cpus(value))
        except ValueError:
            return False

    some = Rule(str, is_list, "a CPU list that is not empty", {})
    cpus = either(some, text(0, 0), expected="a CPU list")
    cgroup = Rule(str, _is_path, "the path of a cgroup", {})
    least = number(0, 2**53)
    count = number(0, 2**53, whole=True)
    of_any = [
        Key("id", text(), required=True),
        Key("name", text(), required=True),
        Key("cgroup", cgroup, required=True),
        Key("pod", text()),
        Key("within", cpus, required=True),
        Key("told", array(cpus)),
        Key("since", least),
        Key("milli", count),
        Key("untold", FLAG),
        Key("sandbox", FLAG),
        Key("subgroup", text(0, 255)),
    ]
    of_single = [
        Key("counted", some),
        Key("plus", FLAG),
        Key("ended", FLAG),
        Key("quota", text(0, 64)),
    ]
    entry = either(
        open_table(
            Key("kind", words("shared"), required=True),
            Key("cpus", text(0, 0), required=True),
            *of_any,
        ),
        open_table(
            Key("kind", words("exclusive"), required=True),
            Key("cpus", some, required=True),
            *of_any,
            *of_single,
        ),
        open_table(
            *(
                Key("kind", words("pool"), required=True),
                Key("cpus", text(0, 0), required=True),
                *of_any,
            ),
            Key("pool", text(1), required=True),
        ),
        expected="an entry of the kind shared, exclusive or pool, with its CPUs",
    )
    of_conf = open_table(
        Key("reserved", cpus, required=True), Key("fixed", Map(cpus, text(1)), required=True)
    )
    return {
        "entry": entry,
        "cpus": cpus,
        "document": open_table(
            Key("boot", text(), required=True),
            Key("containers", Map(entry, text(1)), required=True),
            Key("pools", Map(cpus, text(1)), required=True),
            Key("conf", of_conf, required=True),
            Key("incomplete", text()),
        ),
    }


def _is_path(value: object) -> bool:
    """Return whether a value is the path of a cgroup below the root, or "" for none."""
    return value == "" or (value != "/" and fields.PATH.accepts(value))


def _boot() -> str:
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
