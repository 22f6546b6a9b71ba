"""Plugins of this project by nri-runc and the hook: what a pod forges or writes at length gains it nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.cli.running import process
from tests.integration.runtime.conftest import Runtime
from tests.support.cgroup_node import CONTAINER, CgroupNode, install_own
from tests.support.host import OCI_CONFIG

CRIO = {"io.kubernetes.pod.namespace": "default", "io.kubernetes.container.name": "redis", "qos.class": "ls"}
"""Annotations that CRI-O writes for a container of the namespace ``default``, and the pod's class."""

FORGED = {
    "namespace": ({"namespaces": ["kube-system"]}, {"io.kubernetes.cri.sandbox-namespace": "x"}),
    "sandbox": ({"sandbox": True}, {"io.kubernetes.cri.container-type": "sandbox"}),
}
"""A condition, and a pod's annotation that contradicts what the runtime wrote."""


@pytest.mark.parametrize("by", ["the hook", "nri-runc"])
@pytest.mark.parametrize(("when", "forged"), FORGED.values(), ids=FORGED)
def test_contradicting_annotations_are_refused(runtime: Runtime, when: Any, forged: dict[str, str], by: str) -> None:
    host = runtime.host
    node = CgroupNode(host)
    node.configure({"type": "clearcfs", "when": when, "conf": node.places})
    host.bundle(OCI_CONFIG | {"annotations": CRIO | forged, "linux": {"cgroupsPath": CONTAINER}})
    runtime.exists(status="created")
    if by == "the hook":
        status = process("hook", "create", *host.options, stdin=host.state()).status
    else:
        status = runtime.run("create", "--bundle", "bundle", "web", cwd=host.root).returncode
    assert node.quota() == "50000"
    assert status != 0


class HookNode:
    """A node where nri-runc runs hook-injector, with hooks that are injected always, or by an annotation."""

    def __init__(self, runtime: Runtime, **conf: Any) -> None:
        self.runtime, self.host = runtime, runtime.host
        self.hooks = self.host.folder("hooks.d")
        self.program = self.host.script("hook", "#!/bin/sh\n")
        install_own(self.host, "hook-injector")
        conf = {"dirs": [str(self.hooks)], **conf}
        entry = {"type": "hook-injector", "states": ["setup"], "timeout": 10, "failurePolicy": "ignore", "conf": conf}
        self.host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))

    def hook(self, name: str, when: dict[str, Any]) -> None:
        """Write a hook file; the hook's argument is its name."""
        hook = {"path": str(self.program), "args": [name]}
        document = {"version": "1.0.0", "hook": hook, "when": when, "stages": ["poststop"]}
        (self.hooks / f"{name}.json").write_text(json.dumps(document))

    def injected(self, **annotations: str) -> list[str]:
        """Create a container; return the names of its hooks."""
        bundle = self.host.bundle(OCI_CONFIG | {"annotations": annotations})
        self.runtime.exists(status="created")
        ran = self.runtime.run("create", "--bundle", "bundle", "web", cwd=self.host.root)
        assert ran.returncode == 0, ran.stderr
        config = json.loads((bundle / "config.json").read_text())
        return sorted(hook["args"][0] for hook in config.get("hooks", {}).get("poststop", []))


def test_long_annotation_keeps_no_hook_away(runtime: Runtime) -> None:
    """The plugin has ten seconds, and needs a fraction of one; a matching that is not stopped takes longer."""
    node = HookNode(runtime)
    node.hook("always", {"always": True})
    node.hook("gpu", {"annotations": {"^note$": ".*gpu.*"}})
    assert node.injected(note="x" * 8_000_000) == ["always"]


def test_text_above_4_kib_counts_as_a_match(runtime: Runtime) -> None:
    node = HookNode(runtime, allow={"annotations": True})
    node.hook("gpu", {"annotations": {"^note$": ".*gpu.*"}})
    assert node.injected(note="x" * 4000) == [], "a text that does not match injects no hook"
    assert node.injected(note="x" * 4097) == ["gpu"]
