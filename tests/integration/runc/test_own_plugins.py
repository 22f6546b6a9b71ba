"""Plugins of this project by nri-runc and the hook: what a pod forges or writes at length gains it nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.cli.running import process
from tests.integration.runc.conftest import NriRunc
from tests.support.cgroup_node import CONTAINER, CgroupNode, install_own
from tests.support.host import OCI_CONFIG

CRIO = {
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.container.name": "redis",
    "qos.class": "ls",
}
"""Annotations that CRI-O writes for a container of the namespace ``default``, and the pod's class."""

FORGED = {
    "namespace": ({"namespaces": ["kube-system"]}, {"io.kubernetes.cri.sandbox-namespace": "x"}),
    "sandbox": ({"sandbox": True}, {"io.kubernetes.cri.container-type": "sandbox"}),
}
"""A condition, and a pod's annotation that contradicts what the runtime wrote."""


@pytest.mark.parametrize("by", ["the hook", "nri-runc"])
@pytest.mark.parametrize(("when", "forged"), FORGED.values(), ids=FORGED)
def test_contradicting_annotations_are_refused(
    runtime: NriRunc, when: Any, forged: dict[str, str], by: str
) -> None:
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


def test_long_annotation_keeps_no_hook_away(runtime: NriRunc) -> None:
    """The plugin has ten seconds, and needs a fraction of one; a matching that is not stopped takes longer."""
    host = runtime.host
    hooks, program = host.folder("hooks.d"), str(host.script("hook", "#!/bin/sh\n"))
    for name, when in {
        "always": {"always": True},
        "gpu": {"annotations": {"^note$": ".*gpu.*"}},
    }.items():
        hook = {"path": program, "args": [name]}
        document = {"version": "1.0.0", "hook": hook, "when": when, "stages": ["poststop"]}
        (hooks / f"{name}.json").write_text(json.dumps(document))
    install_own(host, "hook-injector")
    conf = {"dirs": [str(hooks)]}
    entry = {
        "type": "hook-injector",
        "states": ["setup"],
        "timeout": 10,
        "failurePolicy": "ignore",
        "conf": conf,
    }
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    host.bundle(OCI_CONFIG | {"annotations": {"note": "x" * 8_000_000}})
    runtime.exists(status="created")
    runtime.script("import shutil; shutil.copy('bundle/config.json', here)")
    ran = runtime.run("create", "--bundle", "bundle", "web", cwd=host.root)
    assert ran.returncode == 0, ran.stderr
    config = json.loads((runtime.real.parent / "config.json").read_text())
    assert [hook["args"] for hook in config["hooks"]["poststop"]] == [["always"]]
