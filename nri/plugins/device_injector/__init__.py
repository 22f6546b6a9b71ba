"""Give containers devices, mounts, network interfaces, sysctls and scheduling that their pods ask for by annotation.

Each of them is root on the node for those who may ask: no pod may, unless ``allow`` in the conf names the namespace.
The annotations are those of NRI's v2 plugin of this name.
"""

from __future__ import annotations

from nri import __version__
from nri.errors import escape
from nri.plugins import annotated
from nri.plugins.device_injector.documents import INJECTIONS
from nri.skel import Plugin
from nri.types.conf import Conf
from nri.types.gojson import shorten
from nri.types.table import Table
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.table import Rule
    from nri.types.v1 import Request, Result


class DeviceInjectorConf(Conf):
    """The plugin conf of ``device-injector``."""

    allow: dict[str, Any] = annotated.allow(*[injection.kind for injection in INJECTIONS])


class DeviceInjector(Plugin):
    """The plugin ``device-injector``: adjusts containers on ``setup`` as the annotations of their pods say."""

    type = "device-injector"
    version = __version__
    description = "Injects devices, mounts and other things that allowed pods ask for by annotation."
    resident = True
    grants = True
    acts_on = (State.SETUP,)
    uses = ("nri.plugins.plain_yaml",)
    conf_class = DeviceInjectorConf

    def invoke(self, request: Request, conf: DeviceInjectorConf) -> Result:
        """Answer with what the pod asks for; the metadata names it."""
        metadata: dict[str, str] = {}
        adjust = None if request.is_sandbox else _adjust(request, conf, metadata)
        return request.new_result(self.type, metadata=metadata, adjust=adjust)


def _adjust(request: Request, conf: DeviceInjectorConf, metadata: dict[str, str]) -> Any:
    adjust: dict[str, Any] = {}
    for injection in INJECTIONS:
        annotation = annotated.asked(request, conf.allow, injection.kind, injection.keys, metadata)
        value = None if annotation is None else annotated.read(injection.rule, annotation[1], annotation[0])
        made = injection.make(value, annotation[0]) if value and annotation is not None else None
        if made:
            _put(adjust, injection.place, made)
            metadata[injection.kind] = shorten(escape(", ".join(_names(injection.rule, made))), 300)
    return adjust or None


def _put(adjust: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for key in place[:-1]:
        adjust = adjust.setdefault(key, {})
    adjust[place[-1]] = value


def _names(rule: Rule, made: Any) -> list[str]:
    """Return the names of what is injected: a list's items or their paths, a map's keys, or a policy."""
    if isinstance(rule, Table):
        return [made[rule.required[0]]]
    return [item["path"] if isinstance(item, dict) else item for item in made]
