"""Check a plugin conf against the JSON Schema that the plugin itself declares (``TYPE schema``).

The schema comes from an executable and may be anything: a fault in it is one message, never an exception, and no
reference in it is fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.config.faults import ConfigError, Fault, path_text
from nri.config.loading import read

if TYPE_CHECKING:
    from nri.config import PluginEntry
    from nri.config.findings import Finding, Path
    from nri.config.source_positions import SourcePositions


def validate_conf(schema: Any, conf: Any) -> list[str]:
    """Return the faults of a plugin conf, each as ``path: message``; the path begins with ``conf``.

    A missing conf (None) is valid if the schema accepts null or an empty object.
    """
    return [f"{path_text(('conf', *finding.path))}: {finding.message}" for finding in _findings(schema, conf)]


def check_conf(plugin: PluginEntry, schema: Any) -> tuple[Fault, ...]:
    """Return the faults of an entry's plugin conf, with their positions in the file of the entry."""
    findings = _findings(schema, plugin.conf)
    positions = _positions(plugin.source) if findings else None
    faults = [_fault(plugin, positions, ("conf", *each.path), each.message, each.at_key) for each in findings]
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column)))


def fault_at(plugin: PluginEntry, key: str, message: str) -> Fault:
    """Return a fault of an entry, with the position of *key* in the file of the entry."""
    return _fault(plugin, _positions(plugin.source), (key,), message)


def _fault(
    plugin: PluginEntry, positions: SourcePositions | None, path: Path, message: str, at_key: bool = False
) -> Fault:
    path = ("plugins", plugin.source_index, *path)
    line, column = 1, 1
    if positions is not None:
        line, column = positions.key(path) if at_key else positions.value(path)
    return Fault(file=plugin.source or "(no file)", line=line, column=column, path=path_text(path), message=message)


def _findings(schema: Any, conf: Any) -> list[Finding]:
    from jsonschema import Draft202012Validator, SchemaError
    from referencing.exceptions import Unresolvable

    from nri.config import json_schemas
    from nri.config.findings import Finding, explain

    try:
        Draft202012Validator.check_schema(schema)
        validator = json_schemas.offline(schema)
        if conf is None and validator.is_valid(None):
            return []
        return explain(validator.iter_errors({} if conf is None else conf))
    except SchemaError as error:
        where = path_text(tuple(error.absolute_path))
        reason = f"it is no JSON Schema: {where}: {explain([error])[0].message}"
    except Unresolvable as error:
        reason = (
            f"it refers to {error.ref or 'something'!r}, which is not in it; references elsewhere are not followed"
        )
    except RecursionError:
        reason = "schema or conf are nested too deep, or the schema refers to itself without end"
    except Exception as error:  # a foreign schema can make a validator raise anything
        reason = f"it cannot be applied: {type(error).__name__}: {error}"
    return [Finding((), f"cannot be checked against the plugin's schema: {reason}")]


def _positions(file: str) -> SourcePositions | None:
    """Return the positions in the file as it is now; None if it can no longer be read."""
    from nri.config.source_positions import SourcePositions
    from nri.types import gojson

    try:
        text = str(read(file), "utf-8")
        gojson.loads(text)
    except (OSError, ConfigError, ValueError):
        return None
    return SourcePositions(text)
