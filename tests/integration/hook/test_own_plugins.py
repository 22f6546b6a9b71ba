"""Plugins of this project by ``nri hook``: unknown facts, unsent states, a silent systemd."""

from __future__ import annotations

import json
import select
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.running import process
from tests.support.cgroup_node import CONTAINER, CgroupNode, install_own
from tests.support.host import OCI_CONFIG, Host

SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b.slice"
SCOPE = f"{SLICE}/cri-containerd-redis.scope"


def hook(host: Host, state: str = "create") -> str:
    """Run the hook, which succeeds; return its stderr."""
    ran = process("hook", state, *host.options, stdin=host.state())
    assert ran.status == 0, ran.stderr
    return ran.stderr


@pytest.mark.parametrize(
    ("unknown", "quota"),
    [({}, "50000"), ({"unknown": "skip"}, "50000"), ({"unknown": "run"}, "max")],
)
def test_unknown_namespace_lifts_no_limit(host: Host, unknown: dict[str, Any], quota: str) -> None:
    node = CgroupNode(host)
    when = {"namespaces": ["kube-system"]} | unknown
    node.configure({"type": "clearcfs", "when": when, "conf": node.places})
    host.bundle(
        OCI_CONFIG | {"annotations": {"qos.class": "ls"}, "linux": {"cgroupsPath": CONTAINER}}
    )
    hook(host)
    assert node.quota() == quota


BOTH = {"namespaces": ["a"], "labels": {"b": {"present": True}}}


@pytest.mark.parametrize(
    ("state", "when", "undecided"),
    [
        ("create", BOTH, 'namespace not known; label "b" not known'),
        ("create", BOTH | {"unknown": "run"}, ""),
        ("create", {"sandbox": False}, ""),
        ("delete", BOTH, ""),
    ],
)
def test_plugin_gets_the_names_of_unknown_facts(
    host: Host, state: str, when: dict[str, Any], undecided: str
) -> None:
    host.script("seeing", f"#!/bin/sh\ncat >{host.root}/seen\necho '{{}}'\n")
    host.configure_text(
        json.dumps({"version": "0.1", "plugins": [{"type": "seeing", "when": when}]})
    )
    host.bundle(OCI_CONFIG)
    hook(host, state)
    assert json.loads((host.root / "seen").read_text()).get("undecided", "") == undecided


def test_create_reports_that_setup_is_never_sent(host: Host) -> None:
    install_own(host, "device-injector")
    entry = {
        "type": "device-injector",
        "states": ["setup"],
        "conf": {"allow": {"devices": ["shop"]}},
    }
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    host.bundle(OCI_CONFIG)
    assert "nri: device-injector wants setup, which the bridge and nri-runc send" in hook(host)
    assert "setup" not in hook(host, "delete")


def connections(listener: socket.socket) -> int:
    """The number of connections that a socket got, which it closes with itself."""
    count = 0
    with listener:
        while select.select([listener], [], [], 0)[0]:
            listener.accept()[0].close()
            count += 1
    return count


def test_silent_systemd_is_not_asked_at_its_second_socket(host: Host) -> None:
    node = CgroupNode(host)
    node.files.make(SCOPE)
    node.limit(SCOPE)
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    with tempfile.TemporaryDirectory(prefix="nri-") as run:
        (Path(run) / "systemd/system").mkdir(parents=True)
        (Path(run) / "dbus").mkdir()
        for listener, name in zip(
            listeners, ("systemd/private", "dbus/system_bus_socket"), strict=True
        ):
            listener.bind(f"{run}/{name}")
            listener.listen()
        conf = node.places | {"run": run}
        konfine = {"type": "konfine", "conf": conf | {"systemReserved": [0]}}
        node.configure({"type": "clearcfs", "conf": conf}, konfine)
        path = "kubepods-burstable-pod0a1b.slice:cri-containerd:redis"
        host.bundle(OCI_CONFIG | {"linux": {"cgroupsPath": path}})
        hook(host)
    assert (node.quota(SCOPE), node.files.get(SCOPE, "cpuset.cpus")) == ("max", "1-3")
    assert [connections(listener) for listener in listeners] == [2, 0]
