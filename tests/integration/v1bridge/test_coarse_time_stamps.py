"""Edits on a file system whose time stamps are whole seconds."""

from __future__ import annotations

import json
import sys
import time

from tests.integration.v1bridge.bridge_process import START, BridgeProcess, start_container
from tests.support.waiting import SOON, until

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
