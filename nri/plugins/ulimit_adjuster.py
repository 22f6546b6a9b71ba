"""Set the resource limits of containers' processes that their pods ask for by annotation.

A higher limit than the runtime's is the node's memory, processes or files for those who may ask: no pod may, unless
``allow`` in the conf names the namespace. The annotations are those of NRI's v2 plugin of this name.
"""

from __future__ import annotations

from nri import __version__, skel
from nri.plugins import annotated
from nri.skel import Plugin, Refusal
from nri.types.conf import Conf
from nri.types.gojson import shorten
from nri.types.oci_values import UINT64
from nri.types.table import Key, Rule, Table, array
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request, Result

KEYS = ("ulimits.noderesource.dev", "ulimits.nri.containerd.io")
"""The keys of the annotation, each with the scope of a container; the first one is preferred."""

LIMITS = (
    *(
        "AS",
        "CORE",
        "CPU",
        "DATA",
        "FSIZE",
        "LOCKS",
        "MEMLOCK",
        "MSGQUEUE",
        "NICE",
        "NOFILE",
        "NPROC",
        "RSS",
    ),
    *("RTPRIO", "RTTIME", "SIGPENDING", "STACK"),
)
"""The resources of setrlimit(2)."""

_PREFIX = "RLIMIT_"


def _name(value: str) -> str:
    """Return a resource's name without prefix; it may be in any case, with the prefix or without."""
    if value.isascii():
        return value.upper().removeprefix(_PREFIX)
    return ""


_TYPE = Rule(
    str,
    lambda value: _name(value) in LIMITS,
    "the name of a resource limit such as RLIMIT_NOFILE, nofile or MEMLOCK",
    {},
)
_ULIMITS = array(Table(Key("type", _TYPE, required=True), Key("hard", UINT64), Key("soft", UINT64)))


class UlimitAdjusterConf(Conf):
    """The plugin conf of ``ulimit-adjuster``."""

    allow: dict[str, Any] = annotated.allow("ulimits")


class UlimitAdjuster(Plugin):
    """The plugin ``ulimit-adjuster``: sets limits of a container's process on ``setup``."""

    type = "ulimit-adjuster"
    version = __version__
    description = (
        f"Sets the resource limits that allowed pods ask for with {KEYS[0]}/container.NAME."
    )
    resident = True
    grants = True
    acts_on = (State.SETUP,)
    uses = ("nri.plugins.plain_yaml",)
    conf_class = UlimitAdjusterConf

    def invoke(self, request: Request, conf: UlimitAdjusterConf) -> Result:
        """Answer with the limits that the pod asks for; the metadata names them."""
        metadata: dict[str, str] = {}
        annotation = annotated.asked(
            request, conf.allow, "ulimits", KEYS, metadata, scopes=("container",)
        )
        limits = annotation and _limits(
            annotated.read(_ULIMITS, annotation[1], annotation[0]) or [], annotation[0]
        )
        if not limits:
            return request.new_result(self.type, metadata=metadata)
        metadata["ulimits"] = ", ".join(
            [f"{limit['type']}={limit['soft']}:{limit['hard']}" for limit in limits]
        )
        return request.new_result(
            self.type, metadata=metadata, adjust={"rlimits": limits}, pod_asked=True
        )


def _limits(value: list[dict[str, Any]], where: str) -> Any:
    """Return ``rlimits`` of an annotation's document; as for NRI's plugin, a missing limit is 0.

    :raises Refusal: a limit is given twice, or its soft value exceeds the hard one.
    """
    limits: dict[str, dict[str, Any]] = {}
    for index, limit in enumerate(value):
        name = _PREFIX + _name(limit["type"])
        hard = limit.get("hard", 0)
        soft = limit.get("soft", 0)
        if name in limits:
            raise Refusal(
                f"{where}[{index}].type: found {shorten(repr(limit['type']))} again, expected it once"
            )
        if soft > hard:
            raise Refusal(
                f"{where}[{index}].soft: found {soft}, expected at most the hard limit, {hard}"
            )
        limits[name] = {"type": name, "hard": hard, "soft": soft}
    return list(limits.values())


def main() -> None:
    """Run the plugin as this process."""
    skel.main(UlimitAdjuster())
