"""The clients that run the bridge's chains: made when the configuration or the options change, not for each event."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.client import Client, DirectInvoker
from nri.client.resident import Residents
from nri.config.entries import ConfigList
from nri.places import CONTAINERD_CONF_FILE
from nri.v1bridge.configuration import Configuration

if TYPE_CHECKING:
    from nri.client import Invoker
    from nri.v1bridge.options import BridgeOptions

log = logging.getLogger("nri.v1bridge")


class _Made(NamedTuple):
    """The clients for one configuration and one set of options."""

    configuration: ConfigList
    options: BridgeOptions
    clients: dict[tuple[bool, bool], Client]
    """By whether they leave out containerd's plugins, and whether they are for late creates."""


class Clients:
    """The clients for the configuration and the options as they are now, and the residents that they ask.

    All methods may be called from any thread.

    :param invoker: runs the plugins, in place of the one that the options ask for.
    """

    def __init__(self, options: BridgeOptions, invoker: Invoker | None = None) -> None:
        self._invoker = invoker
        self.configuration = Configuration(options.conf_dir, options.conf_file)
        self.residents = Residents(options.bin_dirs, check_owner=options.check_owner)
        self.late_residents = Residents(options.bin_dirs, check_owner=options.check_owner)
        """Of late creates, so that those of events are free."""
        self.options = options
        self._made: _Made | None = None

    def use(self, options: BridgeOptions) -> None:
        """Replace the options."""
        known = self.options
        # With the same paths the last valid configuration stays: a runtime configures the bridge after each restart.
        if (options.conf_dir, options.conf_file) != (known.conf_dir, known.conf_file):
            self.configuration = Configuration(options.conf_dir, options.conf_file)
        if (options.bin_dirs, options.check_owner) != (known.bin_dirs, known.check_owner):
            self.residents.close()
            self.late_residents.close()
            self.residents, self.late_residents = [
                Residents(options.bin_dirs, check_owner=options.check_owner) for _ in range(2)
            ]
        self.options = options  # last: current() then replaces clients that it makes meanwhile

    def current(self, *, without_containerds: bool = False, is_late: bool = False) -> Client:
        """Return the client for the configuration that the files hold now.

        :param without_containerds: leave out the plugins that containerd 2.x runs itself for pod sandboxes.
        :param is_late: for a late create.
        """
        started = time.monotonic()
        options, made = self.options, self._made
        configuration = self.configuration.current(check_owner=options.check_owner)
        is_same = made is not None and made.configuration is configuration
        if log.isEnabledFor(logging.DEBUG):
            what = "unchanged" if is_same else "read"
            log.debug("configuration %s (%.1f ms)", what, (time.monotonic() - started) * 1000)
        if made is None or not is_same or made.options is not options:
            made = self._made = self._make(configuration, options)
        return made.clients[without_containerds, is_late]

    def prepare(self, within: float) -> None:
        """Load the configuration and its plugins now, so that the first pod does not wait.

        :param within: seconds; plugins that take longer are loaded in the background.
        """
        self.current()
        self.residents.prepare(within)

    def _make(self, configuration: ConfigList, options: BridgeOptions) -> _Made:
        """Make the clients for a new configuration or new options, and the residents for its plugins."""
        invoker = self._invoker or DirectInvoker(options.bin_dirs, check_owner=options.check_owner)
        invokers = [invoker, invoker]
        if options.resident and self._invoker is None:
            invokers = [self.residents, self.late_residents]
            for residents in (self.residents, self.late_residents):
                residents.keep([(plugin.type, plugin.resident is not False) for plugin in configuration.plugins])
        else:
            self.close()
        others = [plugin for plugin in configuration.plugins if plugin.source != CONTAINERD_CONF_FILE]
        lists = configuration, ConfigList(version=configuration.version, plugins=others)
        clients = {
            (without_containerds, is_late): Client(
                lists[without_containerds],
                invokers[is_late],
                timeout=options.plugin_timeout,
                failure_policy=options.failure_policy,
            )
            for without_containerds in (False, True)
            for is_late in (False, True)
        }
        return _Made(configuration, options, clients)

    def tidy(self) -> None:
        """End and start residents."""
        self.residents.tidy()
        self.late_residents.tidy()

    def end_late(self) -> None:
        """End the residents of late creates: no late create is left."""
        self.late_residents.rest()

    def close(self) -> None:
        """End all residents."""
        self.residents.close()
        self.late_residents.close()
