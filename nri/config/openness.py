"""Notes on entries of the host configuration that let every pod of the node decide something.

A plugin that acts on the annotations of pods declares in its schema an object ``allow``, with a key for each thing
that a pod can say. A key that an entry leaves out, or that is null or true, is open to every pod. An entry for a
plugin whose schema has no ``allow`` gets no note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nri.config import PluginEntry


def open_to_every_pod(schema: Any, conf: Any) -> tuple[str, ...]:
    """Return the keys of ``allow`` that the schema declares and *conf* leaves open, in the schema's order.

    :param schema: the plugin's; it may be any value, and declares no key if it has another form.
    """
    allow = _object(_object(conf).get("allow"))
    declared = _object(_object(_object(_object(schema).get("properties")).get("allow")).get("properties"))
    return tuple([key for key in declared if allow.get(key) in (None, True)])


def openness_note(plugin: PluginEntry, schema: Any) -> str:
    """Return one line about the keys that an entry leaves open to every pod; "" if there are none."""
    found = open_to_every_pod(schema, plugin.conf)
    if not found:
        return ""
    where = f"{plugin.source or '(no file)'}: plugins[{plugin.source_index}].conf.allow"
    return f"{where}: any pod may set its own {' and '.join(found)}; list the namespaces that may"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
