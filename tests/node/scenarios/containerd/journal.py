"""The log in the machine's own journal: its fields, through a restart of journald, launched and as a unit."""

from __future__ import annotations

import json
import uuid
from typing import Any

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.shell import run, wait_until


def entries(*matches: str) -> list[dict[str, Any]]:
    run("journalctl", "--sync", status=None)
    command = [
        "journalctl",
        "--no-pager",
        "-o",
        "json",
        "--output-fields=PLUGIN,OUTCOME,STATE,CONTAINER_NAME,PRIORITY",
    ]
    said = run(*command, *matches, status=None)
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def test_the_journal_of_a_launched_bridge_has_the_fields_of_pods(cri: Cri) -> None:
    _is_found(cri)


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
    of_pod = f"POD_NAME={name}"
    wait_until("all events are there", lambda: len(entries(of_pod, "STATE=delete", "OUTCOME=ok")) == 2)
    create = entries(of_pod, "POD_NAMESPACE=default", "STATE=create", "CONTAINER_NAME=app", "PLUGIN=konfine")
    assert [(entry["PLUGIN"], entry["PRIORITY"]) for entry in create] == [(["clearcfs", "konfine"], "6")]
    assert entries(of_pod, "OUTCOME=error") == []
    assert f"container=default/{name}/app" in run(
        "journalctl", "--no-pager", "-t", "nri-v1bridge", "-o", "cat", of_pod
    )
