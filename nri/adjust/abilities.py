"""The abilities of runtimes to apply a plugin's changes: one that speaks NRI v2, and an OCI runtime behind us.

A change that a runtime cannot apply is an error, since the runtime would drop it silently.
"""

from __future__ import annotations

from nri.adjust.fields import NEVER, UPDATED_BY_NRI, UPDATED_BY_OCI
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adjust.fields import AdjustField, Version


class Abilities:
    """A runtime that can apply nothing, as ``nri hook``, or with an empty reason everything: the base of the others.

    :param why_not: the reason why nothing can be applied.
    """

    def __init__(self, why_not: str = "this host cannot change containers") -> None:
        self._why_not = why_not

    def why_no_field(self, field: AdjustField) -> str:
        """Return the reason why a field of ``adjust`` cannot be applied; "" if it can be."""
        return self._why_not

    def why_no_updated_field(self, field: AdjustField) -> str:
        """Return the reason why a field of an update's ``resources`` cannot be applied; "" if it can be."""
        return self._why_not

    def why_no_path(self, path: str) -> str:
        """Return the reason why a container's cgroup cannot be at ``linux.cgroupsPath``; "" if it can be."""
        return ""

    def why_no_update(self, state: str, *, is_sandbox: bool) -> str:
        """Return the reason why ``updates`` cannot be applied in answer to a request; "" if they can be."""
        return self._why_not


class NRIAbilities(Abilities):
    """A runtime that applies the answers of v2 plugins.

    :param name: the runtime with its version, for messages.
    :param version: the version of its NRI.
    """

    def __init__(self, name: str, version: Version) -> None:
        self.name, self.version = name, version

    def why_no_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.nri <= self.version:
            return ""
        if field.nri == NEVER:
            return "no NRI v2 runtime applies it to a container that it creates"
        return f"{self.name} has NRI {_dotted(self.version)}, which does not apply it; NRI {_dotted(field.nri)} does"

    def why_no_updated_field(self, field: AdjustField) -> str:
        """As for the base class."""
        return "" if field.name in UPDATED_BY_NRI else "no NRI v2 runtime applies it to a container that exists"

    def why_no_update(self, state: str, *, is_sandbox: bool) -> str:
        """As for the base class."""
        if is_sandbox:
            return "NRI v2 has no updates in answer to an event of a sandbox"
        return ""


class OCIAbilities(Abilities):
    """An OCI runtime, whose configuration we write.

    :param version: returns the version of the runtime specification that the runtime implements. It is called when a
        plugin sets a field that is newer than 1.0.
    """

    def __init__(self, name: str, version: Callable[[], Version]) -> None:
        self.name, self._version = name, version

    def why_no_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.oci is None:
            which = (
                "a runtime with NRI" if field.nri == (0, 2) else f"a runtime with NRI {_dotted(field.nri)} or newer"
            )
            return f"the OCI runtime specification does not have it; expected {which}, which applies it"
        if field.oci == (1, 0) or field.oci <= (version := self._version()):
            return ""
        return (
            f"{self.name} implements version {_dotted(version)} of the OCI runtime specification; expected "
            f"{_dotted(field.oci)} or newer"
        )

    def why_no_updated_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.name not in UPDATED_BY_OCI:
            return "OCI runtimes do not apply it to a container that exists"
        return self.why_no_field(field)

    def why_no_update(self, state: str, *, is_sandbox: bool) -> str:
        """As for the base class."""
        return ""


ANSWERS_WITH_UPDATES = (State.SETUP, State.RESIZE, State.DELETE)
"""The states whose results can have ``updates``."""


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
