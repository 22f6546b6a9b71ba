"""containerd 1.7 and 2.x: how they treat NRI v2 plugins, and what is left in them of v0.1.

A plugin made with `nri.v2.stub` shows the facts that the bridge is built on. Where the generations differ a test says
so. The bridge and the plugins of this project do not take part.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import image
from harness.containerd.cri import Cri
from harness.containerd.enclosure import Enclosure
from harness.containerd.instance import Containerd, Release
from tests.e2e import ROOT
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

BEGIN = [
    *("run_pod_sandbox", "create_container", "post_create_container"),
    *("start_container", "post_start_container"),
]
UPDATE = ["update_container", "post_update_container"]
END = ["stop_container", "stop_pod_sandbox", "remove_container", "remove_pod_sandbox"]
PLUGIN = """#!{python}
import json, os, sys

links = {{number: f"/proc/self/fd/{{number}}" for number in os.listdir("/proc/self/fd")}}
descriptors = {{number: os.readlink(link) for number, link in links.items() if os.path.exists(link)}}
environment = open("/proc/self/environ").read().split("\\0")[:-1]  # Python adds to its own

def keep(*what):
    with open({kept!r}, "a") as file:
        file.write(json.dumps(what) + "\\n")

keep("launched", environment, descriptors, os.getcwd(), sys.argv, os.getpgid(0) == os.getpid())
print("said on stderr", file=sys.stderr, flush=True)
sys.path.insert(0, {root!r})
from nri.v2 import stub
from nri.v2.stub.plugin import HANDLERS

class Keeping(stub.V2Plugin):
    def configure(self, config, runtime):
        keep("configure", config, runtime.name, runtime.version)

    def synchronize(self, pods, containers):
        keep("synchronize")

for name in HANDLERS.values():
    setattr(Keeping, name, lambda self, request, call, name=name: keep(name))
stub.run(Keeping())
"""
"""A v2 plugin that writes down how containerd starts it, and each call that it gets."""


def begin(cri: Cri) -> tuple[str, str]:
    pod = cri.run_pod("web")
    container = cri.create_container(pod, "app", image=image.NAME, command=image.FOREVER, cpu_quota=50_000)
    cri.start(container)
    return pod, container


def end(cri: Cri, pod: str, container: str) -> None:
    cri.stop(container)
    cri.stop_pod(pod)
    cri.remove(container)
    cri.remove_pod(pod)


def with_plugin(kept: Path) -> Callable[[Enclosure], None]:
    """Have the plugin `10-keeping`, with a configuration."""

    def prepare(enclosure: Enclosure) -> None:
        (enclosure.opt_nri / "plugins").mkdir()
        plugin = enclosure.opt_nri / "plugins/10-keeping"
        plugin.write_text(PLUGIN.format(python=sys.executable, kept=str(kept), root=str(ROOT)))
        plugin.chmod(0o755)
        (enclosure.etc_nri / "conf.d").mkdir()
        (enclosure.etc_nri / "conf.d/10-keeping.conf").write_text("anything: at all\n")

    return prepare


def told(kept: Path) -> list[list[Any]]:
    """Return what the plugin has written down until now."""
    return [json.loads(line) for line in kept.read_text().splitlines()]


def test_plugin_is_launched_with_three_variables_and_one_socket(containerd_v2: Release, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with Containerd(release=containerd_v2, prepare=with_plugin(kept)) as containerd:
        log = containerd.log.read_text()
        _, environment, descriptors, directory, arguments, leads_its_group = told(kept)[0]

    assert sorted(environment) == ["NRI_PLUGIN_IDX=10", "NRI_PLUGIN_NAME=keeping", "NRI_PLUGIN_SOCKET=3"]
    assert descriptors.pop("3").startswith("socket:")
    assert descriptors == dict.fromkeys("012", "/dev/null")  # so what it says on stderr is lost
    assert "said on stderr" not in log
    assert arguments == ["/opt/nri/plugins/10-keeping"]
    assert directory == "/"  # containerd's own
    assert not leads_its_group  # a signal to containerd's group is for the plugin as well


def test_a_plugin_gets_its_configuration_and_every_event(containerd_v2: Release, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with Containerd(release=containerd_v2, prepare=with_plugin(kept)) as containerd, containerd.cri() as cri:
        pod, container = begin(cri)
        cri.update_resources(container, cpu_quota=70_000)
        end(cri, pod, container)

    _, configured, *rest = told(kept)
    assert configured[:3] == ["configure", "anything: at all\n", "containerd"]
    assert configured[3].startswith("{}.{}.".format(*containerd_v2.version))
    # 1.7 does not tell a plugin that it launches of the pods there are, not even that there are none
    first = [] if containerd_v2.version < (2,) else ["synchronize"]
    assert [event for (event,) in rest] == [*first, *BEGIN, *UPDATE, *END]


def test_after_a_restart_plugins_hear_little_of_earlier_pods(containerd_v2: Release, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with Containerd(release=containerd_v2, prepare=with_plugin(kept)) as containerd, containerd.cri() as cri:
        pod, container = begin(cri)
        containerd.stop()
        before = len(told(kept))
        containerd.start()
        end(cri, pod, container)

    # A process for each life of containerd.
    events = ["launched", "configure"]
    if containerd_v2.version >= (2,):  # synchronize tells of the pod, but its end is not told
        events += ["synchronize", "stop_container", "remove_container"]
    assert [what[0] for what in told(kept)[before:]] == events


def test_v01_plugins_run_for_pods_on_2_and_never_on_1_7(containerd_v2: Release, tmp_path: Path) -> None:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    plugin = StandIn(bin_dir, "standin", tmp_path / "kept")
    conf = {"version": "0.1", "plugins": [{"type": "standin"}]}
    with Containerd(release=containerd_v2, bin_dir=bin_dir, conf=conf) as containerd, containerd.cri() as cri:
        pod, container = begin(cri)
        end(cri, pod, container)

    seen = [(request["state"], request["id"]) for request in plugin.requests()]
    assert seen == ([] if containerd_v2.version < (2,) else [("create", pod), ("delete", pod)])
