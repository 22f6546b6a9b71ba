"""From the changes that v0.1 plugins ask for to the answers of a v2 plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.adjust import NRIAbilities
from nri.cgroups.paths import expand
from nri.errors import NRIError, escape
from nri.types.gojson import shorten
from nri.v2 import api
from nri.v2.api import from_oci
from nri.v2.api.runtimes import nri_version

if TYPE_CHECKING:
    from typing import Any

    from nri.adjust import Changes
    from nri.v2.stub import RuntimeInfo


class BridgeAbilities(NRIAbilities):
    """A runtime that the bridge serves."""

    def why_no_path(self, path: str) -> str:
        """As for the base class. A relative path is refused: a runtime would add it to the path of its own cgroup."""
        try:
            expand(path)
        except NRIError as error:
            return str(error).removeprefix("cgroupsPath ")
        if not path.startswith("/") and ":" not in path:
            return f"{shorten(repr(path))} is relative, expected one that begins with '/'"
        return ""


def abilities(runtime: RuntimeInfo, *, check_owner: bool) -> BridgeAbilities:
    """Return the abilities of a runtime, by its version and the version of its NRI.

    :param check_owner: whether CDI specifications that others can write to are refused.
    """
    version = nri_version(runtime.name, runtime.version, runtime.nri_version)

    def resolve_cdi(names: list[str], config: dict[str, Any]) -> dict[str, Any]:
        from nri.adjust.cdi import CDI

        return CDI(check_owner=check_owner).resolve(names, config)

    return BridgeAbilities(escape(f"{runtime.name} {runtime.version}"), version, resolve_cdi)


def create_response(changes: Changes) -> api.CreateContainerResponse:
    """Return the answer to CreateContainer with all changes."""
    return api.CreateContainerResponse(adjust=from_oci.adjustment(changes.resolved_adjust), update=updates(changes))


def updates(changes: Changes) -> list[api.ContainerUpdate]:
    """Return the updates of containers."""
    return [from_oci.update(update) for update in changes.updates.values()]
