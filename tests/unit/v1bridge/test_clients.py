"""The bridge's clients: made for a configuration and options, not for an event; and what the residents are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.client import DirectInvoker
from nri.config.entries import ConfigList, PluginEntry
from nri.v1bridge import clients as module
from nri.v1bridge import configuration
from nri.v1bridge.clients import Clients
from nri.v1bridge.options import BridgeOptions

if TYPE_CHECKING:
    from pathlib import Path


class FakeResidents:
    """Notes what it is asked for."""

    made: list[FakeResidents]

    def __init__(self, bin_dirs: tuple[str, ...], *, check_owner: bool) -> None:
        self.bin_dirs, self.check_owner = bin_dirs, check_owner
        self.kept: list[list[tuple[str, bool]]] = []
        self.is_closed = False
        self.rests = 0
        self.made.append(self)

    def keep(self, plugins: list[tuple[str, bool]]) -> None:
        self.kept.append(plugins)

    def rest(self) -> None:
        self.rests += 1

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def residents(monkeypatch: pytest.MonkeyPatch) -> list[FakeResidents]:
    FakeResidents.made = []
    monkeypatch.setattr(module, "Residents", FakeResidents)
    return FakeResidents.made


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


def test_the_residents_are_told_of_each_configuration_once(conf: Path, residents: list[FakeResidents]) -> None:
    clients = Clients(options(conf))
    for _ in range(3):
        clients.current()
    configure(conf, PluginEntry(type="a", resident=False), PluginEntry(type="b"))
    for _ in range(3):
        clients.current()
        clients.current(without_containerds=True)
    assert [each.kept for each in residents] == [[[], [("a", False), ("b", True)]]] * 2


def test_residents_come_and_go_with_the_options(conf: Path, residents: list[FakeResidents]) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf, resident=False))
    assert isinstance(clients.current().invoker, DirectInvoker)
    assert [each.kept for each in residents] == [[], []]
    clients.use(options(conf))
    assert clients.residents is clients.current().invoker
    assert [each.kept for each in residents] == [[[("a", True)]]] * 2
    clients.use(options(conf, bin_dirs=("/other",)))
    assert clients.residents is clients.current().invoker
    assert [each.is_closed for each in residents] == [True, True, False, False]
    assert residents[2].bin_dirs == residents[3].bin_dirs == ("/other",)
    clients.use(options(conf, bin_dirs=("/other",), resident=False))
    assert isinstance(clients.current().invoker, DirectInvoker)
    assert residents[2].is_closed
    assert residents[3].is_closed


def test_late_creates_have_residents_of_their_own_that_end_with_the_batch(
    conf: Path, residents: list[FakeResidents]
) -> None:
    configure(conf, PluginEntry(type="a"))
    clients = Clients(options(conf))
    assert clients.current().invoker is clients.residents
    assert clients.current(is_late=True).invoker is clients.late_residents
    assert clients.current(is_late=True, without_containerds=True).invoker is clients.late_residents
    clients.end_late()
    assert [each.rests for each in residents] == [0, 1]
