"""What this project's plugins do on a node with a static CPU manager, and for pods that name one container."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nri.v2 import api
from tests.integration.cli.running import process
from tests.integration.v1bridge.site import Attached
from tests.support.cgroup_node import CONTAINER, OTHER, POD, SANDBOX, CgroupNode, install_own, require
from tests.support.host import OCI_CONFIG
from tests.support.pods import container, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host

# A pod whose annotation is for one of its containers


class CgroupSite(Attached):
    """A bridge in this process, for a pod with files for cgroups and two containers: ``app`` and ``side``."""

    def __init__(self, node: CgroupNode) -> None:
        self.node = node
        super().__init__(node.host, resident=False)

    def pod(self) -> api.PodSandbox:
        annotations = {"qos.class/container.side": "ls"}
        return pod(annotations=annotations, linux={"cgroups_path": SANDBOX})

    def container(self, name: str, path: str, **resources: Any) -> api.Container:
        linux = {"cgroups_path": path, "resources": resources}
        return container(id=name, name=name, annotations={"io.kubernetes.cri.container-name": name}, linux=linux)


@pytest.fixture
def site(host: Host) -> Iterator[CgroupSite]:
    site = CgroupSite(CgroupNode(host))
    yield site
    site.close()


def update_app(site: CgroupSite) -> None:
    site.runtime.post_update_container(site.pod(), site.container("app", CONTAINER))


def update_sandbox(site: CgroupSite) -> None:
    site.runtime.post_update_pod_sandbox(site.pod())


@pytest.mark.parametrize("update", [update_app, update_sandbox])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="the pod's quota comes back when another container or the sandbox is updated",
)
def test_a_pods_quota_stays_cleared_for_the_one_container_of_a_class(site: CgroupSite, update: Any) -> None:
    node = site.node
    node.configure({"type": "clearcfs", "states": ["update"], "conf": node.places | {"pod": True}})
    site.runtime.start_container(site.pod(), site.container("side", OTHER))
    site.runtime.start_container(site.pod(), site.container("app", CONTAINER))
    quotas = [node.quota(path) for path in (OTHER, CONTAINER, POD)]
    require(quotas == ["max", "50000", "max"], f"quotas are {quotas}")
    node.limit(POD)  # as the kubelet does
    update(site)
    assert node.quota(CONTAINER) == "50000"
    assert node.quota(POD) == "max"


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
