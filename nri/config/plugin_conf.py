"""A plugin's ``conf``, held against the JSON Schema that the plugin itself declares (``TYPE schema``).

The schema comes from an executable and may be anything: whatever is wrong with it is one message, never an
exception, and no reference in it is ever fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.config.faults import ConfigError, Fault, path_text
from nri.config.loading import read

if TYPE_CHECKING:
    from nri.config.entries import PluginEntry
    from nri.config.findings import Finding
    from nri.config.source_positions import SourcePositions


def validate_conf(schema: Any, conf: Any) -> list[str]:
    """What is wrong with ``conf``: one ``path: message`` each, the path beginning with ``conf``.

    No ``conf`` (None) is as good as an empty object: a schema has to accept one of both.
    """
    return [f"{path_text(('conf', *finding.path))}: {finding.message}" for finding in _findings(schema, conf)]


def check_conf(plugin: PluginEntry, schema: Any) -> tuple[Fault, ...]:
    """The faults of a loaded plugin's ``conf``, with their places in the file that it comes from."""
    findings = _findings(schema, plugin.conf)
    places = _places(plugin.source) if findings else None
    faults = []
    for finding in findings:
        path = ("plugins", plugin.source_index, "conf", *finding.path)
        line, column = 1, 1
        if places is not None:
            line, column = places.key(path) if finding.at_key else places.value(path)
        faults.append(
            Fault(
                file=plugin.source or "(no file)",
                line=line,
                column=column,
                path=path_text(path),
                message=finding.message,
            )
        )
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column)))


def fault_at(plugin: PluginEntry, key: str, message: str) -> Fault:
    """A fault of a loaded plugin's entry, with the place of ``key`` in the file that it comes from."""
    path = ("plugins", plugin.source_index, key)
    places = _places(plugin.source)
    line, column = (1, 1) if places is None else places.value(path)
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
    except Exception as error:  # the schema is a stranger's, and what a validator makes of it has no list
        reason = f"it cannot be applied: {type(error).__name__}: {error}"
    return [Finding((), f"cannot be checked against the plugin's schema: {reason}")]


def _places(file: str) -> SourcePositions | None:
    """The places in ``file`` as it is now; None when it can no longer be read."""
    from nri.config.source_positions import SourcePositions
    from nri.types import gojson

    try:
        text = str(read(file), "utf-8")
        gojson.loads(text)
    except (OSError, ConfigError, ValueError):
        return None
    return SourcePositions(text)
