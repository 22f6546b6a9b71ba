"""The bridge's clients: made for a configuration and options, not for an event; and what the pool is told."""

from __future__ import annotations

import logging
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


def types(clients: Clients, **variant: bool) -> list[str]:
    return [plugin.type for plugin in clients.current(**variant).config.plugins]


def test_a_client_serves_all_events_until_the_configuration_changes(conf: Path) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf))
    first = clients.current()
    assert clients.current() is first
    configure(conf, PluginEntry(type="another"))
    second = clients.current()
    assert second is not first
    assert [plugin.type for plugin in second.config.plugins] == ["another"]
    assert clients.current() is second


def test_new_options_make_a_new_client_of_the_same_configuration(conf: Path) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf))
    first = clients.current()
    (conf / "10.conf").write_text("{")  # the last valid configuration outlives the options
    clients.use(options(conf, failure_policy="ignore", plugin_timeout=3.0))
    second = clients.current()
    assert (first.failure_policy, second.failure_policy, second.timeout) == ("fail", "ignore", 3.0)
    assert second.config is first.config
    assert clients.current() is second


def test_options_with_another_path_have_the_configuration_read_from_there(conf: Path, tmp_path: Path) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf))
    assert types(clients) == ["a"]
    other = tmp_path / "other"
    other.mkdir()
    configure(other, PluginEntry(type="b"))
    clients.use(options(other))
    assert types(clients) == ["b"]


def test_one_variant_leaves_out_the_plugins_of_containerds_file(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONTAINERD_CONF_FILE", f"{conf}/10.conf")
    configure(conf, PluginEntry(type="a"), PluginEntry(type="b"))
    (conf / "20.conf").write_bytes(ConfigList(plugins=[PluginEntry(type="c")]).to_json())
    clients = Clients(options(conf))
    assert types(clients) == ["a", "b", "c"]
    assert types(clients, without_containerds=True) == ["c"]
    assert clients.current(without_containerds=True) is clients.current(without_containerds=True)


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


def test_the_log_tells_at_level_debug_whether_the_configuration_was_read(
    conf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clients = Clients(options(conf))
    caplog.set_level(logging.DEBUG, "nri.v1bridge")
    clients.current()
    clients.current()
    said = [line.partition(" (")[0] for line in caplog.messages if line.startswith("configuration ")]
    assert said == ["configuration read", "configuration unchanged"]
