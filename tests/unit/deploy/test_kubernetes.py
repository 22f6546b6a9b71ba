"""The Kubernetes manifests: what they name exists, and the plugins reach what they need."""

import functools
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri import config
from nri.cli.device_plugin import HEALTH, device_plugin
from nri.kubernetes.devices import KUBELET_DIR
from nri.kubernetes.pod_resources import SOCKET
from nri.v1bridge import BridgeOptions
from nri.v1bridge.serving import LAST_CALLS
from nri.v2.stub import DEFAULT_SOCKET
from tests.support import kustomize
from tests.support.installing import DEPLOY, ROOT

pytestmark = pytest.mark.kubectl

KUBERNETES = DEPLOY / "kubernetes"
WITH_BRIDGE = ["outside", "pre-registered"]
OVERLAYS = [*WITH_BRIDGE, "uninstall"]


def without_hash(name: str) -> str:
    """A ConfigMap's name without the hash that kustomize adds: the bridge's, whose change is to replace pods."""
    return re.sub(r"^(nri-v1bridge)-[a-z0-9]{10}$", r"\1", name)


@functools.cache
def daemonset(folder: str) -> Any:
    """The specification of a kustomization's DaemonSet."""
    (built,) = [
        each for each in kustomize.build(KUBERNETES / folder) if each["kind"] == "DaemonSet"
    ]
    return built["spec"]


def pod(overlay: str) -> Any:
    """The pod of an overlay's DaemonSet."""
    return daemonset(f"overlays/{overlay}")["template"]["spec"]


def containers(overlay: str) -> dict[str, Any]:
    """All containers by name; `install` and `configure` are init containers."""
    return {
        each["name"]: each for each in pod(overlay)["initContainers"] + pod(overlay)["containers"]
    }


def mounts(overlay: str, name: str) -> dict[str, tuple[str, bool]]:
    """By place: the path of the node or the ConfigMap that a container has mounted, and whether it is writable."""
    volumes = {
        volume["name"]: str(
            volume["hostPath"]["path"]
            if "hostPath" in volume
            else f"configMap {without_hash(volume['configMap']['name'])}"
        )
        for volume in pod(overlay)["volumes"]
    }
    return {
        mount["mountPath"]: (volumes[mount["name"]], not mount.get("readOnly", False))
        for mount in containers(overlay)[name].get("volumeMounts", [])
    }


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_metrics_are_a_container_without_rights_beside_the_bridge(
    overlay: str, tmp_path: Path
) -> None:
    parts: dict[str, Any] = {
        "resources": [os.path.relpath(KUBERNETES / "overlays" / overlay, tmp_path)]
    }
    parts["components"] = [os.path.relpath(KUBERNETES / "components/metrics", tmp_path)]
    parts["images"] = [{"name": "registry.example.com/nri", "newName": "my/nri", "newTag": "9"}]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(parts))
    (built,) = [each for each in kustomize.build(tmp_path) if each["kind"] == "DaemonSet"]
    spec = built["spec"]["template"]["spec"]
    (metrics,) = [each for each in spec["containers"] if each["name"] == "metrics"]
    assert len(spec["containers"]) > 1
    assert metrics["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {each["image"] for each in spec["initContainers"] + spec["containers"]} == {"my/nri:9"}
    assert {mount["name"] for mount in metrics["volumeMounts"]} <= {
        volume["name"] for volume in spec["volumes"]
    }


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
@pytest.mark.parametrize("suffix", ["", "-canary"])
def test_device_plugin_has_the_kubelets_directory_and_only_with_topology_a_token(
    overlay: str, suffix: str, tmp_path: Path
) -> None:
    parts: dict[str, Any] = {
        "resources": [os.path.relpath(KUBERNETES / "overlays" / overlay, tmp_path)]
    }
    parts |= {
        "nameSuffix": suffix,
        "images": [{"name": "registry.example.com/nri-device-plugin", "newTag": "9"}],
    }
    built: dict[str, Any] = {}
    for added in (["cpus"], ["cpus", "topology"]):
        parts["components"] = [
            os.path.relpath(KUBERNETES / f"components/{name}", tmp_path) for name in added
        ]
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(parts))
        objects = kustomize.build(tmp_path)
        built = {each["kind"]: each for each in objects if each["kind"] != "DaemonSet"}
        sets = {each["metadata"]["name"]: each for each in objects if each["kind"] == "DaemonSet"}
        bridge = sets.pop(f"nri-v1bridge{suffix}")["spec"]["template"]["spec"]
        assert "serviceAccountName" not in bridge
        spec = sets.pop(f"nri-device-plugin{suffix}")["spec"]["template"]["spec"]
        assert not sets
        (cpus,) = spec["containers"]
        paths = {
            volume["name"]: volume.get("hostPath", {}).get("path") for volume in spec["volumes"]
        }
        mounted = {
            mount["mountPath"]: (paths[mount["name"]], mount.get("readOnly", False))
            for mount in cpus["volumeMounts"]
        }
        token = (
            {"/var/run/secrets/kubernetes.io/serviceaccount": (None, True)}
            if "topology" in added
            else {}
        )
        assert mounted == token | {
            KUBELET_DIR: (KUBELET_DIR, False),
            os.path.dirname(SOCKET): (os.path.dirname(SOCKET), True),
            "/etc/nri": ("/etc/nri", True),
            "/var/run/nri": ("/var/run/nri", False),
        }
        assert cpus["image"] == "registry.example.com/nri-device-plugin:9"
        assert (cpus["securityContext"]["runAsUser"], cpus["securityContext"]["capabilities"]) == (
            0,
            {"drop": ["ALL"]},
        )
        assert cpus["readinessProbe"]["httpGet"] == {
            "path": HEALTH,
            "port": cpus["ports"][0]["name"],
        }
        assert ["--node" in " ".join(cpus["args"])] == ["topology" in added]
        assert (
            device_plugin.make_context("device-plugin", list(cpus["args"])).params["listen"]
            == "$(NODE_IP):10754"
        )
        assert not spec["automountServiceAccountToken"]
    account, role, binding = (
        built[kind] for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    )
    assert spec["serviceAccountName"] == account["metadata"]["name"] == f"nri-device-plugin{suffix}"
    assert binding["subjects"][0] | account["metadata"] == binding["subjects"][0]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (rule,) = role["rules"]
    assert rule["verbs"] == ["create", "patch", "delete"]
    assert (rule["apiGroups"], rule["resources"]) == (
        ["topology.node.k8s.io"],
        ["noderesourcetopologies"],
    )


@pytest.mark.parametrize("group", ["canary", "rest"])
def test_all_daemonsets_of_a_group_run_on_its_nodes_alone(group: str, tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    overlay = tmp_path / "kubernetes/overlays/outside/kustomization.yaml"
    overlay.write_text(
        overlay.read_text().replace("components:\n", "components:\n  - ../../components/cpus\n")
    )
    bridge, cpus = [
        each
        for each in kustomize.build(tmp_path / "kubernetes/groups" / group)
        if each["kind"] == "DaemonSet"
    ]
    selectors = [each["spec"]["selector"]["matchLabels"] for each in (bridge, cpus)]
    assert selectors[0]["app.kubernetes.io/name"] != selectors[1]["app.kubernetes.io/name"]
    assert {each["nri.io/group"] for each in selectors} == {group}
    nodes = [
        {key: each["spec"]["template"]["spec"].get(key) for key in ("nodeSelector", "affinity")}
        for each in (bridge, cpus)
    ]
    assert nodes[0] == nodes[1]
    assert "nri.io/wave" in str(nodes[0])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlays_have_their_volumes_and_replace_each_other(overlay: str) -> None:
    all_containers = containers(overlay).values()
    used = {
        mount["name"] for container in all_containers for mount in container.get("volumeMounts", [])
    }
    assert used == {volume["name"] for volume in pod(overlay)["volumes"]}
    assert not any("ports" in container for container in all_containers)
    # One name in one namespace.
    patch, kustomization = (
        yaml.safe_load((KUBERNETES / "overlays" / overlay / f"{name}.yaml").read_text())
        for name in ("daemonset", "kustomization")
    )
    assert (patch["metadata"], kustomization["namespace"]) == (
        {"name": "nri-v1bridge"},
        "kube-system",
    )


@pytest.mark.parametrize(
    ("overlay", "mode"),
    [("outside", "outside"), ("pre-registered", "register"), ("uninstall", "uninstall")],
)
def test_init_container_has_the_rights_it_needs(overlay: str, mode: str) -> None:
    install = containers(overlay)["install"]
    assert install["command"][1:] == [mode, "/node"]
    # A bridge in a container has no capability; one that the runtime launches has all, and is shown to few.
    more = {} if overlay == "outside" else {"add": ["SYS_PTRACE"]}
    assert install["securityContext"]["capabilities"] == {"drop": ["ALL"], **more}
    assert install["securityContext"]["allowPrivilegeEscalation"] is False

    expected = {"/node/opt/nri": "/opt/nri"}
    if overlay != "outside":
        expected["/node/etc/nri"] = "/etc/nri"
    if overlay == "uninstall":
        expected |= {"/node/run/nri": "/var/run/nri", "/node/var/log": "/var/log"}
    assert {
        place: of for place, (of, can_write) in mounts(overlay, "install").items() if can_write
    } == expected


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_settings_are_valid_and_mounted(overlay: str) -> None:
    folder = KUBERNETES / "overlays" / overlay
    (made,) = yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]
    (file,) = made["files"]
    assert BridgeOptions.of_text((folder / file).read_text())[1] == []
    # The bridge does not read a file in a directory that all may write to, which a mounted ConfigMap is.
    name, place = {
        "outside": ("bridge", f"/bridge-options/{file}"),
        "pre-registered": ("install", "/bridge-options"),
    }[overlay]
    assert mounts(overlay, name)[place] == (f"configMap {made['name']}", False)


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_one_node_after_the_other_gets_a_new_bridge(overlay: str) -> None:
    bridge, spec = containers(overlay)["bridge"], daemonset(f"overlays/{overlay}")
    # Root alone may connect to its socket.
    assert (bridge["securityContext"]["runAsUser"], bridge["securityContext"]["runAsNonRoot"]) == (
        0,
        False,
    )
    assert mounts(overlay, "bridge")["/var/run/nri"][0] == "/var/run/nri"
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    probe = bridge["readinessProbe"]
    # A pod counts as available only when its probe has had the time to fail.
    assert spec["minReadySeconds"] > probe["periodSeconds"] * probe["failureThreshold"]
    # A ConfigMap that is refused reaches all nodes: it must not be in the way of a rollout.
    assert "readinessProbe" not in containers(overlay)["configuration"]


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_config_map_is_copied_before_any_bridge_starts(overlay: str) -> None:
    assert [each["name"] for each in pod(overlay)["initContainers"]] == ["install", "configure"]
    for name, mode in (("configure", "once"), ("configuration", "follow")):
        container = containers(overlay)[name]
        assert container["command"][1:] == [mode, "/configuration", "/node"]
        assert mounts(overlay, name) == {
            "/configuration": ("configMap nri-configuration", False),
            "/node/etc/nri": ("/etc/nri", True),
            "/node/opt/nri": ("/opt/nri", False),
        }
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "configuration"]
        assert "subPath" not in mount  # the kubelet does not update it


def test_bridge_in_a_container_reaches_all_that_its_plugins_need(installed: Path) -> None:
    assert mounts("outside", "bridge") == {
        os.path.dirname(DEFAULT_SOCKET): ("/var/run/nri", True),
        "/etc/nri": ("/etc/nri", False),
        "/opt/nri": ("/opt/nri", False),  # not bin alone, whose links lead to lib
        "/sys/fs/cgroup": ("/sys/fs/cgroup", True),
        "/run/systemd": ("/run/systemd", False),  # the directory: systemd makes its socket anew
        "/bridge-options/v1bridge.json": ("configMap nri-v1bridge", False),
    }
    bridge = containers("outside")["bridge"]
    assert bridge["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert bridge["securityContext"]["allowPrivilegeEscalation"] is False
    assert "cpu" not in bridge["resources"]["limits"]
    assert pod("outside")["terminationGracePeriodSeconds"] > LAST_CALLS
    assert (installed / bridge["command"][0].lstrip("/")).resolve().name == "nri"


def test_uninstallation_idles_without_rights() -> None:
    (idle,) = pod("uninstall")["containers"]
    assert "volumeMounts" not in idle
    assert idle["securityContext"]["runAsNonRoot"] is True
    assert idle["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_configurations_are_valid_and_defaults_are_the_samples() -> None:
    samples = {path.name: path.read_text() for path in (ROOT / "conf/resource.d").glob("*.conf")}
    for folder in ("components/configuration", "groups/canary", "groups/rest"):
        assert config.load(str(KUBERNETES / folder / "resource.d"), check_owner=False).plugins
        if folder != "groups/rest":
            assert {
                p.name: p.read_text() for p in (KUBERNETES / folder / "resource.d").iterdir()
            } == samples


def test_each_node_is_in_exactly_one_group() -> None:
    canary, rest = daemonset("groups/canary"), daemonset("groups/rest")
    assert canary["selector"] != rest["selector"]
    (chosen,) = (
        canary["template"]["spec"]["nodeSelector"].items()
        - rest["template"]["spec"]["nodeSelector"].items()
    )
    affinity = rest["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    expected = {"key": chosen[0], "operator": "NotIn", "values": [chosen[1]]}
    assert affinity == {"nodeSelectorTerms": [{"matchExpressions": [expected]}]}


def test_dockerfile_copies_what_the_scripts_need() -> None:
    text = (KUBERNETES / "Dockerfile").read_text()
    sources = re.findall(r"^COPY (?!--from)(\S+) \S+$", text, re.MULTILINE)
    let_in = (KUBERNETES / "Dockerfile.dockerignore").read_text().split()
    assert sorted(f"!{path}" for path in sources) == sorted(let_in[1:])
    assert [path for path in sources if path != "dist/nri" and not (ROOT / path).exists()] == []
    needed = {
        *re.findall(r'"\$tools/([\w-]+)"', (KUBERNETES / "install-node").read_text()),
        "layout",
    }
    assert needed <= set(re.findall(r"/src/tools/([\w-]+)\n", text))
