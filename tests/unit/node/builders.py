"""Entries, facts and steps for tests of the node."""

from __future__ import annotations

from typing import Any

from nri.client.chain import Step
from nri.client.invoker import PluginError
from nri.config.entries import PluginEntry
from nri.node.compare import Wanted
from nri.node.record import DONE, Entry, Facts, Outcome
from nri.types.v1 import Result


def wanted(name: str, conf: int, **changes: Any) -> Wanted:
    return Wanted(PluginEntry(type=name, conf=conf), **changes)


def had(
    name: str, conf: int, *states: str, failed: str = "", binary: tuple[int, ...] = (1,)
) -> Entry:
    """What has had these states, by default its ``create``; *failed* is the outcome of a ``create``."""
    plugin = PluginEntry(type=name, conf=conf)
    entry = Entry(plugin.key, plugin.document)
    for state in states or ("create",):
        entry.states[state] = Outcome(DONE, binary=binary)
    if failed:
        entry.states["create"] = Outcome(failed, "no", binary)
    return entry


def facts(*entries: Entry, **changes: Any) -> Facts:
    about = Facts("default/web/app", "created:1")
    about.is_created = True
    about.entries = {entry.key: entry for entry in entries}
    for name, value in changes.items():
        setattr(about, name, value)
    return about


def step(
    name: str, error: str = "", conf: int = 1, *, refused: bool = False, ignored: bool = False
) -> Step:
    one = Step(PluginEntry(type=name, conf=conf), b"")
    if error:
        one.error = PluginError(name, error, refused=refused)
        one.is_ignored = ignored
        return one
    one.result = Result(plugin=name, metadata={"conf": str(conf)})
    one.stdout = one.result.to_json()
    return one


def shown(about: Facts) -> list[tuple[str, dict[str, str]]]:
    """The outcomes of each entry."""
    return [
        (entry.type, {state: one.outcome for state, one in entry.states.items()})
        for entry in about.entries.values()
    ]
