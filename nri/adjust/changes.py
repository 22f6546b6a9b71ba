"""The changes that the plugins of one chain ask for, plugin by plugin: checked, claimed, and put together.

changes = Changes(abilities, config)
changes.take("injector", request, result)   # raises, and takes nothing, if it cannot be applied
changes.config                              # the OCI configuration as the next plugin sees it
changes.adjust, changes.updates             # all changes together, for a runtime that applies them
"""

from __future__ import annotations

from nri.adjust.apply import apply, apply_resources
from nri.adjust.document import read_adjust, read_updates
from nri.adjust.fields import FIELDS, NEVER, UPDATED_BY_NRI, UPDATED_BY_OCI, document, entries, walk
from nri.adjust.merging import Conflict, Merge
from nri.errors import NRIError
from nri.types import gojson
from nri.types.v1 import EXTENSIONS, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.adjust.fields import AdjustField, Version
    from nri.types.v1 import Request, Result

ANSWERS_WITH_UPDATES = (State.SETUP, State.RESIZE, State.DELETE)
"""The states whose results can have ``updates``."""

_PATH = "linux.cgroupsPath"
_NAMES = [field.name for field in FIELDS]


class AdjustError(NRIError):
    """A plugin's ``adjust`` or ``updates`` cannot be applied: it is in conflict, or the runtime lacks it.

    The message names the thing and the reason. Nothing of the result is applied.

    :ivar pod_asked: it is in conflict with something that the pod asks for.
    """

    def __init__(self, message: str, *, pod_asked: bool = False) -> None:
        super().__init__(message)
        self.pod_asked = pod_asked


class Changes:
    """The changes that the plugins of one chain have asked for.

    :param abilities: the abilities of the runtime.
    :param config: for ``setup``: the container's OCI configuration, which is not changed, or a function that makes it
        when the first plugin is about to run; by default an empty one.
    :ivar adjust: for ``setup``: the plugins' adjustments, put together.
    :ivar updates: updates by the id of the container, put together, in the order of their first mention.
    :ivar ignored: updates with ``ignoreFailure`` that were in conflict, and dropped; a line for each.
    """

    def __init__(
        self,
        abilities: Abilities,
        config: dict[str, Any] | Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.abilities = abilities
        self._given = config
        self._config: dict[str, Any] | None = None
        self.adjust: dict[str, Any] = {}
        self.updates: dict[str, dict[str, Any]] = {}
        self.ignored: list[str] = []
        self._path_by = ""  # the plugin whose cgroupsPath, not below adjust, was the last one
        self._merge = Merge(_NAMES)
        self._merges: dict[str, Merge] = {}  # of updates, by the id of the container
        self._asked_by_pods: set[str] = set()  # the plugins whose changes the pod asks for

    @property
    def original(self) -> dict[str, Any]:
        """The configuration without changes."""
        if callable(self._given):
            self._given = self._given()
        return self._given

    @property
    def config(self) -> dict[str, Any]:
        """The configuration with all changes so far. It must not be changed."""
        return self.original if self._config is None else self._config

    def __bool__(self) -> bool:
        return bool(self.adjust or self.updates)

    def resources(self, id_: str, asked: Any) -> Any:
        """Return the resources that a ``resize`` of the container *id_* asks for, with the plugins' updates of it."""
        own = self.updates.get(id_)
        if own is None:
            return asked
        resources: dict[str, Any] = _copy(asked) if isinstance(asked, dict) else {}
        apply_resources(resources, own["resources"])
        return resources

    def take(self, plugin: str, request: Request, result: Result) -> None:
        """Add what a plugin's *result* asks for in answer to *request*; all of it, or nothing.

        :raises DecodeError: it does not keep the rules.
        :raises AdjustError: the runtime cannot do it, or another plugin has set the same.
        """
        adjust = read_adjust(result.adjust)
        if result.updates is None:
            updates = []
        else:
            updates = read_updates(result.updates)
        if request.state == State.SETUP:
            path = result.cgroups_path
        else:
            path = ""
        _check_state(request.state, adjust, updates)
        self._check_abilities(adjust, path)
        merged = self.adjust, self._config, self._merge
        if adjust or path:
            merged = self._adjusted(plugin, adjust, path)
        self._take_updates(plugin, request, updates)
        self.adjust, self._config, self._merge = merged
        if path:
            self._path_by = plugin
        if result.pod_asked:
            self._asked_by_pods.add(plugin)

    def _check_abilities(self, adjust: dict[str, Any], path: str) -> None:
        """Raise AdjustError if the runtime lacks something that is asked for.

        :param path: the result's ``cgroupsPath``.
        """
        for field, value in walk(adjust):
            reason = self.abilities.why_no_field(field, value)
            if reason:
                raise AdjustError(f"adjust.{field.name}: {reason}")
        if not path:
            return
        if "cgroupsPath" in adjust.get("linux", {}):
            raise AdjustError(
                "cgroupsPath: found it beside adjust.linux.cgroupsPath, expected one of them"
            )
        if reason := self.abilities.why_no_path(path):
            raise AdjustError(f"cgroupsPath: {reason}")

    def _adjusted(
        self, plugin: str, adjust: dict[str, Any], path: str
    ) -> tuple[dict[str, Any], dict[str, Any] | None, Merge]:
        """Return ``adjust``, the configuration and the merge with what a plugin asks for."""
        moves = "cgroupsPath" in adjust.get("linux", {})
        if moves and self._path_by not in ("", plugin):
            raise AdjustError(
                "adjust.linux.cgroupsPath: already moved by the cgroupsPath of the plugin "
                f"{self._path_by}; expected one of them",
                pod_asked=self._path_by in self._asked_by_pods,
            )
        merge = self._merge.copy()
        self._add(merge, adjust, plugin, "adjust")
        if path:  # not claimed: the last one counts
            try:
                merge.check(_PATH, "", plugin)
            except Conflict as conflict:
                raise self._in_conflict(conflict, "cgroupsPath") from None
            merge.values[_PATH] = path
        merged = document(merge.values)
        config = _copy(self.original)
        apply(config, merged)
        return merged, config, merge

    def _take_updates(self, plugin: str, request: Request, updates: list[dict[str, Any]]) -> None:
        if not updates:
            return
        if reason := self.abilities.why_no_update(is_sandbox=request.is_sandbox):
            raise AdjustError(f"updates: {reason}")
        merges = dict(self._merges)
        merged = dict(self.updates)
        ignored = []
        for index, update in enumerate(updates):
            id_ = update["id"]
            asked = {"linux": {"resources": update["resources"]}}
            if id_ == request.id and request.state != State.RESIZE:
                raise AdjustError(
                    f"updates[{index}].id: found the container of the {request.state} itself, "
                    "expected another one"
                )
            for field, _ in walk(asked):
                if reason := self.abilities.why_no_updated_field(field):
                    raise AdjustError(f"updates[{index}].{'.'.join(field.path[1:])}: {reason}")
            merge = merges.get(id_, Merge(_NAMES)).copy()
            try:
                self._add(merge, asked, plugin, f"updates[{index}] of {id_}")
            except AdjustError as error:
                if not update.get("ignoreFailure"):
                    raise
                ignored.append(f"{error}; dropped (ignoreFailure)")
                continue
            merges[id_] = merge
            merged[id_] = {
                "id": id_,
                "resources": document(merge.values).get("linux", {}).get("resources", {}),
                "ignoreFailure": merged.get(id_, {}).get("ignoreFailure", True)
                and bool(update.get("ignoreFailure")),
            }
        self._merges = merges
        self.updates = merged
        self.ignored += ignored

    def _add(self, merge: Merge, asked: dict[str, Any], plugin: str, where: str) -> None:
        """Add a document to a merge.

        :param where: begins the name of a field in errors: ``adjust``, or an update's place.
        :raises AdjustError: another plugin owns a part.
        """
        for field, value in walk(asked):
            try:
                merge.add(field.name, field.kind, entries(field, value), plugin)
            except Conflict as conflict:
                place = f"{where}.{conflict.name} {conflict.entry}".rstrip()
                raise self._in_conflict(conflict, place) from None

    def _in_conflict(self, conflict: Conflict, where: str) -> AdjustError:
        done = "removed" if conflict.owner.startswith("-") else "set"
        owner = conflict.owner.removeprefix("-")
        return AdjustError(
            f"{where}: already {done} by the plugin {owner}; expected one plugin alone to set it",
            pod_asked=owner in self._asked_by_pods,
        )


def _check_state(state: str, adjust: dict[str, Any], updates: list[dict[str, Any]]) -> None:
    """Raise AdjustError if a result must not ask for such changes in answer to this state."""
    if adjust and state != State.SETUP:
        raise AdjustError(
            f"adjust: found it in answer to {state}, expected it in answer to setup alone"
        )
    if updates and state not in ANSWERS_WITH_UPDATES:
        states = ", ".join(ANSWERS_WITH_UPDATES)
        raise AdjustError(f"updates: found them in answer to {state}, expected {states}")


def _copy(value: Any) -> Any:
    """Return a deep copy of a JSON value; to import ``copy`` takes longer than all of this."""
    return gojson.loads(gojson.dumps(value), keeps_lone=True)


# The abilities of runtimes to apply the changes: one that speaks NRI v2, and an OCI runtime behind us. A change that
# a runtime cannot apply is an error, since the runtime would drop it silently.


class Abilities:
    """A runtime that can apply everything: the base of the others."""

    extensions: dict[str, int] = {"adjust": EXTENSIONS["adjust"]}
    """The extensions of the contract that the host has at ``setup``."""

    def why_no_field(self, field: AdjustField, value: Any) -> str:
        """Return the reason why a value of a field of ``adjust`` cannot be applied; "" if it can be."""
        return ""

    def why_no_updated_field(self, field: AdjustField) -> str:
        """Return the reason why a field of an update's ``resources`` cannot be applied; "" if it can be."""
        return ""

    def why_no_path(self, path: str) -> str:
        """Return the reason why a container's cgroup cannot be at ``linux.cgroupsPath``; "" if it can be."""
        return ""

    def why_no_update(self, *, is_sandbox: bool) -> str:
        """Return the reason why ``updates`` cannot be applied in answer to a request; "" if they can be."""
        return ""


class NRIAbilities(Abilities):
    """A runtime that applies the answers of v2 plugins.

    :param name: the runtime with its version, for messages.
    :param version: the version of its NRI.
    """

    def __init__(self, name: str, version: Version) -> None:
        self.name = name
        self.version = version

    def why_no_field(self, field: AdjustField, value: Any) -> str:
        """As for the base class."""
        if field.nri <= self.version:
            return ""
        if field.nri == NEVER:
            return "no NRI v2 runtime applies it to a container that it creates"
        has = _dotted(self.version[:2])
        return f"{self.name} has NRI {has}, which does not apply it; NRI {_dotted(field.nri)} does"

    def why_no_updated_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.name in UPDATED_BY_NRI:
            return ""
        return "no NRI v2 runtime applies it to a container that exists"

    def why_no_update(self, *, is_sandbox: bool) -> str:
        """As for the base class."""
        if is_sandbox:
            return "NRI v2 has no updates in answer to an event of a sandbox"
        return ""


class OCIAbilities(Abilities):
    """An OCI runtime, whose configuration we write.

    :param version: returns the version of the runtime specification that the runtime implements. It is called when a
        plugin sets a field that is newer than 1.0.
    """

    extensions = EXTENSIONS

    def __init__(self, name: str, version: Callable[[], Version]) -> None:
        self.name = name
        self._version = version

    def why_no_field(self, field: AdjustField, value: Any) -> str:
        """As for the base class."""
        if field.oci is None:
            which = f"a runtime with NRI {_dotted(field.nri)} or newer"
            return f"the OCI runtime specification does not have it; expected {which}, which applies it"
        if field.oci == (1, 0):
            return ""
        version = self._version()
        if field.oci <= version:
            return ""
        return (
            f"{self.name} implements version {_dotted(version)} of the OCI runtime specification; expected "
            f"{_dotted(field.oci)} or newer"
        )

    def why_no_updated_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.name not in UPDATED_BY_OCI:
            return "OCI runtimes do not apply it to a container that exists"
        return self.why_no_field(field, None)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
