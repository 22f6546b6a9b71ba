"""Give containers the OCI hooks of the node's hooks.d directories, as podman and CRI-O do by themselves.

A hook runs as root on the node. Which ones there are is the operator's choice: files that only root can write to. A
condition on annotations lets a pod choose, so it counts only for pods whose namespace ``allow`` in the conf names.
"""

from __future__ import annotations

from nri import __version__, skel
from nri.errors import NRIError, escape
from nri.plugins import annotated, shared
from nri.skel import Plugin, why_not_allowed
from nri.types import fields
from nri.types.conf import Conf
from nri.types.gojson import shorten
from nri.types.v1 import Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request, Result

DIRS = ["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"]
"""The directories of hooks by default: the packages', and the administrator's, which has precedence."""


_KINDS = {"prestart": "createRuntime"}
"""The kinds of hooks that some stages mean, as for podman; others mean the kind of their name."""


class HookInjectorConf(Conf):
    """The plugin conf of ``hook-injector``."""

    dirs: tuple[str, ...] = fields.array(
        fields.PATH,
        "directories of *.json; a file hides one of the same name in an earlier directory",
        expected="an array of absolute paths",
        default=DIRS,
    )
    allow: dict[str, Any] = annotated.allow("annotations")
    run: str = fields.text("where the runtime data of the node is", default="/run")


class HookInjector(Plugin):
    """The plugin ``hook-injector``: adds hooks to containers on ``setup``."""

    type = "hook-injector"
    version = __version__
    description = "Injects the OCI hooks of the node's hooks.d directories, oci-hooks(5)."
    resident = True
    acts_on = (State.SETUP,)
    uses = ("nri.plugins.hook_injector.hook_files", "re2")
    conf_class = HookInjectorConf

    def invoke(self, request: Request, conf: HookInjectorConf) -> Result:
        """Answer with the hooks whose conditions are met; the metadata names their files."""
        metadata: dict[str, str] = {}
        hooks: Any = {} if request.is_sandbox else _hooks(request, conf, metadata)
        adjust = {"hooks": hooks} if hooks else None
        return request.new_result(self.type, metadata=metadata, adjust=adjust)

    def faults(self, conf: HookInjectorConf) -> list[dict[str, Any]]:
        """Return the faults of the files of hooks: one that is wrong refuses every container."""
        from nri.plugins.hook_injector.hook_files import PatternError, Subject, is_met, read_dirs

        wrong: list[dict[str, Any]] = []
        try:
            hooks = read_dirs(conf.dirs, DIRS)
        except NRIError as error:
            return [{"message": str(error)}]
        for path, file in hooks:
            try:
                is_met(file["when"], Subject(Spec()))
            except PatternError as error:
                wrong.append(
                    {"message": str(error), "file": path, "path": error.path, "atKey": error.is_key}
                )
        return wrong


def _hooks(request: Request, conf: HookInjectorConf, metadata: dict[str, str]) -> Any:
    from nri.plugins.hook_injector.hook_files import Subject, is_met, read_dirs

    why_not = why_not_allowed(request, conf.allow["annotations"], "allow.annotations")
    container = Subject(request.shown)
    hooks: dict[str, list[Any]] = {}
    names = []
    for path, file in read_dirs(conf.dirs, DIRS, conf.run):
        try:
            answer = is_met(file["when"], container)
        except NRIError as error:
            raise NRIError(f"{escape(shorten(path, 200))}: {error}") from error
        if answer is False:
            continue
        if file["when"].get("annotations") and why_not:
            if answer:
                shared.ignore(metadata, path, why_not)
            continue
        if answer is None:
            where = f"{escape(shorten(path, 200))}: when.commands"
            raise NRIError(
                f"{where}: the request has no spec.process.args; expected a container's command"
            )
        hook = {key: item for key, item in file["hook"].items() if item}
        for stage in file["stages"]:
            kind = _KINDS.get(stage, stage)
            hooks.setdefault(kind, []).append(hook)
        names.append(path.rpartition("/")[2])
    if names:
        metadata["hooks"] = shorten(escape(", ".join(names)), 300)
    return hooks


def main() -> None:
    """Run the plugin as this process."""
    skel.main(HookInjector())
