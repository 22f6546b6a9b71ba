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


def install(site: Site, *names: str) -> None:
    """Install plugins that note their names."""
    for name in names:
        site.host.script(name, f"#!/bin/sh\ncat >/dev/null\necho {name} >> {site.host.root}/names\necho '{{}}'\n")


def put(site: Site, *names: str) -> None:
    """Configure these plugins in one step."""
    entries: list[dict[str, Any]] = [{"type": name} for name in names]
    part = site.host.root / "part"
    part.write_text(json.dumps({"version": "0.1", "plugins": entries}))
    part.rename(site.host.conf / "10-test.conf")


def noted(site: Site) -> list[str]:
    """Start a container; return the names of the plugins that have run for it."""
    notes = site.host.root / "names"
    notes.write_text("")
    assert site.start() == ""
    return notes.read_text().split()


def seen_during(edit: Callable[[], None], site: Site) -> list[list[str]]:
    """Start containers during edits; return the notes of each."""
    seen = []
    with ThreadPoolExecutor(1) as pool:
        edits = pool.submit(edit)
        while not edits.done():
            seen.append(noted(site))
    edits.result()
    assert seen
    return seen


def test_each_event_sees_one_whole_version_of_200(site: Site) -> None:
    """Each version has as many plugins as its number says, all of that number."""
    names = [[f"v{number}-{each}" for each in range(number)] for number in range(1, 5)]
    install(site, *[name for each in names for name in each])
    put(site, *names[0])

    def edit() -> None:
        for number in range(200):
            put(site, *names[number % 4])

    assert [each for each in seen_during(edit, site) if each not in names] == []
    assert noted(site) == names[199 % 4]
    assert site.keeps_the_bridge()


def test_rewritten_file_leaves_no_pod_without_plugins(host: Host, site: Site) -> None:
    """An editor moves the old file away, and then writes the new one line by line."""
    install(site, "a", "b")
    put(site, "a")
    assert noted(site) == ["a"]
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

    assert [each for each in seen_during(edit, site) if set(each) != {"a"}] == []
