"""What this project's plugins do on a node with a static CPU manager, and for pods that name one container."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.cli.running import process
from tests.support.cgroup_node import (
    CONTAINER,
    OTHER,
    CgroupSite,
    install_own,
    require,
)
from tests.support.host import OCI_CONFIG

if TYPE_CHECKING:
    from tests.support.host import Host

# A container on the kubelet's CPUs


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="konfine puts a container on the exclusive CPU of another one if the kubelet's list is reserved",
)
def test_a_container_stays_on_the_kubelets_cpus_if_all_others_are_exclusive(site: CgroupSite) -> None:
    node = site.node
    node.configure({"type": "konfine", "states": ["update"], "conf": node.places | {"systemReserved": [0]}})
    exclusive, shared = ({"cpu": {"cpus": cpus}} for cpus in ("1-3", "0"))
    for path, cpus in ((OTHER, "1-3"), (CONTAINER, "0")):
        node.tree.put(path, "cpuset.cpus", f"{cpus}\n")  # as the runtime does
    site.runtime.start_container(site.pod(), site.container("side", OTHER, **exclusive))
    site.runtime.start_container(site.pod(), site.container("app", CONTAINER, **shared))
    assert node.tree.get(OTHER, "cpuset.cpus") == "1-3"
    assert node.tree.get(CONTAINER, "cpuset.cpus") == "0"


# The states of a plugin


def configure_setup(host: Host) -> None:
    """Configure a plugin that acts on ``setup`` alone."""
    install_own(host, "device-injector")
    entry = {"type": "device-injector", "states": ["setup"], "conf": {"allow": {"devices": ["shop"]}}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))


UNSENT = "no line says that the hook never sends the states of a plugin"


@pytest.mark.xfail(strict=True, raises=AssertionError, reason=UNSENT)
def test_the_hook_says_that_a_plugin_wants_states_that_it_never_sends(host: Host) -> None:
    configure_setup(host)
    host.bundle(OCI_CONFIG)
    ran = process("hook", "create", *host.options, stdin=host.state())
    require(ran.status == 0, ran.stderr)
    assert "device-injector" in ran.stderr
    assert "setup" in ran.stderr


@pytest.mark.xfail(strict=True, raises=AssertionError, reason=UNSENT)
def test_check_says_that_a_plugin_wants_states_that_the_hook_never_sends(host: Host) -> None:
    configure_setup(host)
    ran = process("check", *host.options)
    require(ran.status == 0, ran.stderr)
    assert [line for line in (ran.stdout + ran.stderr).splitlines() if "setup" in line and "nri hook" in line]
