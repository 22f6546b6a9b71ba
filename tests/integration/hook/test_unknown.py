"""A plugin that grants something works only where its condition is known to hold, unless its entry says otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.cli.running import process
from tests.support.cgroup_node import CONTAINER, CgroupNode
from tests.support.host import OCI_CONFIG, Host


@pytest.mark.parametrize(
    ("unknown", "quota"), [({}, "50000"), ({"unknown": "skip"}, "50000"), ({"unknown": "run"}, "max")]
)
def test_unknown_namespace_lifts_no_limit(host: Host, unknown: dict[str, Any], quota: str) -> None:
    node = CgroupNode(host)
    when = {"namespaces": ["kube-system"]} | unknown
    node.configure({"type": "clearcfs", "when": when, "conf": node.places})
    host.bundle(OCI_CONFIG | {"annotations": {"qos.class": "ls"}, "linux": {"cgroupsPath": CONTAINER}})
    ran = process("hook", "create", *host.options, stdin=host.state())
    assert ran.status == 0, ran.stderr
    assert node.quota() == quota


@pytest.mark.parametrize(
    ("state", "when", "undecided"),
    [
        ("create", {"namespaces": ["a"]}, "namespace not known"),
        (
            "create",
            {"namespaces": ["a"], "labels": {"b": {"present": True}}},
            'namespace not known; label "b" not known',
        ),
        ("create", {"namespaces": ["a"], "unknown": "run"}, ""),
        ("create", {"sandbox": False}, ""),
        ("delete", {"namespaces": ["a"]}, ""),
    ],
)
def test_plugin_is_told_what_is_not_known(host: Host, state: str, when: dict[str, Any], undecided: str) -> None:
    host.script("seeing", f"#!/bin/sh\ncat >{host.root}/seen\necho '{{}}'\n")
    host.configure_text(json.dumps({"version": "0.1", "plugins": [{"type": "seeing", "when": when}]}))
    host.bundle(OCI_CONFIG)
    ran = process("hook", state, *host.options, stdin=host.state())
    assert ran.status == 0, ran.stderr
    assert json.loads((host.root / "seen").read_text()).get("undecided", "") == undecided
