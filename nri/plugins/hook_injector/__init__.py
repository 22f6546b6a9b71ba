"""Give containers the OCI hooks of the node's hooks.d directories, as podman and CRI-O do by themselves.

A hook runs as root on the node. Which ones there are is the operator's choice: files that only root can write to. A
condition on annotations lets a pod choose, so it counts only for pods whose namespace ``allow`` in the conf names.
"""

from __future__ import annotations

from nri import __version__
from nri.errors import NRIError, escape
from nri.plugins import annotated, sample
from nri.types.gojson import shorten
from nri.types.table import Key, Table, array, text
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request

DIRS = ["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"]
"""The directories of hooks by default: the packages', and the administrator's, which has precedence."""

_DIRECTORY = text(
    1,
    4095,
    matches=lambda value: value.startswith("/") and "\0" not in value,
    pattern=r"^/[^\u0000]*$",
    expected="an absolute path",
)


class HookInjector(sample.SamplePlugin):
    """The plugin ``hook-injector``: adds hooks to containers on ``setup``."""

    type = "hook-injector"
    version = __version__
    description = "Injects the OCI hooks of the node's hooks.d directories, oci-hooks(5)."
    acts_on = (State.SETUP,)
    uses = (
        "nri.plugins.hook_injector.hook_files",
        "nri.plugins.hook_injector.conditions",
        "nri.types.table_explained",
    )
    conf_table = Table(
        Key(
            "dirs",
            array(_DIRECTORY, expected="an array of absolute paths"),
            default=DIRS,
            description=f"directories of hooks; a later one has precedence (default {', '.join(DIRS)})",
        ),
        annotated.allow_key("annotations"),
        notes=True,
        nulls=True,
    )

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> dict[str, Any] | None:
        """Return the hooks whose conditions are met; the metadata names their files."""
        if request.is_sandbox:
            return None
        from nri.plugins.hook_injector.conditions import Subject, is_met
        from nri.plugins.hook_injector.hook_files import read_dirs

        why_not = sample.why_not_allowed(request, "annotations", conf["allow"].get("annotations") or False)
        container = Subject(request.spec)
        hooks: dict[str, list[Any]] = {}
        names = []
        for path, found in read_dirs(conf["dirs"]):
            try:
                if not is_met(found.when, container):
                    continue
            except NRIError as error:
                raise NRIError(f"{escape(shorten(path, 200))}: {error}") from error
            if found.when.annotations and why_not:
                sample.ignore(metadata, path, why_not)
                continue
            for stage in found.stages:
                hooks.setdefault(stage, []).append(found.hook.to_value())
            names.append(path.rpartition("/")[2])
        if not hooks:
            return None
        metadata["hooks"] = shorten(escape(", ".join(names)), 300)
        return {"hooks": hooks}
