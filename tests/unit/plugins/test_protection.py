"""qos: memory that is protected is protected up to the cgroup of all pods, and no longer than it is needed."""

from pathlib import Path
from typing import Any

import pytest

from nri.plugins.qos import QoS
from nri.testing import CgroupTree, Pod, invoke
from nri.testing.pods import Container
from nri.types.v1 import Result
from tests.unit.plugins.running import PodNode

LS = {"koordinator.sh/qosClass": "LS"}
LOW = {"containers": {"LS": {"memory.low": 4096}}}
ROOTS = {
    "cgroupfs": ("/kubepods", "/kubepods/burstable"),
    "systemd": ("/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"),
}


class Protecting(PodNode):
    """A node with two pods: ``a`` with two containers, and ``b`` with one."""

    def __init__(self, run: Path, driver: str = "cgroupfs", kind: str = "v2") -> None:
        super().__init__(QoS(), run, kind, driver)
        self.run = run
        self.driver = driver
        self.conf["allow"] = {"class": True}
        self.a = Pod("a", labels=LS, **self.about)
        self.b = Pod("b", labels=LS, **self.about)
        resources = {"memory": {"limit": 1 << 20}}
        self.web = self.a.container("web", resources=resources)
        self.side = self.a.container("side", resources=resources)
        self.db = self.b.container("db", resources=resources)
        self.last: dict[str, Result] = {}
        self.add(self.a)
        self.add(self.b)

    def fine(self, owner: Pod | Container, state: str, **conf: Any) -> dict[str, str]:
        """Send a request that succeeds; return its metadata."""
        last = self.last.get(owner.name) if state != "create" else None
        result = self.ask(owner, state, last=last, **conf)
        assert result.error == ""
        self.last[owner.name] = result
        return result.metadata

    def end(self, owner: Container, *, has_cgroup: bool = True) -> None:
        if not has_cgroup:
            self.tree.remove(owner.cgroup)
        self.fine(owner, "delete", **LOW)
        self.tree.remove(owner.cgroup)

    def low(self, knob: str = "memory.low") -> tuple[str, ...]:
        """The values of all pods, of the class, and of the pods a and b."""
        paths = (*ROOTS[self.driver], self.a.cgroup, self.b.cgroup)
        return tuple(self.tree.get(f"{path}/{knob}") for path in paths)


@pytest.fixture(params=["cgroupfs", "systemd"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Protecting:
    return Protecting(tmp_path / "run", request.param)


def test_cgroups_above_have_the_sum_as_long_as_it_is_needed(node: Protecting) -> None:
    metadata = node.fine(node.web, "create", **LOW)
    metadata.pop("systemd", None)  # there is none
    above = {
        "kubepods.memory.low": "4096",
        "burstable.memory.low": "4096",
        "pod.memory.low": "4096",
    }
    assert metadata == {"class": "LS", "memory.low": "4096, was 0", **above}
    node.fine(node.side, "create", **LOW)
    node.fine(node.db, "create", **LOW)
    assert node.low() == ("12288", "12288", "8192", "4096")
    node.tree.forget()
    node.fine(node.db, "update", **LOW)
    assert node.tree.writes == []
    node.end(node.web)
    assert node.low() == ("8192", "8192", "4096", "4096")
    node.end(node.side, has_cgroup=False)
    assert node.low() == ("4096", "4096", "0", "4096")
    node.fine(node.db, "delete", release=True, **LOW)
    assert node.low() == ("0", "0", "0", "0")
    assert not (node.run / "nri/qos/protection").exists()


@pytest.mark.parametrize("knob", ["memory.low", "memory.min"])
def test_what_others_have_set_is_the_least(node: Protecting, knob: str) -> None:
    """The kubelet's memory QoS, or the node's administrator."""
    conf = {"containers": {"LS": {knob: 8192}}}
    root, class_ = ROOTS[node.driver]
    node.tree.put(f"{root}/{knob}", "40960")
    node.fine(node.web, "create", **conf)
    assert node.low(knob) == ("40960", "8192", "8192", "0")
    node.tree.put(f"{class_}/{knob}", "12288")  # meanwhile
    node.fine(node.side, "create", **conf)
    assert node.low(knob) == ("40960", "16384", "16384", "0")
    node.fine(node.side, "delete", release=True, **conf)
    node.fine(node.web, "delete", release=True, **conf)
    assert node.low(knob) == ("40960", "12288", "0", "0")


def test_no_limit_of_protection_is_handed_up(node: Protecting) -> None:
    node.tree.put(f"{node.side.cgroup}/memory.low", "max")
    node.fine(node.web, "create", **LOW)
    assert node.low() == ("max", "max", "max", "0")
    node.tree.put(f"{node.side.cgroup}/memory.low", "0")
    node.fine(node.web, "update", **LOW)
    assert node.low() == ("4096", "4096", "4096", "0")


def test_pods_own_value_of_the_conf_stays(node: Protecting) -> None:
    conf = LOW | {"pods": {"LS": {"memory.low": "50% of limit"}}}
    node.tree.put(f"{node.a.cgroup}/memory.max", "65536")
    node.fine(node.web, "create", **conf)
    assert node.low() == ("32768", "32768", "32768", "0")
    node.fine(node.a, "delete", **conf)
    assert node.low()[:2] == ("0", "0")


@pytest.mark.parametrize(
    "text", ["", "x\n", "/a\tmemory.low\t1\n", "/a\tcpu.max\t1\t2\n", "/gone\tmemory.low\t4\t0\n"]
)
def test_note_that_is_damaged_costs_its_line_alone(node: Protecting, text: str) -> None:
    node.fine(node.web, "create", **LOW)
    file = node.run / "nri/qos/protection"
    file.write_text(file.read_text() + text + "/b\tmemory.low\t" + "9" * 5000 + "\t-1\n")
    node.end(node.web)
    assert node.low() == ("0", "0", "0", "0")


def test_a_container_without_the_kubelet_has_none_above(tmp_path: Path) -> None:
    tree = CgroupTree("v2")
    web = Pod("web", runtime="podman", labels=LS).container("web")
    with tree:
        tree.add(web)
        request = web.request("create", conf={"run": str(tmp_path), "allow": {"class": True}} | LOW)
        result = invoke(QoS(), request)
    assert "memory.low" in result.metadata or result.metadata == {}
    assert [name for name, _ in tree.writes if not name.startswith("web/")] == []


def test_kernel_without_the_knob_is_left_alone(tmp_path: Path) -> None:
    node = Protecting(tmp_path / "run", kind="v1")
    metadata = node.fine(node.web, "create", **LOW)
    assert metadata["ignored"] == "memory.low: this kernel lacks it"
    assert node.tree.writes == []
