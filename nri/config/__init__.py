"""The host configuration: from the files that an operator writes to one list of plugins.

What belongs here is what reads ``/etc/nri/resource.d/*.conf`` and says what is wrong in them, by file, line and
column. What the plugins of the list then do is :mod:`nri.client`'s.

A hook loads the configuration each time a container starts. So a good one is read with nothing but ``os`` and
:mod:`nri.types` (``load``, ``quick``); ``re``, ``json`` and ``jsonschema`` are imported where there is a fault to
explain (``diagnose``, ``explain``, ``locate``), or a plugin's own schema to hold a ``conf`` against (``conf``).
"""

from nri.config.entries import ConfigList, PluginEntry
from nri.config.faults import ConfigError, Fault
from nri.config.loading import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, load, load_files

__all__ = [
    "DEFAULT_CONF_DIR",
    "DEFAULT_CONF_FILE",
    "ConfigError",
    "ConfigList",
    "Fault",
    "PluginEntry",
    "load",
    "load_files",
]
