"""The clients that run the bridge's chains: made when the configuration or the options change, not for each event."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.client import Client, DirectInvoker, PoolInvoker
from nri.config.entries import ConfigList
from nri.places import CONTAINERD_CONF_FILE
from nri.prefork.pool import in_background
from nri.prefork.pool.pool import Pool
from nri.v1bridge.configuration import Configuration

if TYPE_CHECKING:
    from nri.client import Invoker
    from nri.v1bridge.options import BridgeOptions

log = logging.getLogger("nri.v1bridge")


class _Made(NamedTuple):
    """The clients for one configuration and one set of options."""

    options: BridgeOptions
    complete: Client
    without_containerds: Client


class Clients:
    """The clients for the configuration and the options as they are now, and the pool that they use.

    All methods may be called from any thread.

    :param invoker: runs the plugins, in place of the one that the options ask for.
    """

    def __init__(self, options: BridgeOptions, invoker: Invoker | None = None) -> None:
        self._invoker = invoker
        self.configuration = Configuration(options.conf_dir, options.conf_file)
        self.pool = Pool() if options.prefork else None
        self.options = options
        self._made: _Made | None = None

    def use(self, options: BridgeOptions) -> None:
        """Replace the options."""
        known = self.options
        # With the same paths the last valid configuration stays: a runtime configures the bridge after each restart.
        if (options.conf_dir, options.conf_file) != (known.conf_dir, known.conf_file):
            self.configuration = Configuration(options.conf_dir, options.conf_file)
        if options.prefork and self.pool is None:
            self.pool = Pool()
        elif self.pool is not None and not options.prefork:
            self.pool.close()
            self.pool = None
        self.options = options  # last: current() then replaces clients that it makes meanwhile

    def current(self, *, without_containerds: bool = False) -> Client:
        """Return the client for the configuration that the files hold now.

        :param without_containerds: leave out the plugins that containerd 2.x runs itself for pod sandboxes.
        """
        started = time.monotonic()
        options, made = self.options, self._made
        configuration = self.configuration.current(check_owner=options.check_owner)
        is_same = made is not None and made.complete.config is configuration
        if log.isEnabledFor(logging.DEBUG):
            what = "unchanged" if is_same else "read"
            log.debug("configuration %s (%.1f ms)", what, (time.monotonic() - started) * 1000)
        if made is None or not is_same or made.options is not options:
            made = self._made = self._make(configuration, options)
        return made.without_containerds if without_containerds else made.complete

    def prepare(self, within: float) -> None:
        """Load the configuration and its plugins now, so that the first pod does not wait.

        :param within: seconds; plugins that take longer are loaded in the background.
        """
        client, pool = self.current(), self.pool
        if pool is None or not isinstance(client.invoker, PoolInvoker):
            return
        done = threading.Event()
        if in_background(
            _load, pool, client.invoker, [plugin.type for plugin in client.config.plugins], within, done
        ):
            done.wait(within)

    def _make(self, configuration: ConfigList, options: BridgeOptions) -> _Made:
        """Make the clients for a new configuration or new options, and give the pool the plugins to keep.

        Only this function gives the pool a configuration.
        """
        pool = self.pool
        invoker = self._invoker or DirectInvoker(options.bin_dirs, check_owner=options.check_owner)
        if pool is not None and self._invoker is None:
            pool.keep([(plugin.type, plugin.prefork) for plugin in configuration.plugins])
            invoker = PoolInvoker(pool, options.bin_dirs, check_owner=options.check_owner)
        others = [plugin for plugin in configuration.plugins if plugin.source != CONTAINERD_CONF_FILE]
        complete, without_containerds = [
            Client(each, invoker, timeout=options.plugin_timeout, failure_policy=options.failure_policy)
            for each in (configuration, ConfigList(version=configuration.version, plugins=others))
        ]
        return _Made(options, complete, without_containerds)


def _load(pool: Pool, invoker: PoolInvoker, plugins: list[str], within: float, done: threading.Event) -> None:
    """Load plugins. A file system that does not respond blocks this thread alone."""
    try:
        invoker.prepare(plugins)
        pool.wait_until_loaded(within)
    finally:
        done.set()
