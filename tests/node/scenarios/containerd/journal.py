"""The log in the machine's own journal, through a restart of journald, launched and as a unit."""

from __future__ import annotations

import json
import uuid

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.shell import run, wait_until


def entries(pod: str) -> list[tuple[str, str]]:
    """Priority and text of the lines about a pod."""
    run("journalctl", "--sync", status=None)
    said = run("journalctl", "--no-pager", "-o", "json", "-t", "nri-v1bridge", status=None)
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [(each["PRIORITY"], each["MESSAGE"]) for each in found if f"/{pod}" in each["MESSAGE"]]


def test_the_journal_of_a_bridge_as_a_unit_has_them_too(cri: Cri) -> None:
    with node.bridge_as_a_unit():
        _is_found(cri)


def test_after_a_restart_of_journald_it_goes_on(cri: Cri) -> None:
    _is_found(cri)
    run("systemctl", "restart", "systemd-journald")
    _is_found(cri)


def _is_found(cri: Cri) -> None:
    name = f"found-{uuid.uuid4().hex[:8]}"
    node.Pod(cri, name).remove()

    def creates() -> list[str]:
        return [text for _, text in entries(name) if text.startswith("info answered state=create ")]

    wait_until("all events are there", lambda: len(creates()) == 2)
    answered = f"info answered state=create container=default/{name}/app "
    ((priority, text),) = [each for each in entries(name) if each[1].startswith(answered)]
    assert priority == "6"
    assert 'plugins="clearcfs ok' in text
    assert "konfine ok" in text
    names = {"6": "info ", "7": "debug "}
    assert all(text.startswith(names[priority]) for priority, text in entries(name))
