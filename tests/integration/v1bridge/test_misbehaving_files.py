"""Configuration that is broken, half-written, huge or never at rest, while a runtime goes on sending events."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.v1bridge.bridge_process import START, BridgeProcess, start_container
from tests.integration.v1bridge.site import Site
from tests.support.host import Host
from tests.support.waiting import SOON, until, wait_until


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


@pytest.mark.parametrize(
    "text", ["", '{"version": "0.1", "plugins": [{"type": "b"}', '{"version": "9", "plugins": []}', "\xff"]
)
def test_broken_file_keeps_plugins(
    host: Host, site: Site, noted: Noted, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert (site.start(), noted.new()) == ("", ["a"])
    (host.conf / "20-new.conf").write_bytes(text.encode("latin-1"))
    for _ in range(3):
        assert (site.start(), noted.new()) == ("", ["a"])

    def lines() -> list[str]:
        return [
            each.getMessage() for each in caplog.records if each.getMessage().startswith("invalid configuration;")
        ]

    assert wait_until(lambda: bool(lines()), SOON)
    said = lines()
    assert len(said) == len(set(said))
    assert all("20-new.conf" in line for line in said)
    noted.put("b", file="20-new.conf")
    assert (site.start(), noted.new()) == ("", ["a", "b"])


def test_unreadable_file_keeps_plugins(
    host: Host, site: Site, noted: Noted, caplog: pytest.LogCaptureFixture
) -> None:
    """Root may read everything but this."""
    assert (site.start(), noted.new()) == ("", ["a"])
    path = host.conf / "10-test.conf"
    path.unlink()
    path.symlink_to("/proc/1/mem")
    assert (site.start(), noted.new()) == ("", ["a"])
    assert wait_until(lambda: "invalid configuration; still using the last valid one (a): " in caplog.text, SOON)


def test_two_hundred_files_are_one_configuration(site: Site, noted: Noted) -> None:
    for number in range(200):
        noted.put(*(["b"] if number in (0, 100) else []), file=f"{number + 20:05d}.conf")
    assert (site.start(), noted.new()) == ("", ["b", "b", "a"])
    noted.put("b", file="10-test.conf")
    assert (site.start(), noted.new()) == ("", ["b", "b", "b"])


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


WHOLE_SECONDS = """
import os

def coarse(call):
    def status(*arguments, **options):
        status = call(*arguments, **options)
        stamps = {name: getattr(status, name) for name in ("st_atime", "st_mtime", "st_ctime")}
        whole = {f"{name}_ns": int(stamp) * 10**9 for name, stamp in stamps.items()}
        return os.stat_result((*status[:7], *map(int, stamps.values())), whole)
    return status

os.stat, os.fstat, os.lstat = map(coarse, (os.stat, os.fstat, os.lstat))
"""
"""Every file system has time stamps of whole seconds."""


def test_edit_within_a_second_counts(bridge: BridgeProcess) -> None:
    host = bridge.host
    for type_ in ("a", "b"):
        host.script(type_, f"#!/bin/sh\ncat >/dev/null\necho {type_} >>{host.root}/ran\necho '{{}}'\n")
    (host.root / "settings.json").write_text(bridge.settings())
    bridge.listen()
    words = ("--socket", "nri.sock", "--config", "settings.json")
    bridge.start(sys.executable, "-c", WHOLE_SECONDS + START, *words)
    runtime = bridge.accept()
    runtime.start()

    def second_of_an_edit(type_: str) -> int:
        """Configure this plugin, and start a container; return the second of the edit."""
        host.configure_text(json.dumps({"version": "0.1", "plugins": [{"type": type_}]}))
        (host.root / "ran").unlink(missing_ok=True)
        second = int((host.conf / "10-test.conf").stat().st_ctime)
        start_container(runtime)
        return second

    def edit_twice_within_a_second() -> bool:
        until(lambda: 0.2 < time.time() % 1 < 0.5)
        return second_of_an_edit("a") == second_of_an_edit("b")

    until(edit_twice_within_a_second, seconds=SOON)
    assert (host.root / "ran").read_text().split() == ["b"]
