"""nri check: what it says about this project's own plugins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.doctor import engines
from tests.integration.cli.running import inside, process
from tests.support.cgroup_node import install_own
from tests.support.host import Host

ROOT = Path(__file__).parents[3]


def test_check_names_a_hook_file_that_refuses_every_container(host: Host) -> None:
    install_own(host, "hook-injector")
    hooks = host.folder("hooks.d")
    (hooks / "bad.json").write_text("{")
    entry = {"type": "hook-injector", "states": ["setup"], "conf": {"dirs": [str(hooks)]}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    ran = process("check", *host.options)
    assert ran.status == 1
    assert f"{hooks}/bad.json: line 1 column 2" in ran.stderr
    when = {"annotations": {"a": "("}}
    document = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": when, "stages": ["prestart"]}
    (hooks / "bad.json").write_text(json.dumps(document))
    ran = process("check", *host.options)
    assert ran.status == 1
    assert f"{hooks}/bad.json: when.annotations.a: found '('" in ran.stderr


def test_check_notes_that_a_plugin_with_ignore_can_be_left_out(host: Host) -> None:
    install_own(host, "konfine")
    allow = {"class": ["kube-system"], "cpus": ["kube-system"]}
    entry = {"type": "konfine", "failurePolicy": "ignore", "conf": {"allow": allow}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    ran = process("check", "--json", *host.options)
    (plugin,) = ran.json["plugins"]
    assert "ignore" in plugin["note"]


def test_check_notes_a_state_that_hooks_never_send(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    install_own(host, "device-injector")
    entry = {"type": "device-injector", "states": ["setup"], "conf": {"allow": {"devices": ["shop"]}}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    hooks = host.folder("hooks.d")
    monkeypatch.setattr(engines, "HOOKS", ("/nonexistent", str(hooks)))
    (hooks / "00-other.json").write_text("{}")
    assert "setup" not in inside("check", *host.options).stderr
    sample = ROOT / "deploy/hooks.d/10-nri-create.json"
    (hooks / sample.name).write_text(sample.read_text())
    said = f"device-injector wants setup, which `nri hook` never sends: {hooks}/10-nri-create.json runs it here"
    ran = inside("check", *host.options)
    assert (ran.status, f"note: {said}\n" in ran.stderr) == (0, True)
