"""The client: runs the plugins of a host configuration for one state of a container.

    from nri import client, config

    spec = client.spec_from_oci(client.read_config("config.json"))
    request = Request(state="create", id="redis", pid=1234, spec=spec)
    steps = client.Client(config.load()).invoke(request, "create")

This package has the steps that every host needs: find an executable, run it, keep its deadline, read its result. It
has neither configuration files (``nri.config``) nor anything specific to one runtime. ``nri hook`` runs at every
container's start and waits for every import here, so this package imports neither ``subprocess`` nor ``logging``.
"""

from nri.client.chain import ChainError, Client, Step, results_of
from nri.client.invoker import Invoker, PluginError
from nri.client.oci import read_config, spec_from_oci
from nri.places import DEFAULT_BIN_DIRS

__all__ = [
    "DEFAULT_BIN_DIRS",
    "ChainError",
    "Client",
    "Invoker",
    "PluginError",
    "Step",
    "read_config",
    "results_of",
    "spec_from_oci",
]
