"""docs/containerd.md shows the log that a bridge writes, but for times."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nri import adaptation
from nri.testing.cgroup_files import CgroupFiles
from nri.v2 import api
from tests.support.listening import listening
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/containerd.md"
BRIDGE = "from nri.cli.entry import main; main()"
POD = api.PodSandbox(id="8f7c1d20a4b3e5f6", name="web", namespace="shop", annotations={"qos.class": "ls"})
POD.linux.cgroups_path = "/kubepods/pod0d9c/pause"
APP = api.Container(id="3b9e77aa01c2d4e5", pod_sandbox_id=POD.id, name="app")
APP.linux.cgroups_path = "/kubepods/pod0d9c/app"


class Node:
    """A node below a directory, with a made-up cgroup tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin, self.conf = root / "opt/nri/bin", root / "etc/nri/resource.d/10.conf"
        self.socket = str(root / "nri.sock")
        self.bin.mkdir(parents=True)
        self.conf.parent.mkdir(parents=True)
        tree = CgroupFiles(root / "sys/fs/cgroup", "v1")
        tree.make("/kubepods/pod0d9c/app", cpu__cfs_quota_us="50000\n")
        tree.make("/kubepods/pod0d9c/pause")
        (root / "mountinfo").write_text(tree.mountinfo)
        self.clearcfs = {"type": "clearcfs", "conf": {"mountinfo": str(root / "mountinfo")}}
        run = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom nri.plugins.clearcfs import main\nmain()\n"
        self.plugin("clearcfs", f"#!{sys.executable}\n{run}")
        self.plugin("quotas", "#!/bin/sh\necho no such device: nvme7 >&2; exit 4\n")
        self.plugin("slow", "#!/bin/sh\nexec sleep 100\n")

    def plugin(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def configure(self, *plugins: dict[str, Any]) -> None:
        self.conf.write_text(json.dumps({"version": "0.1", "plugins": list(plugins)}))

    @contextmanager
    def bridge(self, **settings: Any) -> Iterator[Callable[[], str]]:
        """`nri bridge`; gives what it has logged, as a node's root would have it."""
        file, log = self.root / "v1bridge.json", self.root / "log"
        places = {"confDir": str(self.conf.parent), "binDirs": [str(self.bin)]}
        file.write_text(json.dumps({**places, "recordDir": f"{self.root}/v1bridge.record"} | settings))
        command = [sys.executable, "-c", BRIDGE, "bridge", "--socket", self.socket, "--config", str(file)]
        with log.open("w") as stderr, subprocess.Popen(command, cwd=ROOT, stderr=stderr) as process:
            try:
                yield lambda: log.read_text().replace(str(self.root), "")
            finally:
                process.terminate()


def block(name: str) -> str:
    found = re.search(rf"^```text {name}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return timeless(found[1])


def timeless(text: str) -> str:
    text = re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"hash=\w+", "hash=N", text)
    text = re.sub(r"\(commit [^)]*\)", "(commit)", text)
    text = re.sub(r"(no result after) [\d.]+ s", r"\1 N s", text)  # 2 s less what a busy machine took before it
    return re.sub(r'(ms=|"ms": | )[\d.]+(?=ms|[ ,}])', r"\1N", text)


def refused(send: Callable[[], object]) -> None:
    try:
        send()
    except adaptation.EventError:
        return
    raise AssertionError("it was not refused")


def test_lines_of_the_log_on_the_page_are_logged_in_this_order(tmp_path: Path) -> None:
    node = Node(tmp_path)
    runtime = adaptation.Runtime("containerd", "v2.1.9", nri_version=(0, 11))
    with listening(runtime, node.socket), node.bridge() as logged:
        assert wait_until(lambda: runtime.plugins)
        node.configure(node.clearcfs)
        runtime.run_pod_sandbox(POD)
        assert wait_until(lambda: logged().count(" info answered ") == 1)  # it is logged after the answer
        runtime.start_container(POD, APP)
        assert wait_until(lambda: logged().count(" info answered ") == 2)
        node.configure({"type": "quotas"})
        refused(lambda: runtime.start_container(POD, APP))
        node.configure({"type": "slow", "failurePolicy": "ignore"})
        runtime.start_container(POD, APP)
        node.conf.write_text('{"version": "0.1", "plugins": [')
        node.plugin("slow", '#!/bin/sh\necho "{}"\n')
        runtime.start_container(POD, APP)
        assert wait_until(lambda: "invalid configuration" in logged())  # it is explained after the answer
    logged_lines = iter(timeless(logged()).splitlines())
    assert [line for line in block("bridge.log").splitlines() if line not in logged_lines] == []  # in this order
