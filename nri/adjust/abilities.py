"""The abilities of runtimes to apply a plugin's changes: one that speaks NRI v2, and an OCI runtime behind us.

What a runtime cannot do is an error, since it would drop the change without a word.
"""

from __future__ import annotations

from nri.adjust.fields import NEVER, UPDATED_BY_NRI, UPDATED_BY_OCI
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.adjust.fields import AdjustField, Version

    Resolve = Callable[[list[str], dict[str, Any]], dict[str, Any]]


class Abilities:
    """A runtime that can apply nothing: the base of the others, and ``nri hook``.

    :ivar resolve_cdi: returns the ``adjust`` that CDI devices stand for, given their names and the container's OCI
        configuration; None where the runtime resolves them.
    """

    resolve_cdi: Resolve | None = None

    def why_no_field(self, field: AdjustField) -> str:
        """Return the reason why a field of ``adjust`` cannot be applied; "" if it can be."""
        return "this host cannot adjust containers"

    def why_no_updated_field(self, field: AdjustField) -> str:
        """Return the reason why a field of an update's ``resources`` cannot be applied; "" if it can be."""
        return "this host cannot update containers"

    def why_no_path(self, path: str) -> str:
        """Return the reason why a container's cgroup cannot be at ``linux.cgroupsPath``; "" if it can be."""
        return ""

    def why_no_update(self, state: str, *, is_sandbox: bool) -> str:
        """Return the reason why ``updates`` cannot be applied in answer to a request; "" if they can be."""
        return "this host cannot update containers"


class NRIAbilities(Abilities):
    """A runtime that applies the answers of v2 plugins.

    :param name: the runtime with its version, for messages.
    :param version: the version of its NRI.
    :param resolve_cdi: for a runtime whose NRI does not know CDI devices.
    """

    def __init__(self, name: str, version: Version, resolve_cdi: Resolve | None = None) -> None:
        self.name, self.version = name, version
        self.resolve_cdi = None if version >= (0, 7) else resolve_cdi

    def why_no_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.nri <= self.version or (field.name == "cdiDevices" and self.resolve_cdi is not None):
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

    def __init__(self, name: str, version: Callable[[], Version], resolve_cdi: Resolve | None = None) -> None:
        self.name, self._version, self.resolve_cdi = name, version, resolve_cdi

    def why_no_field(self, field: AdjustField) -> str:
        """As for the base class."""
        if field.oci is None:
            return "the OCI runtime specification does not have it: an NRI v2 runtime resolves it"
        if field.name == "cdiDevices" and self.resolve_cdi is None:
            return "this host does not resolve CDI devices"
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
