"""The bridge's clients: made for a configuration and options, not for an event; and what the residents are told."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nri.client import Invoker
from nri.client.resident import Residents
from nri.config.entries import ConfigList, PluginEntry
from nri.node.record import Facts
from nri.v1bridge import chains as module
from nri.v1bridge.chains import Chains
from nri.v1bridge.counts import Counts
from nri.v1bridge.memory import DONE, Row
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.requests import Subject
from nri.v1bridge.runs import EventLog
from nri.v2 import api


class Noted(Residents):
    """Residents that note what they are asked for."""

    def __init__(self, made: list[Noted], bin_dirs: Sequence[str], *, check_owner: bool) -> None:
        super().__init__(bin_dirs, check_owner=check_owner)
        made.append(self)
        # types, each with whether it may be a resident.
        self.kept: list[list[tuple[str, bool]]] = []
        self.is_closed = False

    def keep(self, plugins: Iterable[PluginEntry], *, residents: bool = True) -> None:
        self.kept.append(
            [(entry.type, residents and entry.resident is not False) for entry in plugins]
        )

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def residents(monkeypatch: pytest.MonkeyPatch) -> list[Noted]:
    made: list[Noted] = []
    monkeypatch.setattr(module, "Residents", functools.partial(Noted, made))
    return made


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    conf = tmp_path / "resource.d"
    conf.mkdir()
    return conf


def configure(conf: Path, *plugins: PluginEntry) -> None:
    (conf / "10.conf").write_bytes(ConfigList(plugins=plugins).to_json())


def options(conf: Path, **changes: Any) -> BridgeOptions:
    return BridgeOptions(conf_dir=str(conf), conf_file=f"{conf}/none", **changes)


def served(options: BridgeOptions) -> Chains:
    return Chains(options, Counts(), None, None, lambda within: True, EventLog())


def test_residents_get_each_configuration_once(conf: Path, residents: list[Noted]) -> None:
    chains = served(options(conf))
    for _ in range(3):
        chains.client()
    configure(conf, PluginEntry(type="a", resident=False), PluginEntry(type="b"))
    for _ in range(3):
        chains.client()
        chains.client(Subject(api.PodSandbox(id="6efd")), "create")
    assert [each.kept for each in residents] == [[[], [("a", False), ("b", True)]]]


def test_residents_come_and_go_with_the_options(conf: Path, residents: list[Noted]) -> None:
    configure(conf, PluginEntry(type="a"))
    chains = served(options(conf, resident=False))
    chains.client()
    assert [each.kept for each in residents] == [[[("a", False)]]]
    chains.use(options(conf))
    assert chains.residents is chains.client().invoker
    assert residents[0].kept[1:] == [[("a", True)]]
    assert type(chains.client(state="late").invoker) is Invoker  # the residents are free for events
    chains.use(options(conf, bin_dirs=("/other",)))
    assert chains.residents is chains.client().invoker
    assert [each.is_closed for each in residents] == [True, False]
    assert residents[1].bin_dirs == ("/other",)


def test_what_is_known_from_the_record_alone_gets_no_update(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launched bridge with NRI up to 0.6 is never told of what exists."""
    monkeypatch.setattr(module, "WRITTEN_AFTER", 0.0)
    chains = served(options(conf))
    chains.memory.load(str(tmp_path / "record"))
    row = Row("1f92", Facts("default/web/app"))
    row.state = DONE
    row.facts.is_rewritten = True  # the bridge before has ended before the update
    chains.memory.rows["1f92"] = row
    chains.rewrites({"1f92": {"resources": {"cpu": {"shares": 1024}}}})
    chains.late.judge()
    assert row.state == DONE
