"""What an operator is told by the checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.cli.running import process
from tests.support.cgroup_node import install_own

if TYPE_CHECKING:
    from tests.support.host import Host


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="nri check does not look at the files that hook-injector reads"
)
def test_check_names_a_hook_file_that_refuses_every_container(host: Host) -> None:
    install_own(host, "hook-injector")
    hooks = host.folder("hooks.d")
    (hooks / "bad.json").write_text("{")
    entry = {"type": "hook-injector", "states": ["setup"], "conf": {"dirs": [str(hooks)]}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    ran = process("check", *host.options)
    assert ran.status == 1
    assert f"{hooks}/bad.json" in ran.stdout + ran.stderr


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="nri check does not say that a plugin with `ignore` can be left out"
)
def test_check_notes_that_a_plugin_with_ignore_can_be_left_out(host: Host) -> None:
    install_own(host, "konfine")
    allow = {"class": ["kube-system"], "cpus": ["kube-system"]}
    entry = {"type": "konfine", "failurePolicy": "ignore", "conf": {"allow": allow}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    ran = process("check", "--json", *host.options)
    (plugin,) = ran.json["plugins"]
    assert "ignore" in plugin["note"]
