"""Configuration that is half-written or never at rest, while a runtime goes on sending events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.v1bridge.site import Site
from tests.support.host import Host


@pytest.fixture
def site(host: Host) -> Iterator[Site]:
    site = Site(host, "cold")
    yield site
    site.close()


class Noted:
    """Plugins that note their names, and what they have noted."""

    def __init__(self, site: Site) -> None:
        self._host = site.host
        self._notes = site.host.root / "names"
        self._read = 0

    def install(self, *names: str) -> None:
        for name in names:
            text = f"#!/bin/sh\ncat >/dev/null\necho {name} >> {self._notes}\necho '{{}}'\n"
            self._host.script(name, text)

    def put(self, *names: str) -> None:
        """In one step."""
        entries: list[dict[str, Any]] = [{"type": name} for name in names]
        part = self._host.root / "part"
        part.write_text(json.dumps({"version": "0.1", "plugins": entries}))
        part.rename(self._host.conf / "10-test.conf")

    def new(self) -> list[str]:
        """Since the last time."""
        noted = self._notes.read_text().split() if self._notes.exists() else []
        new, self._read = noted[self._read :], len(noted)
        return new


@pytest.fixture
def noted(site: Site) -> Noted:
    return Noted(site)


def seen_during(edit: Callable[[], None], site: Site, noted: Noted) -> list[list[str]]:
    """Start containers during edits; return the notes of each."""
    seen = []
    with ThreadPoolExecutor(1) as pool:
        edits = pool.submit(edit)
        while not edits.done():
            assert site.start() == ""
            seen.append(noted.new())
    edits.result()
    assert seen
    return seen


def test_each_event_sees_one_whole_version_of_200(site: Site, noted: Noted) -> None:
    """Each version has as many plugins as its number says, all of that number."""
    names = [[f"v{number}-{each}" for each in range(number)] for number in range(1, 5)]
    noted.install(*[name for each in names for name in each])
    noted.put(*names[0])

    def edit() -> None:
        for number in range(200):
            noted.put(*names[number % 4])

    assert [each for each in seen_during(edit, site, noted) if each not in names] == []
    assert site.start() == ""
    assert noted.new() == names[199 % 4]
    assert site.keeps_the_bridge()


def test_rewritten_file_leaves_no_pod_without_plugins(host: Host, site: Site, noted: Noted) -> None:
    """An editor moves the old file away, and then writes the new one line by line."""
    noted.install("a", "b")
    noted.put("a")
    assert (site.start(), noted.new()) == ("", ["a"])
    (host.root / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": [{"type": "b"}]}))
    path = host.conf / "10-test.conf"

    def edit() -> None:
        for number in range(60):
            path.rename(host.conf / "10-test.conf.bak")
            plugins = '{"type": "a"}' + ', {"type": "a"}' * (number % 3)
            with open(path, "w", encoding="utf-8") as file:
                for line in ('{"version": "0.1",', '"plugins": [', plugins, "]}"):
                    file.write(line)
                    file.flush()

    assert [each for each in seen_during(edit, site, noted) if set(each) != {"a"}] == []
