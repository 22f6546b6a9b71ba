"""A plugin conf that is checked against a schema, without a file."""

from __future__ import annotations

from typing import Any

from nri.config import PluginEntry
from nri.config.plugin_conf import check_conf


def validate_conf(schema: Any, conf: Any) -> list[str]:
    """Return the faults of a plugin conf, each as ``path: message``; the path begins with ``conf``."""
    faults = check_conf(PluginEntry(type="a", conf=conf), schema)
    return [f"{fault.path.removeprefix('plugins[0].')}: {fault.message}" for fault in faults]
