"""Variables and CDI devices of a container, made of its pod's annotations."""

from __future__ import annotations

from nri.errors import escape
from nri.plugins import annotated
from nri.skel import Refusal
from nri.types.gojson import describe, shorten
from nri.types.oci_values import CDI_DEVICE
from nri.types.table import ANYTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request


def variables(
    request: Request, allowed: dict[str, Any], table: dict[str, Any], metadata: dict[str, str]
) -> dict[str, str]:
    """Return environment variables.

    :param allowed: ``allow`` of the plugin conf.
    :param table: ``env`` of the plugin conf.
    :param metadata: the result's; the names are added to it.
    :raises Refusal: an annotation has not what ``items`` leads to.
    """
    env: dict[str, str] = {}
    for name, key, values in _made(request, allowed, "env", table, metadata):
        env[name] = ",".join(values)
        if "\0" in env[name]:
            raise Refusal(f"{key}: found a NUL, expected a value of the variable {name}")
    if env:
        metadata["env"] = shorten(escape(", ".join(env)), 300)
    return env


def devices(
    request: Request, allowed: dict[str, Any], table: dict[str, Any], metadata: dict[str, str]
) -> list[str]:
    """Return the names of CDI devices; as ``variables``, for ``cdiDevices`` of the plugin conf.

    :raises Refusal: an annotation has not what ``items`` leads to, or it is no device's name.
    """
    names: list[str] = []
    for kind, key, values in _made(request, allowed, "cdiDevices", table, metadata):
        for value in values:
            name = f"{kind}={value}"
            if not CDI_DEVICE.accepts(name):
                raise Refusal(
                    f"{key}: found {describe(value)}, expected the name of a CDI device of {kind}"
                )
            names.append(name)
    if names:
        metadata["cdiDevices"] = shorten(", ".join(names), 300)
    return names


def _made(
    request: Request,
    allowed: dict[str, Any],
    property_: str,
    table: dict[str, Any],
    metadata: dict[str, str],
) -> list[tuple[str, str, list[str]]]:
    """Return each name of a table whose annotation the pod has and may have: with its key, and its values."""
    made = []
    for name, source in table.items():
        keys = (source["annotation"],)
        annotation = annotated.asked(request, allowed, property_, keys, metadata)
        if annotation is None:
            continue
        key, text = annotation
        values = [text]
        if source.get("items"):
            value = annotated.read(ANYTHING, text, key)
            values = _walk(value, source["items"].split("."), key)
        made.append((name, key, values))
    return made


def _walk(value: object, keys: list[str], where: str) -> list[str]:
    """Return the texts and numbers at the end of some keys, ``KEY`` or ``KEY[]``, in a JSON value."""
    if not keys:
        return [_text_of(value, where)]
    key = keys[0].removesuffix("[]")
    if not isinstance(value, dict) or key not in value:
        raise Refusal(f"{where}: found {describe(value)}, expected an object with the key {key!r}")
    item = value[key]
    if not keys[0].endswith("[]"):
        return _walk(item, keys[1:], f"{where}.{key}")
    if not isinstance(item, list):
        raise Refusal(f"{where}.{key}: found {describe(item)}, expected an array")
    texts: list[str] = []
    for index, element in enumerate(item):
        texts += _walk(element, keys[1:], f"{where}[{index}]")
    return texts


def _text_of(value: object, where: str) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise Refusal(f"{where}: found {describe(value)}, expected a text or an integer")
