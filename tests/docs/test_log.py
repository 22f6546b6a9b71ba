"""docs/containerd.md shows the log that a bridge writes, but for times."""

import re
from pathlib import Path

import pytest

from nri import adaptation
from nri.config.entries import PluginEntry
from nri.testing.cgroup_files import CgroupFiles
from nri.v2 import api
from tests.integration.v1bridge.bridge_process import a_bridge
from tests.support.host import Host
from tests.support.listening import listening
from tests.support.waiting import wait_until

PAGE = Path(__file__).parent.parent.parent / "docs/containerd.md"
POD = api.PodSandbox(
    id="8f7c1d20a4b3e5f6", name="web", namespace="shop", annotations={"qos.class": "ls"}
)
POD.linux.cgroups_path = "/kubepods/pod0d9c/pause"
APP = api.Container(id="3b9e77aa01c2d4e5", pod_sandbox_id=POD.id, name="app")
APP.linux.cgroups_path = "/kubepods/pod0d9c/app"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host with a made-up cgroup tree, and with the plugins of the page."""
    host = Host(tmp_path)
    host.conf = tmp_path / "etc/nri/resource.d"
    host.conf.mkdir(parents=True)
    tree = CgroupFiles(tmp_path / "sys/fs/cgroup", "v1")
    tree.make("/kubepods/pod0d9c/app", cpu__cfs_quota_us="50000\n")
    tree.make("/kubepods/pod0d9c/pause")
    (tmp_path / "mountinfo").write_text(tree.mountinfo)
    host.compiled("nri.plugins.clearcfs")
    host.script("quotas", "#!/bin/sh\necho no such device: nvme7 >&2; exit 4\n")
    host.script("slow", '#!/bin/sh\necho "{}"\n')
    return host


def lines_of(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    text = re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"hash=\w+", "hash=N", text)
    return re.sub(r"(ms=| )[\d.]+(?=ms|[ ,}])", r"\1N", text).splitlines()


def test_lines_of_the_log_on_the_page_are_logged_in_this_order(host: Host) -> None:
    runtime = adaptation.Runtime("containerd", "v2.1.9", nri_version=(0, 11))
    with a_bridge(host) as bridge, listening(runtime, bridge.path):
        bridge.outside()
        assert wait_until(lambda: runtime.plugins)
        host.configure(
            PluginEntry(type="clearcfs", conf={"mountinfo": f"{host.root}/mountinfo"}),
            name="10.conf",
        )
        runtime.run_pod_sandbox(POD)
        # It is logged after the answer.
        assert wait_until(lambda: bridge.log.count(" info answered ") == 1)
        runtime.start_container(POD, APP)
        assert wait_until(lambda: bridge.log.count(" info answered ") == 2)
        host.configure(PluginEntry(type="quotas"), name="10.conf")
        with pytest.raises(adaptation.EventError):
            runtime.start_container(POD, APP)
        host.configure(PluginEntry(type="slow"), name="10.conf")
        runtime.start_container(POD, APP)
        host.configure_text('{"version": "0.1", "plugins": [', name="10.conf")
        runtime.start_container(POD, APP)
        # It is explained after the answer.
        assert wait_until(lambda: "invalid configuration" in bridge.log)
        logged = iter(lines_of(bridge.log.replace(str(host.root), "")))
    (block,) = re.findall(
        r"^```text bridge\.log\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert [line for line in lines_of(block) if line not in logged] == []  # in this order
