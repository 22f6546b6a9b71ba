"""qos: the knobs of a class on pods and containers, batch resources, variables for devices, and what it refuses."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from nri.plugins.qos import KEYS, SPEC, QoS
from nri.plugins.qos.batch import CPU, MEMORY, quantity
from nri.skel import Refusal
from nri.testing import CgroupTree, Pod, assert_idempotent, invoke
from nri.types.v1 import Result
from tests.unit.plugins.running import PodNode

OPEN = {"class": ["default"], "batch": ["default"], "env": ["default"]}
LS = {"koordinator.sh/qosClass": "LS"}
CPUS_OF_KUBELET = {
    "cpu": {"shares": 512, "quota": 50000, "period": 100000},
    "memory": {"limit": 1 << 28},
}


class QoSNode(PodNode):
    """A node with the containers ``web`` and ``side`` of one pod."""

    def __init__(self, tmp_path: Path, kind: str = "v2") -> None:
        super().__init__(QoS(), tmp_path / "run", kind)
        self.conf["allow"] = OPEN
        self.has_pod = False

    def web(
        self,
        state: str = "create",
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        is_of_pod: bool = False,
        **options: Any,
    ) -> Result:
        """Send a request about ``web``, or the pod's sandbox."""
        pod = Pod(labels=LS if labels is None else labels, annotations=annotations)
        web = pod.container("web", resources=CPUS_OF_KUBELET)
        pod.container("side", resources=CPUS_OF_KUBELET)
        if not self.has_pod:
            self.add(pod)
            self.has_pod = True
        return self.ask(pod if is_of_pod else web, state, **options)

    def fine(self, state: str = "create", **options: Any) -> dict[str, str]:
        result = self.web(state, **options)
        assert result.error == ""
        return result.metadata


@pytest.fixture(params=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> QoSNode:
    return QoSNode(tmp_path, request.param)


@pytest.fixture
def v2(tmp_path: Path) -> QoSNode:
    return QoSNode(tmp_path)


def batch(**containers: dict[str, Any]) -> dict[str, str]:
    return {SPEC: json.dumps({"containers": containers})}


def amount(cpu: object, memory: object = None) -> dict[str, Any]:
    return {CPU: cpu} | ({} if memory is None else {MEMORY: memory})


# Knobs


def test_pod_gets_the_knobs_of_its_class_before_the_container(v2: QoSNode) -> None:
    pods = {"LS": {"memory.low": 4096, "cpu.weight": 300}}
    containers = {"LS": {"pids.max": 99, "io.weight": 200, "memory.low": 8192}}
    metadata = v2.fine(pods=pods, containers=containers)
    assert v2.tree.writes == [
        *(("pod/cpu.weight", "300"), ("pod/memory.low", "4096"), ("web/memory.low", "8192")),
        *(("web/io.weight", "200"), ("web/pids.max", "99")),
        *(("/kubepods/burstable/memory.low", "4096"), ("/kubepods/memory.low", "4096")),
    ]
    assert metadata == {
        "burstable.memory.low": "4096",
        "kubepods.memory.low": "4096",
        "class": "LS",
        "pod.cpu.weight": "300, was 100",
        "pod.memory.low": "4096, was 0",
        "memory.low": "8192, was 0",
        "io.weight": "200, was 100",
        "pids.max": "99, was max",
    }


def test_a_repeated_request_writes_nothing(node: QoSNode) -> None:
    knobs = {"LS": {"cpu.weight": 300, "pids.max": 99}}
    pod = Pod(labels=LS, cgroup_version=2 if node.tree.kind == "v2" else 1)
    web = pod.container("web")
    conf = {**node.conf, "pods": knobs, "containers": knobs}
    with node.tree:
        node.tree.add(pod)
        assert_idempotent(QoS(), web.request("create", conf=conf), node.tree)
    node.has_pod = True
    assert node.fine(pods=knobs, containers=knobs) == {"class": "LS"}


@pytest.mark.parametrize("allow", [{}, {"class": False}, {"class": ["other"]}])
def test_container_without_a_class_that_counts_is_unchanged(
    v2: QoSNode, allow: dict[str, Any]
) -> None:
    assert v2.fine(labels={"other": "LS"}, containers={"LS": {"pids.max": 9}}) == {}
    metadata = v2.fine(allow=allow, containers={"LS": {"pids.max": 9}})
    assert metadata["ignored"].startswith("koordinator.sh/qosClass: allow.class is ")
    assert v2.tree.written == {}
    labels = {KEYS[1]: "koord-batch"}  # the priority, where there is no class
    assert (
        v2.fine(labels=labels, containers={"koord-batch": {"pids.max": 9}})["pids.max"]
        == "9, was max"
    )
    assert v2.fine(labels=labels | LS, containers={}) == {"skipped": "no knobs for the class LS"}
    result = v2.web(
        "setup", annotations=batch(web={"limits": amount(1)}), allow={"batch": ["other"]}
    )
    assert result.adjust is None
    assert result.metadata["ignored"].startswith(f"{SPEC}: allow.batch is not for")


def test_shares_of_limit_and_request(v2: QoSNode) -> None:
    shares: dict[str, Any] = {"memory.high": "75% of limit", "memory.low": "50% of request"}
    # An idle cgroup gets no weight.
    shares |= {"cpu.max.burst": "50% of limit", "cpu.idle": True, "cpu.weight": 300}
    metadata = v2.fine(containers={"LS": {"memory.low": "50% of request", "pids.max": 9}})
    assert metadata["ignored"] == "memory.low: 50% of request: there is no request"
    assert metadata["pids.max"] == "9, was max"
    asked = batch(web={"requests": amount(500, "1Mi"), "limits": amount(500, "2Mi")})
    metadata = v2.fine(containers={"LS": shares}, annotations=asked)
    assert metadata["memory.high"] == "1572864, was max"
    assert metadata["memory.low"] == "524288, was 0"
    assert metadata["cpu.max.burst"] == "25000, was 0"
    assert metadata["cpu.idle"] == "1, was 0"
    assert "web/cpu.weight" not in v2.tree.written


def test_lacking_knob_is_reported_once_and_ignored_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    v1 = QoSNode(tmp_path, "v1")
    knobs = {"LS": {"memory.low": 4096, "cpu.weight": 300}}
    for expected in (1, 0):
        metadata = v1.fine(containers=knobs)
        assert metadata["ignored"] == "memory.low: this kernel lacks it"
        assert metadata.get("cpu.weight", "300, was ").startswith("300, was ")
        assert capsys.readouterr().err.count("qos: memory.low is ignored: ") == expected
    assert (
        "needs a kernel of Alibaba Cloud Linux"
        in v1.web(containers={"LS": {"cpu.bvt_warp_ns": 2}}, lacking="refuse").error
    )


def test_knob_that_the_kernel_has_lost_is_not_given_back(v2: QoSNode) -> None:
    had = v2.web(containers={"LS": {"memory.low": 4096, "pids.max": 9}})
    v2.tree.lack("memory.low")
    v2.tree.lack("memory.max")
    metadata = v2.fine(containers={"LS": {"memory.high": "80% of limit"}}, last=had)
    assert metadata["pids.max"] == "max, restored"
    assert (
        metadata["ignored"] == "memory.high: this kernel lacks it; memory.low: this kernel lacks it"
    )


def test_weight_is_written_where_the_kernel_has_no_idle_class(v2: QoSNode) -> None:
    v2.tree.lack("cpu.idle")
    knobs = {"LS": {"cpu.idle": True, "cpu.weight": 3}}
    assert v2.fine(containers=knobs)["cpu.weight"].startswith("3, was ")
    asked = batch(web={"requests": amount(500), "limits": amount(500)})
    assert v2.fine(annotations=asked, containers={"LS": {"cpu.idle": True}})["cpu.weight"].endswith(
        ", was 3"
    )


def test_value_that_the_kernel_refuses_is_an_error(v2: QoSNode) -> None:
    v2.fine()
    v2.tree.refuse("web/pids.max", errno.EBUSY)
    assert "Device or resource busy (EBUSY)" in v2.web(containers={"LS": {"pids.max": 9}}).error


def test_pod_that_the_kubelet_did_not_make_has_no_knobs(tmp_path: Path) -> None:
    pod = Pod(labels=LS, kubelet=False, annotations={"io.kubernetes.pod.namespace": "x"})
    web = pod.container("web")
    with CgroupTree() as tree:
        tree.add(pod)
        conf = {"run": str(tmp_path), "allow": {"class": True}, "pods": {"LS": {"pids.max": 9}}}
        result = invoke(QoS(), web.request("create", conf=conf))
    assert (result.error, result.metadata["pod"][:5], tree.written) == ("", "none:", {})


# Batch resources


def test_batch_resources_are_there_before_the_container_runs(v2: QoSNode) -> None:
    asked = batch(
        web={"requests": amount(500, "1Mi"), "limits": amount("1k", "2Mi")},
        side={"limits": amount(500)},
    )
    result = v2.web("setup", annotations=asked)
    cpu = {"shares": 512, "quota": 100000, "period": 100000}
    assert result.adjust == {"linux": {"resources": {"cpu": cpu, "memory": {"limit": 2 << 20}}}}


def test_pod_and_container_have_batch_resources_alike(v2: QoSNode) -> None:
    asked = batch(web={"limits": amount(1000, "2Mi")}, side={"limits": amount(500, "1Mi")})
    v2.fine(annotations=asked, is_of_pod=True)
    assert {*v2.tree.written} >= {"pod/cpu.max", "pod/memory.max"}
    assert "web/cpu.max" not in v2.tree.written
    v2.fine(annotations=asked)
    assert {name: text for name, text in v2.tree.written.items() if "weight" not in name} == {
        "pod/cpu.max": "150000 100000",
        "pod/memory.max": str(3 << 20),
        "web/cpu.max": "100000 100000",
        "web/memory.max": str(2 << 20),
    }
    without = batch(web={"limits": amount(1000, "2Mi")}, side={"requests": amount(500)})
    metadata = v2.fine(annotations=without)
    assert (metadata["pod.cpu.max"], metadata["pod.memory.max"]) == (
        *("max/100000, was 150000/100000", f"max, was {3 << 20}"),
    )


def test_burst_is_lowered_before_a_lower_quota(v2: QoSNode) -> None:
    v2.fine()
    v2.tree.put("web/cpu.max.burst", "40000")
    v2.fine(annotations=batch(web={"limits": amount(300)}))
    written = [name for name, _ in v2.tree.writes if name.startswith("web/cpu.max")]
    assert written == ["web/cpu.max.burst", "web/cpu.max"]


@pytest.mark.parametrize(
    ("new", "burst"), [(40000, "160000"), (100000, "200000"), (120000, "200000")]
)
def test_burst_of_a_pod_is_lowered_before_the_kubelet_lowers_its_quota(
    v2: QoSNode, new: int, burst: str
) -> None:
    """It does so after the container's, by as much."""
    v2.fine()
    for name, quota in (("web", 100000), ("pod", 220000)):
        v2.tree.put(f"{name}/cpu.max", f"{quota} 100000")
    v2.tree.put("pod/cpu.max.burst", "200000")
    v2.fine("resize", resources={"cpu": {"quota": new, "period": 100000}})
    assert v2.tree.get("pod/cpu.max.burst") == burst


@pytest.mark.parametrize(
    ("quota", "given", "burst"),
    [
        ("50000 100000", 300000, "50000"),
        ("50000 100000", "1000% of limit", "50000"),
        ("50000 100000", "50% of limit", "25000"),
        ("50000 100000", 40000, "40000"),
        ("max 100000", 300000, "300000"),
        ("max 100000", "1000% of limit", "0"),
    ],
)
def test_burst_is_at_most_the_quota(v2: QoSNode, quota: str, given: int | str, burst: str) -> None:
    v2.fine()
    v2.tree.put("web/cpu.max", quota)
    v2.fine(containers={"LS": {"cpu.max.burst": given}})
    assert v2.tree.get("web/cpu.max.burst") == burst


@pytest.mark.parametrize("is_batch", [False, True])
def test_resize_lowers_a_burst_above_the_new_quota(v2: QoSNode, is_batch: bool) -> None:
    v2.fine()
    v2.tree.put("web/cpu.max.burst", "40000")
    new = {"cpu": {"quota": 20000, "period": 100000}}
    asked = batch(web={"limits": amount(200, "1Mi")}) if is_batch else {}
    result = v2.web("resize", annotations=asked, resources=new)
    assert (result.error, result.metadata["cpu.max.burst"]) == ("", "20000, was 40000")
    if is_batch:
        assert result.updates[0]["resources"]["cpu"] == {
            "shares": 204,
            "quota": 20000,
            "period": 100000,
        }
    else:
        assert result.updates is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", f"{SPEC}: "),
        ("[]", f"{SPEC}: found an array, expected an object"),
        (
            '{"containers": {"web": 1}}',
            f"{SPEC}.containers.web: found the number 1, expected an object",
        ),
        (
            '{"containers": {"web": {"limits": {"kubernetes.io/batch-cpu": "x"}}}}',
            f"{SPEC}.containers.web.limits.kubernetes.io/batch-cpu: found the string 'x', expected a quantity",
        ),
    ],
)
def test_wrong_batch_resources_are_an_error_with_their_place(
    v2: QoSNode, text: str, message: str
) -> None:
    result = v2.web("setup", annotations={SPEC: text})
    assert result.error.startswith(message)
    assert result.refused


@pytest.mark.parametrize(
    ("number", "is_refusal"), [(errno.EBUSY, True), (errno.EINVAL, True), (errno.EACCES, False)]
)
def test_value_of_a_pod_that_the_kernel_refuses_is_a_refusal(
    v2: QoSNode, number: int, is_refusal: bool
) -> None:
    v2.tree.refuse("web/memory.max", number)
    result = v2.web("create", annotations=batch(web={"limits": amount(100, "1")}))
    assert (result.refused, result.error.startswith(f"{SPEC}: ")) == (is_refusal, is_refusal)
    assert "memory.max" in result.error


def test_kernel_refuses_the_second_file_of_a_knob_as_the_first(tmp_path: Path) -> None:
    v1 = QoSNode(tmp_path, "v1")
    v1.fine("setup")
    v1.tree.put("web/cpu.cfs_period_us", "50000")
    v1.tree.refuse("web/cpu.cfs_quota_us", errno.EBUSY)
    result = v1.web("create", annotations=batch(web={"limits": amount(100, "1Gi")}))
    assert "'100000' was written to" in result.error
    assert result.refused


QUANTITIES: dict[object, int] = {
    0: 0,
    7: 7,
    1.5: 2,
    1e10: 10**10,
    "1500": 1500,
    "+2": 2,
    "2k": 2000,
    "1M": 10**6,
    "2P": 2 * 10**15,
    "1E": 10**18,
    "1Gi": 1 << 30,
    "3Ti": 3 << 40,
    "7Ei": 7 << 60,
    "1.5Gi": 3 << 29,
    ".5Mi": 1 << 19,
    "1.": 1,
    "0.1": 1,
    "1500m": 2,
    "1m": 1,
    "1n": 1,
    "0n": 0,
    "1e9": 10**9,
    "129e6": 129 * 10**6,
    "1E3": 1000,
    "1e+2": 100,
    "15e-1": 2,
    "0e999": 0,
    str(2**63 - 1): 2**63 - 1,
}


@pytest.mark.parametrize(("value", "number"), QUANTITIES.items(), ids=map(str, QUANTITIES))
def test_quantities_of_kubernetes(value: object, number: int) -> None:
    assert quantity(value, "x") == number


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "-1",
            "1..5",
            "1.5.",
            "1ki",
            "Gi",
            ".",
            "e3",
            "1e",
            "1e+",
            "1e+-2",
            "1e1.5",
            "1 Gi",
            "1Gib",
            "\u0661",
        ),
        *(
            None,
            True,
            [],
            -1,
            -1.5,
            float("inf"),
            "9" * 30,
            str(2**63),
            "8Ei",
            "1e19",
            "1e999",
            "9" * 5000,
        ),
    ],
)
def test_other_than_quantities_of_kubernetes_are_refused(value: object) -> None:
    with pytest.raises(Refusal, match=r"^x: found .*, expected "):
        quantity(value, "x")


@pytest.mark.parametrize(
    ("limits", "quota", "memory"),
    [
        ({"kubernetes.io/batch-cpu": 0, "kubernetes.io/batch-memory": "0"}, 1000, 4096),
        (
            {"kubernetes.io/batch-cpu": 2**62, "kubernetes.io/batch-memory": 2**63 - 1},
            2**44 - 1,
            2**63 - 1,
        ),
        ({"kubernetes.io/batch-cpu": "1500"}, 150000, None),
        ({"kubernetes.io/batch-memory": "1e6"}, None, 10**6),
    ],
)
def test_batch_limits_stay_within_what_the_kernel_takes(
    v2: QoSNode, limits: dict[str, object], quota: int | None, memory: int | None
) -> None:
    result = v2.web("setup", annotations=batch(web={"limits": limits}))
    resources = result.adjust["linux"]["resources"]
    assert (resources["cpu"].get("quota"), resources.get("memory", {}).get("limit")) == (
        quota,
        memory,
    )


# Variables


DEVICES = "scheduling.koordinator.sh/device-allocated"
GPUS = {"NVIDIA_VISIBLE_DEVICES": {"annotation": DEVICES, "items": "gpu[].minor"}}


def test_variables_are_made_of_annotations(v2: QoSNode) -> None:
    devices = json.dumps({"gpu": [{"minor": 0}, {"minor": 3}]})
    env = GPUS | {"CLASS": {"annotation": "class"}}
    result = v2.web("setup", annotations={DEVICES: devices, "class": "a b"}, env=env)
    assert result.adjust == {"env": {"NVIDIA_VISIBLE_DEVICES": "0,3", "CLASS": "a b"}}
    assert result.metadata["env"] == "NVIDIA_VISIBLE_DEVICES, CLASS"
    assert v2.web("setup", env=env).adjust is None
    assert v2.web("setup", annotations={DEVICES: devices}, env=env, allow={}).adjust is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ": "),
        ("{}", ": found an object, expected an object with the key 'gpu'"),
        ('{"gpu": 1}', ".gpu: found the number 1, expected an array"),
        ('{"gpu": [1]}', "[0]: found the number 1, expected an object with the key 'minor'"),
        (
            '{"gpu": [{"minor": true}]}',
            "[0].minor: found the boolean true, expected a text or an integer",
        ),
        (
            '{"gpu": [{"minor": "\\u0000"}]}',
            ": found a NUL, expected a value of the variable NVIDIA_VISIBLE_DEVICES",
        ),
    ],
)
def test_annotation_that_makes_no_variable_is_an_error(
    v2: QoSNode, text: str, message: str
) -> None:
    assert v2.web("setup", annotations={DEVICES: text}, env=GPUS).error.startswith(
        f"{DEVICES}{message}"
    )


CDI = {"nvidia.com/gpu": GPUS["NVIDIA_VISIBLE_DEVICES"]}


def test_cdi_devices_are_made_of_the_same_annotation(v2: QoSNode) -> None:
    """systemd takes no device away again that the runtime has injected."""
    devices = {DEVICES: json.dumps({"gpu": [{"minor": 0}, {"minor": 3}]})}
    allow = {"cdiDevices": ["default"]}
    result = v2.web("setup", annotations=devices, cdiDevices=CDI, allow=allow)
    assert result.adjust == {"cdiDevices": ["nvidia.com/gpu=0", "nvidia.com/gpu=3"]}
    assert result.metadata["cdiDevices"] == "nvidia.com/gpu=0, nvidia.com/gpu=3"
    assert (
        v2.web("setup", annotations=devices, cdiDevices=CDI).metadata["ignored"].startswith(DEVICES)
    )
    wrong = v2.web(
        "setup", annotations={DEVICES: '{"gpu": [{"minor": "a b"}]}'}, cdiDevices=CDI, allow=allow
    )
    assert (
        wrong.refused,
        wrong.error.endswith("expected the name of a CDI device of nvidia.com/gpu"),
    ) == (
        True,
        True,
    )
    for kind in ("nvidia.com", "nvidia.com/gpu=0", "a/b/c"):
        assert (
            "a kind of CDI devices, VENDOR/CLASS"
            in v2.web("setup", cdiDevices={kind: CDI["nvidia.com/gpu"]}).error
        )


def test_pod_has_the_most_of_an_init_container_or_the_sum_of_the_others(v2: QoSNode) -> None:
    document = {
        "containers": {
            "web": {"limits": amount(300, "1Mi")},
            "side": {"limits": amount(200, "1Mi")},
        },
        "initContainers": {
            "load": {"limits": amount(400, "8Mi")},
            "less": {"limits": amount(100, "1Mi")},
        },
    }
    v2.fine(annotations={SPEC: json.dumps(document)})
    written = {
        name: v2.tree.written[name] for name in ("pod/cpu.max", "pod/memory.max", "web/cpu.max")
    }
    assert written == {
        "pod/cpu.max": "50000 100000",
        "pod/memory.max": str(8 << 20),
        "web/cpu.max": "30000 100000",
    }
    for wrong in ("", 1):
        error = v2.web(
            "setup", annotations={SPEC: json.dumps(document | {"initContainers": wrong})}
        ).error
        assert error.startswith(f"{SPEC}.initContainers: found ")
