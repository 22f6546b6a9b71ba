"""The wishes of a pod in its annotations, for plugins that are closed to every pod unless their conf allows it.

A pod that is not allowed to ask counts as one that did not ask; the result's metadata has the reason. The document of
a pod that is allowed is read strictly: a mistake refuses the container, with its place, since it would otherwise run
without what it needs.
"""

from __future__ import annotations

from nri.plugins import shared
from nri.skel.plugin import Refusal
from nri.skel.scopes import SCOPES, container_name, suffixes, why_not_allowed
from nri.types import DecodeError, fields, gojson
from nri.types.demanding import demand
from nri.types.gojson import shorten
from nri.types.jsonobject import fold
from nri.types.table import ANYTHING, Key, Map, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.table import Rule
    from nri.types.v1 import Request

MAX_ANNOTATION = 64 * 1024
"""Characters of an annotation that is read; a longer one is refused."""

_UNKNOWN = Key("", ANYTHING)
"""Any key that a table does not have: the rule says so."""


def allow(*properties: str) -> Any:
    """Return the field ``allow``: a key for each thing that a pod can ask for, closed by default."""
    table = Table(*[Key(name, fields.NAMESPACES, default=False) for name in properties], nulls=True)
    return fields.value(
        table,
        f"pods that may ask for {', '.join(properties)}, for each: an array of namespaces, true (any), or false "
        "(none, the default)",
        default={},
        read=table.read,
    )


def asked(
    request: Request,
    allowed: dict[str, Any],
    property_: str,
    keys: tuple[str, ...],
    metadata: dict[str, str],
    scopes: tuple[str, ...] = SCOPES,
) -> tuple[str, str] | None:
    """Return the annotation with which the request's container asks for something, if its pod may.

    The most specific scope counts, and in one scope the first of *keys*. An empty value asks for nothing.

    :param allowed: ``allow`` of the plugin conf.
    :param property_: the key of it that decides.
    :param metadata: the result's; an annotation that does not count is added to its ``ignored``.
    :returns: the annotation's key, short enough for a message, and its value; None if nothing is asked for.
    """
    annotations = request.annotations
    for name in _names(request, keys, scopes):
        if name in annotations:
            break
    else:
        return None
    if not annotations[name].strip():
        return None
    if reason := why_not_allowed(request, allowed[property_], f"allow.{property_}"):
        shared.ignore(metadata, name, reason)
        return None
    return shorten(name, 120), annotations[name]


def _names(request: Request, keys: tuple[str, ...], scopes: tuple[str, ...]) -> list[str]:
    names: list[str] = []
    for suffix in suffixes(container_name(request), scopes):
        for key in keys:
            names.append(f"{key}{suffix}")
    return names


def read(rule: Rule, text: str, where: str) -> Any:
    """Return the document of an annotation, which is JSON or YAML, as *rule* wants it; None for an empty one.

    As in NRI's plugins, which decode with Go, the case of a table's keys does not matter, null is a missing key, and
    an integer in the place of a string is its digits.

    :param where: the annotation's key, which begins the place in errors.
    :raises Refusal: its first faults, each with its place.
    """
    try:
        value = _as_wanted(rule, _document(text, where), where)
        if value is not None:
            demand(rule, value, where)
        return value
    except DecodeError as error:
        raise Refusal(str(error)) from error


def _document(text: str, where: str) -> Any:
    if len(text) > MAX_ANNOTATION:
        raise DecodeError(
            f"{where}: found {len(text)} characters, expected at most {MAX_ANNOTATION}"
        )
    if text.lstrip()[:1] in ("{", "["):
        twice: list[str] = []
        try:
            value = gojson.loads(text, twice)
        except DecodeError:
            pass  # a list or mapping of YAML can begin in the same way
        else:
            if twice:
                raise DecodeError(f"{where}: {again(twice[0])}")
            return value
    from nri.plugins import plain_yaml  # which loads PyYAML, and takes longer than all the rest

    try:
        return plain_yaml.load(text)
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from error


def again(key: str) -> str:
    """Return the fault of a key that one object has twice."""
    return f"found the key {shorten(repr(key))} again, expected it once"


def _as_wanted(rule: Rule, value: Any, where: str) -> Any:
    if isinstance(rule, Table) and isinstance(value, dict):
        return _with_keys_of(rule, value, where)
    if isinstance(rule, Map) and isinstance(value, dict):
        return {key: _as_wanted(rule.item, item, where) for key, item in value.items()}
    if rule.kind is list and isinstance(value, list):
        wanted = []
        for index, item in enumerate(value):
            wanted.append(_as_wanted(rule.parts[0], item, f"{where}[{index}]"))
        return wanted
    if rule.kind is str and type(value) is int:
        return str(value)
    return value


def _with_keys_of(table: Table, value: dict[str, Any], where: str) -> dict[str, Any]:
    spelling = {fold(name): name for name in table.keys}
    members: dict[str, Any] = {}
    for key, item in value.items():
        name = spelling.get(fold(key), key)
        if name in members:
            raise DecodeError(f"{where}: {again(key)}")
        rule = table.keys.get(name, _UNKNOWN).rule
        members[name] = _as_wanted(rule, item, f"{where}.{name}")
    return {
        name: item for name, item in members.items() if item is not None or name not in table.keys
    }
