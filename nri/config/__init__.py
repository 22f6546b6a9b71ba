"""The host configuration: from the files that an operator writes to one list of plugins.

A hook loads the configuration each time a container starts. So a valid one is read with ``os`` and ``nri.types``
only (``loading``, ``entries``, ``when``); the other modules import what an explanation needs: ``re``, ``json``,
``jsonschema``.
"""

from nri.config.entries import ConfigList, PluginEntry
from nri.config.faults import ConfigError, Fault
from nri.config.loading import list_files, load
from nri.places import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE

__all__ = [
    "DEFAULT_CONF_DIR",
    "DEFAULT_CONF_FILE",
    "ConfigError",
    "ConfigList",
    "Fault",
    "PluginEntry",
    "list_files",
    "load",
]
