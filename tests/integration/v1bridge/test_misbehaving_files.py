"""Configuration that is broken, half-written, huge or never at rest, while a runtime goes on sending events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
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

    def put(self, *names: str, file: str = "10-test.conf") -> None:
        """In one step."""
        entries: list[dict[str, Any]] = [{"type": name} for name in names]
        part = self._host.root / "part"
        part.write_text(json.dumps({"version": "0.1", "plugins": entries}))
        part.rename(self._host.conf / file)

    def new(self) -> list[str]:
        """Since the last time."""
        noted = self._notes.read_text().split() if self._notes.exists() else []
        new, self._read = noted[self._read :], len(noted)
        return new


@pytest.fixture
def noted(site: Site) -> Noted:
    noted = Noted(site)
    noted.install("a", "b")
    noted.put("a")
    return noted


def test_broken_file_keeps_plugins(host: Host, site: Site, noted: Noted) -> None:
    assert (site.start(), noted.new()) == ("", ["a"])
    (host.conf / "20-new.conf").write_bytes(b"\xff")
    for _ in range(3):
        assert (site.start(), noted.new()) == ("", ["a"])
    noted.put("b", file="20-new.conf")
    assert (site.start(), noted.new()) == ("", ["a", "b"])


def test_each_event_sees_one_whole_version_of_200(site: Site, noted: Noted) -> None:
    """Each version has as many plugins as its number says, all of that number."""
    versions = 4
    names = [[f"v{number}-{each}" for each in range(number)] for number in range(1, versions + 1)]
    noted.install(*[name for each in names for name in each])
    noted.put(*names[0])
    done = threading.Event()

    def edit() -> None:
        try:
            for edit in range(200):
                noted.put(*names[edit % versions])
        finally:
            done.set()

    thread = threading.Thread(target=edit)
    thread.start()
    seen = []
    while not done.is_set():
        assert site.start() == ""
        seen.append(noted.new())
    thread.join()
    assert seen
    assert all(each in names for each in seen), [each for each in seen if each not in names]
    assert site.start() == ""
    assert noted.new() == names[199 % versions]
    assert site.keeps_the_bridge()


def test_rewritten_file_leaves_no_pod_without_plugins(host: Host, site: Site, noted: Noted) -> None:
    """An editor moves the old file away, and then writes the new one line by line."""
    assert (site.start(), noted.new()) == ("", ["a"])
    (host.root / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": [{"type": "b"}]}))
    done = threading.Event()
    path = host.conf / "10-test.conf"

    def edit() -> None:
        try:
            for number in range(60):
                path.rename(host.conf / "10-test.conf.bak")
                with open(path, "w", encoding="utf-8") as file:
                    for line in (
                        '{"version": "0.1",',
                        '"plugins": [',
                        '{"type": "a"}' + ', {"type": "a"}' * (number % 3),
                        "]}",
                    ):
                        file.write(line)
                        file.flush()
        finally:
            done.set()

    thread = threading.Thread(target=edit)
    thread.start()
    seen = []
    while not done.is_set():
        assert site.start() == ""
        seen.append(noted.new())
    thread.join()
    assert seen
    assert all(set(each) == {"a"} for each in seen), [each for each in seen if set(each) != {"a"}]
