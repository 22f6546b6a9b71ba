"""Runs the chain: the plugins of a host configuration, one after the other, for one step of a container's life.

    from nri import client, config

    results = client.Client(config.load()).invoke(client.Task("redis", 1234, spec), "create")

What belongs here is what every caller of plugins needs, whichever runtime it serves: finding a binary, starting
it, keeping its deadline, reading its answer. What does not: reading files of configuration (:mod:`nri.config`),
and anything of one runtime. ``nri hook`` runs on the path of every container's start and pays for what is imported
here, so ``subprocess``, ``logging`` and their like are not.
"""

from nri.client.chain import Client, Exchange, Sandbox, Task
from nri.client.errors import ChainError, PluginError
from nri.client.lookup import DEFAULT_BIN_DIRS, find
from nri.client.oci import read_config, spec_from_oci

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.prefork.pool.pool import Pool

__all__ = [
    "DEFAULT_BIN_DIRS",
    "ChainError",
    "Client",
    "Exchange",
    "PluginError",
    "Pool",
    "Sandbox",
    "Task",
    "find",
    "read_config",
    "spec_from_oci",
]


def __getattr__(name: str) -> object:
    # Late: it needs socket and threads, which a hook does not.
    if name == "Pool":
        from nri.prefork.pool.pool import Pool

        return Pool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
