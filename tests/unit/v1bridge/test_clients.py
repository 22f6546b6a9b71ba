"""The bridge's clients: made for a configuration and options, not for an event; and what the pool is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.client import PoolInvoker
from nri.config.entries import ConfigList, PluginEntry
from nri.v1bridge import clients as module
from nri.v1bridge import configuration
from nri.v1bridge.clients import Clients
from nri.v1bridge.options import BridgeOptions

if TYPE_CHECKING:
    from pathlib import Path


class FakePool:
    """Notes what it is asked for."""

    made: list[FakePool]

    def __init__(self) -> None:
        self.kept: list[list[tuple[str, str]]] = []
        self.is_closed = False
        self.made.append(self)

    def keep(self, plugins: list[tuple[str, str]]) -> None:
        self.kept.append(plugins)

    def close(self) -> None:
        self.is_closed = True

    def launch(self, *_arguments: object, **_options: object) -> None:
        raise AssertionError("no request is made here")


@pytest.fixture(autouse=True)
def pools(monkeypatch: pytest.MonkeyPatch) -> list[FakePool]:
    FakePool.made = []
    monkeypatch.setattr(module, "Pool", FakePool)
    return FakePool.made


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(configuration, "RECENT_NS", 0)  # else files that have just changed are read again
    conf = tmp_path / "resource.d"
    conf.mkdir()
    return conf


def configure(conf: Path, *plugins: PluginEntry) -> None:
    (conf / "10.conf").write_bytes(ConfigList(plugins=plugins).to_json())


def options(conf: Path, **changes: Any) -> BridgeOptions:
    return BridgeOptions(conf_dir=str(conf), conf_file=f"{conf}/none", **changes)


def types(clients: Clients) -> list[str]:
    return [plugin.type for plugin in clients.current().config.plugins]


def test_a_client_serves_all_events_until_the_configuration_or_the_options_change(conf: Path) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf))
    first = clients.current()
    assert clients.current() is first
    configure(conf, PluginEntry(type="another"))
    second = clients.current()
    assert second is not first
    assert types(clients) == ["another"]
    assert clients.current() is second
    assert clients.current(without_containerds=True) is clients.current(without_containerds=True)
    (conf / "10.conf").write_text("{")  # the last valid configuration outlives the options
    clients.use(options(conf, failure_policy="ignore", plugin_timeout=3.0))
    third = clients.current()
    assert (second.failure_policy, third.failure_policy, third.timeout) == ("fail", "ignore", 3.0)
    assert third.config is second.config
    assert clients.current() is third


def test_options_with_another_path_have_the_configuration_read_from_there(conf: Path, tmp_path: Path) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf))
    assert types(clients) == ["a"]
    other = tmp_path / "other"
    other.mkdir()
    configure(other, PluginEntry(type="b"))
    clients.use(options(other))
    assert types(clients) == ["b"]


def test_the_pool_is_told_of_each_configuration_once(conf: Path, pools: list[FakePool]) -> None:
    clients = Clients(options(conf))
    for _ in range(3):
        clients.current()
    configure(conf, PluginEntry(type="a", prefork="always"), PluginEntry(type="b"))
    for _ in range(3):
        clients.current()
        clients.current(without_containerds=True)
    assert [pool.kept for pool in pools] == [[[], [("a", "always"), ("b", "")]]]


def test_a_pool_comes_and_goes_with_the_option(conf: Path, pools: list[FakePool]) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf, prefork=False))
    assert (pools, isinstance(clients.current().invoker, PoolInvoker)) == ([], False)
    clients.use(options(conf, prefork=True))
    assert isinstance(clients.current().invoker, PoolInvoker)
    (pool,) = pools
    assert pool.kept == [[("a", "")]]
    clients.use(options(conf, prefork=False))
    assert pool.is_closed
    assert clients.pool is None
    assert not isinstance(clients.current().invoker, PoolInvoker)
