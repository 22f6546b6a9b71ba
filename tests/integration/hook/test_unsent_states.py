"""nri hook says that it never sends a state that a plugin wants."""

from __future__ import annotations

import json

from tests.integration.cli.running import process
from tests.support.cgroup_node import install_own
from tests.support.host import OCI_CONFIG, Host


def test_the_hook_says_at_create_that_setup_is_never_sent(host: Host) -> None:
    install_own(host, "device-injector")
    entry = {"type": "device-injector", "states": ["setup"], "conf": {"allow": {"devices": ["shop"]}}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    host.bundle(OCI_CONFIG)
    for state, said in (
        ("create", "nri: device-injector wants setup, which the bridge and nri-runc send"),
        ("delete", ""),
    ):
        ran = process("hook", state, *host.options, stdin=host.state())
        assert ran.status == 0, ran.stderr
        assert said in ran.stderr
        assert ("setup" in ran.stderr) == (state == "create")
