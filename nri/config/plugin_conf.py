"""Check a plugin conf against the JSON Schema that the plugin itself declares (``TYPE schema``).

The schema comes from an executable and may be anything: a fault in it is one message, never an exception, and no
reference in it is fetched.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from nri.config.faults import DOCUMENT, MAX_FAULTS, ConfigError, Fault
from nri.config.loading import read
from nri.types import gojson
from nri.types.table_explained import nearest, path_text
from nri.types.v1 import STATES, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nri.config import PluginEntry

    Path = tuple[str | int, ...]
    Finding = tuple[Path, str, bool]
    """A path in a value, what is wrong there, and whether the key is wrong, not its value."""

UNCHECKED = "cannot be checked against the plugin's schema"
"""The beginning of the message about an invalid schema, whatever the conf."""


def check_conf(plugin: PluginEntry, schema: Any) -> tuple[Fault, ...]:
    """Return the faults of an entry's plugin conf, with their positions in the file of the entry.

    A missing conf (None) is valid if the schema accepts null or an empty object.
    """
    return faults_in_conf(plugin, _findings(schema, plugin.conf))


def faults_in_conf(
    plugin: PluginEntry, found: Iterable[tuple[Sequence[str | int], str, bool]]
) -> tuple[Fault, ...]:
    """Return faults that the plugin itself finds in an entry's conf, with their positions in the file of the entry.

    :param found: the path in the conf, the message, and whether the key is wrong, of each.
    """
    faults = _faults(plugin, "conf", list(found))
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column)))


def fault_at(plugin: PluginEntry, key: str, message: str) -> Fault:
    """Return a fault of an entry, with the position of *key* in the file of the entry."""
    return _faults(plugin, key, [((), message, False)])[0]


def open_to_every_pod(schema: Any, conf: Any) -> tuple[str, ...]:
    """Return the things that a pod can say about itself and that an entry leaves open to every pod.

    A plugin that acts on the annotations of pods declares in its schema an object ``allow``, with a key for each
    property that a pod can set. A key that is true in *conf* is open to every pod. A key that *conf* leaves out, or
    that is null there, has the ``default`` that the schema declares; without one it is open, too.

    :param schema: the plugin's; it may be any value, and declares no key if it has another form.
    """
    allow = _object(_object(conf).get("allow"))
    declared = _object(
        _object(_object(_object(schema).get("properties")).get("allow")).get("properties")
    )
    open_keys = []
    for key in declared:
        value = allow.get(key)
        if value is None:
            value = _object(declared[key]).get("default")
        if value in (None, True):
            open_keys.append(key)
    return tuple(open_keys)


def unlisted_states(plugin: PluginEntry, states: object, *, create_suffices: bool = False) -> str:
    """Return one line about the states that a plugin acts on and its entry does not list; "" if there are none.

    :param states: those that it acts on, as it says; one that names all is for any entry.
    :param create_suffices: its ``create`` makes up for a missed ``setup``.
    """
    if not isinstance(states, list) or {*STATES} <= {*map(str, states)}:
        return ""
    missed = []
    for state in map(str, states):
        is_made_up_for = create_suffices and state == State.SETUP
        if not plugin.wants(state) and not is_made_up_for:
            missed.append(state)
    if not missed:
        return ""
    return (
        f'{plugin.type} acts on {" and ".join(missed)}, which its entry\'s "states" do not list: '
        "it is not asked"
    )


def openness_note(plugin: PluginEntry, schema: Any) -> str:
    """Return one line about the keys that an entry leaves open to every pod; "" without such keys."""
    keys = open_to_every_pod(schema, plugin.conf)
    if not keys:
        return ""
    where = f"{plugin.place}.conf.allow"
    return f"{where}: any pod may set its own {' and '.join(keys)}; list the namespaces that may"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _findings(schema: Any, conf: Any) -> list[Finding]:
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema, registry=Registry())  # which fetches nothing
        if validator.is_valid(conf):
            return []
        value = {} if conf is None else conf
        return _explained(validator.iter_errors(value))
    except SchemaError as error:
        where = path_text(error.absolute_path) or DOCUMENT
        reason = f"it is no JSON Schema: {where}: {_explained([error])[0][1]}"
    except Unresolvable as error:
        reference = repr(error.ref or "something")
        reason = (
            f"it refers to {reference}, which is not in it; references elsewhere are not followed"
        )
    except RecursionError:
        reason = "schema or conf are nested too deep, or the schema refers to itself without end"
    except Exception as error:  # a foreign schema can make a validator raise anything
        reason = f"it cannot be applied: {type(error).__name__}: {error}"
    return [((), f"{UNCHECKED}: {reason}", False)]


def _explained(errors: Iterable[Any]) -> list[Finding]:
    """Return findings for a validator's errors, at most ``nri.config.faults.MAX_FAULTS``."""
    findings = itertools.chain.from_iterable(map(_of_error, errors))
    return list(dict.fromkeys(itertools.islice(findings, MAX_FAULTS)))


def _of_error(error: Any) -> Iterator[Finding]:
    """Yield the findings of one error of jsonschema, in the form of our own: its text would quote the whole value."""
    path = tuple(error.absolute_path)
    wanted = error.validator_value
    types = _only_types(error.context)
    alternative = _meant(error) if error.context else []
    if error.validator == "additionalProperties" and wanted is False:
        for key in _unknown(error):
            yield (*path, key), f"unknown key{_hint(key, error.schema)}", True
    elif error.validator == "required":
        missing = [key for key in wanted if key not in error.instance]
        yield path, f"missing {', '.join(map(str, missing))}", False
    elif error.validator in ("type", "enum", "pattern") or types:
        right = _right(error, types)
        yield path, f"found {gojson.describe(error.instance)}, expected {right}", False
    elif alternative:
        for branch in alternative:
            yield from _of_error(branch)
    else:
        right = f"{error.validator} {_json(wanted)}{_title(error)}"
        yield path, f"found {gojson.describe(error.instance)}, expected {right}", False


def _meant(error: Any) -> list[Any]:
    """Return the errors of the alternative that was meant; [] if there is none, or it cannot be told."""
    from jsonschema.exceptions import best_match

    best: Any = best_match([error])
    if best is error:
        return []
    while best.parent is not error:
        best = best.parent
    meant = best.relative_schema_path[0]
    return [branch for branch in error.context if branch.relative_schema_path[0] == meant]


def _unknown(error: Any) -> list[str]:
    """Return the keys of an object that its schema does not have."""
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    others = []
    for key in error.instance:
        is_allowed = key in known or any(re.search(regex, key) for regex in patterns)
        if not is_allowed:
            others.append(key)
    return others


def _hint(key: str, schema: Any) -> str:
    """Return which key is right in place of an unknown one, as the end of a message."""
    keys = list(schema.get("properties", {}))
    near = nearest(key, keys)
    if near:
        return f", did you mean {near}?"
    if keys:
        return f", expected one of {', '.join(keys)}"
    if schema.get("patternProperties"):
        return ""
    return ", expected none"


def _title(error: Any) -> str:
    """Return the title of what an error's value stands for, in brackets; "" for none."""
    schema = error.schema
    if isinstance(schema, dict) and "title" in schema:
        return f" ({schema['title']})"
    return ""


def _right(error: Any, types: list[Any]) -> str:
    """Return what would be right for a value of another type, or not among those that are.

    :param types: those of the alternatives, if a value has some.
    """
    wanted = error.validator_value
    title = _title(error)
    if error.validator == "enum":
        return f"one of {_json(wanted)}"
    if error.validator == "pattern":
        return title[2:-1] or f"a match of {_json(wanted)}"
    if error.validator == "type":
        types = wanted
    return _types(types) + title


def _only_types(errors: list[Any]) -> list[Any]:
    """Return the types that the alternatives of a value expect, if none has another rule for it."""
    types = []
    for error in errors:
        if error.validator != "type" or error.relative_path:
            return []
        types.append(error.validator_value)
    return types


_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
"""The types of JSON Schema in words."""


def _types(wanted: Any) -> str:
    if isinstance(wanted, list):
        names = dict.fromkeys(map(_types, wanted))
        names.pop("null", None)
        return " or ".join(names) or "null"
    return _TYPES.get(wanted, f"a {wanted}")


def _json(value: Any) -> str:
    return gojson.shorten(gojson.dumps(value).decode())


def _faults(
    plugin: PluginEntry, key: str, findings: list[tuple[Sequence[str | int], str, bool]]
) -> list[Fault]:
    """Return the faults in a key of an entry, with their positions in its file as it is now, or without if it cannot
    be read.

    :param findings: the path below the key, the message, and whether the key is wrong, of each.
    """
    if not findings:
        return []
    from nri.config.diagnostics import SourcePositions

    try:
        text = str(read(plugin.source), "utf-8")
        gojson.loads(text)
    except (OSError, ConfigError, ValueError):
        text = ""
    positions = SourcePositions(text)
    file = plugin.source or "(no file)"
    above = ("plugins", plugin.source_index, key)
    faults: list[Fault] = []
    for path, message, at_key in findings:
        faults.append(positions.fault(file, (*above, *path), message, at_key))
    return faults
