"""The Kubernetes manifests: what they name exists, and the plugins reach what they need."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri import config
from nri.stub import DEFAULT_SOCKET
from nri.v1bridge import BridgeOptions
from nri.v1bridge.serving import LAST_CALLS
from tests.support import kustomize
from tests.support.installing import DEPLOY, ROOT, run
from tests.support.kubernetes_objects import comparable

KUBERNETES = DEPLOY / "kubernetes"
WITH_BRIDGE = ["outside", "pre-registered"]
OVERLAYS = [*WITH_BRIDGE, "uninstall"]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def daemonset(overlay: str) -> Any:
    """The specification of an overlay's DaemonSet."""
    (found,) = [each for each in kustomize.build(KUBERNETES / "overlays" / overlay) if each["kind"] == "DaemonSet"]
    return found["spec"]


def pod(overlay: str) -> Any:
    """The pod of an overlay's DaemonSet."""
    return daemonset(overlay)["template"]["spec"]


def container(overlay: str, name: str) -> Any:
    """A container by its name; `install` and `configure` are init containers."""
    (found,) = [each for each in pod(overlay)["initContainers"] + pod(overlay)["containers"] if each["name"] == name]
    return found


def mounts(overlay: str, name: str) -> dict[str, tuple[str, bool]]:
    """What a container has mounted: the place, what of the node it is, and whether it is writable."""
    volumes = {volume["name"]: volume for volume in pod(overlay)["volumes"]}
    return {
        mount["mountPath"]: (_of(volumes[mount["name"]]), not mount.get("readOnly", False))
        for mount in container(overlay, name).get("volumeMounts", [])
    }


def _of(volume: dict[str, Any]) -> str:
    return str(volume["hostPath"]["path"] if "hostPath" in volume else f"configMap {volume['configMap']['name']}")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_volume_is_mounted_and_every_mount_has_its_volume(overlay: str) -> None:
    spec = pod(overlay)
    containers = spec["initContainers"] + spec["containers"]
    used = {mount["name"] for container in containers for mount in container.get("volumeMounts", [])}
    assert used == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_the_settings_are_right_and_are_mounted(overlay: str) -> None:
    kustomization = load(KUBERNETES / "overlays" / overlay / "kustomization.yaml")
    (made,) = kustomization["configMapGenerator"]
    (file,) = made["files"]
    BridgeOptions.parse((KUBERNETES / "overlays" / overlay / file).read_text())
    name = {"outside": "bridge", "pre-registered": "install"}[overlay]
    # The bridge does not read a file in a directory that all may write to, which a mounted ConfigMap is.
    place = {"outside": f"/bridge-options/{file}", "pre-registered": "/bridge-options"}[overlay]
    assert mounts(overlay, name)[place] == (f"configMap {made['name']}", False)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_images_name_is_replaced_in_all_containers(overlay: str) -> None:
    spec = pod(overlay)
    images = {container["image"] for container in spec["initContainers"] + spec["containers"]}
    assert images == {"registry.example.com/nri:0.1.0"}


def test_a_bridge_in_a_container_reaches_all_that_its_plugins_need() -> None:
    spec = pod("outside")
    assert mounts("outside", "bridge") == {
        os.path.dirname(DEFAULT_SOCKET): ("/var/run/nri", True),
        "/etc/nri": ("/etc/nri", False),
        "/opt/nri": ("/opt/nri", False),  # not bin alone, whose links lead to lib
        "/sys/fs/cgroup": ("/sys/fs/cgroup", True),
        "/run/systemd": ("/run/systemd", False),  # the directory: systemd makes its socket anew
        "/bridge-options/v1bridge.json": ("configMap nri-v1bridge", False),
    }
    assert spec["hostPID"] is True
    bridge = container("outside", "bridge")
    security = bridge["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (0, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert "cpu" not in bridge["resources"]["limits"]
    assert spec["terminationGracePeriodSeconds"] > LAST_CALLS


def test_the_bridge_in_a_container_is_run_with_its_settings(installed: Path) -> None:
    bridge = container("outside", "bridge")
    program, *arguments = bridge["command"]
    assert (installed / program.lstrip("/")).resolve().name == "nri"
    assert arguments == ["bridge", "--config", "/bridge-options/v1bridge.json"]
    (mount,) = [mount for mount in bridge["volumeMounts"] if mount["name"] == "bridge-options"]
    assert (mount["mountPath"], mount["subPath"]) == ("/bridge-options/v1bridge.json", "v1bridge.json")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_needs_the_clusters_network(overlay: str) -> None:
    assert (pod(overlay)["hostNetwork"], pod(overlay)["dnsPolicy"]) == (True, "Default")
    containers = pod(overlay)["initContainers"] + pod(overlay)["containers"]
    assert not any("ports" in container for container in containers)


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_a_pod_is_ready_when_the_nodes_bridge_is_well_and_is_never_restarted_for_it(overlay: str) -> None:
    bridge = container(overlay, "bridge")
    probe = bridge["readinessProbe"]
    assert probe["exec"]["command"] == ["/usr/local/bin/nri", "status", "--check"]
    assert probe["timeoutSeconds"] > 1
    assert not {"livenessProbe", "startupProbe"} & set(bridge)
    # Root alone may connect to its socket.
    assert (bridge["securityContext"]["runAsUser"], bridge["securityContext"]["runAsNonRoot"]) == (0, False)
    assert mounts(overlay, "bridge")["/var/run/nri"][0] == "/var/run/nri"


def test_a_rollout_stops_at_the_first_node_that_gets_worse() -> None:
    def strategy(overlay: str) -> Any:
        assert daemonset(overlay)["updateStrategy"]["type"] == "RollingUpdate"
        return daemonset(overlay)["updateStrategy"]["rollingUpdate"]

    for overlay in WITH_BRIDGE:
        assert strategy(overlay) == {"maxSurge": 0, "maxUnavailable": 1}
        for name in ("bridge", "configuration"):
            probe = container(overlay, name)["readinessProbe"]
            # A pod counts as available only when its probe has had the time to fail.
            assert daemonset(overlay)["minReadySeconds"] > probe["periodSeconds"] * probe["failureThreshold"]
    assert strategy("uninstall") == {"maxSurge": 0, "maxUnavailable": "100%"}
    assert daemonset("uninstall")["minReadySeconds"] == 0


def test_with_a_surge_a_new_bridge_waits_beside_the_old_one(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    where = {"resources": [KUBERNETES / "overlays/outside"], "components": [KUBERNETES / "components/surge"]}
    paths = {key: [os.path.relpath(path, overlay) for path in value] for key, value in where.items()}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(paths))
    (found,) = [each["spec"] for each in kustomize.build(overlay) if each["kind"] == "DaemonSet"]
    assert found["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    # The locks that the new pod's containers wait for are in directories of the node that they can write to.
    assert mounts("outside", "bridge")["/var/run/nri"] == ("/var/run/nri", True)
    assert mounts("outside", "configuration")["/node/etc/nri"] == ("/etc/nri", True)


@pytest.mark.parametrize("overlay", WITH_BRIDGE)
def test_the_config_map_is_copied_after_the_plugins_and_before_any_bridge(overlay: str) -> None:
    assert [each["name"] for each in pod(overlay)["initContainers"]] == ["install", "configure"]
    for name, mode in (("configure", "once"), ("configuration", "follow")):
        program, *arguments = container(overlay, name)["command"]
        assert f"COPY deploy/kubernetes/follow-configuration {program}\n" in (KUBERNETES / "Dockerfile").read_text()
        assert arguments == [mode, "/configuration", "/node"]
        assert mounts(overlay, name) == {
            "/configuration": ("configMap nri-configuration", False),
            "/node/etc/nri": ("/etc/nri", True),
            "/node/opt/nri": ("/opt/nri", False),
        }
        (mount,) = [each for each in container(overlay, name)["volumeMounts"] if each["name"] == "configuration"]
        assert "subPath" not in mount  # the kubelet does not update it
    probe = container(overlay, "configuration")["readinessProbe"]["exec"]["command"]
    assert probe == ["/usr/local/sbin/follow-configuration", "probe", "/configuration", "/node"]


def test_the_config_map_has_the_sample_configuration() -> None:
    samples = {path.name: path.read_text() for path in (ROOT / "conf/resource.d").glob("*.conf")}
    for folder in ("components/configuration", "groups/canary"):
        assert {p.name: p.read_text() for p in (KUBERNETES / folder / "resource.d").iterdir()} == samples


@pytest.mark.parametrize("folder", ["components/configuration", "groups/canary", "groups/rest"])
def test_each_groups_files_are_a_valid_configuration(folder: str) -> None:
    assert config.load(str(KUBERNETES / folder / "resource.d"), check_owner=False).plugins


def test_no_node_is_in_two_groups_and_none_in_no_group() -> None:
    canary, rest = (
        next(each["spec"] for each in kustomize.build(KUBERNETES / "groups" / name) if each["kind"] == "DaemonSet")
        for name in ("canary", "rest")
    )
    for group, name in ((canary, "canary"), (rest, "rest")):
        assert group["selector"]["matchLabels"]["nri.io/group"] == name
    (chosen,) = canary["template"]["spec"]["nodeSelector"].items() - rest["template"]["spec"]["nodeSelector"].items()
    affinity = rest["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expected = {"key": chosen[0], "operator": "NotIn", "values": [chosen[1]]}
    assert affinity == {"nodeSelectorTerms": [{"matchExpressions": [expected]}]}


@pytest.mark.parametrize(
    ("overlay", "mode"), [("outside", "outside"), ("pre-registered", "register"), ("uninstall", "uninstall")]
)
def test_the_init_container_runs_what_the_image_has(overlay: str, mode: str) -> None:
    program, *arguments = container(overlay, "install")["command"]
    assert arguments == [mode, "/node"]
    dockerfile = (KUBERNETES / "Dockerfile").read_text()
    assert f"COPY deploy/kubernetes/install-node {program}\n" in dockerfile
    # install-node finds its tools beside it.
    assert "COPY --from=tree /src/tools /usr/local/lib/nri\n" in dockerfile
    assert os.path.normpath(f"{os.path.dirname(program)}/../lib/nri") == "/usr/local/lib/nri"
    needed = {*re.findall(r'"\$tools/([\w-]+)"', (KUBERNETES / "install-node").read_text()), "layout"}
    assert needed <= set(re.findall(r"/src/tools/([\w-]+)\n", dockerfile))


def test_the_overlays_have_one_name_so_that_each_replaces_the_other() -> None:
    for overlay in OVERLAYS:
        patch = load(KUBERNETES / "overlays" / overlay / "daemonset.yaml")
        assert patch["metadata"] == {"name": "nri-v1bridge"}
        assert load(KUBERNETES / "overlays" / overlay / "kustomization.yaml")["namespace"] == "kube-system"


def test_what_is_only_to_be_there_has_no_rights() -> None:
    (idle,) = pod("uninstall")["containers"]
    assert "volumeMounts" not in idle
    assert idle["securityContext"]["runAsNonRoot"] is True
    assert idle["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_init_container_sees_what_the_nodes_processes_run(overlay: str) -> None:
    """A bridge in a container has no capability; one that the runtime launches has all, and is shown to few."""
    assert pod(overlay)["hostPID"] is True
    install = container(overlay, "install")
    more = {} if overlay == "outside" else {"add": ["SYS_PTRACE"]}
    assert install["securityContext"]["capabilities"] == {"drop": ["ALL"], **more}
    assert install["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_init_container_writes_where_the_node_keeps_nri(overlay: str) -> None:
    writable = {place: of for place, (of, can_write) in mounts(overlay, "install").items() if can_write}
    expected = {"/node/opt/nri": "/opt/nri"}
    if overlay != "outside":
        expected["/node/etc/nri"] = "/etc/nri"
    if overlay == "uninstall":
        expected |= {"/node/run/nri": "/var/run/nri", "/node/var/log": "/var/log"}
    assert writable == expected


@pytest.mark.parametrize("folder", [*[f"overlays/{name}" for name in OVERLAYS], "groups/canary", "groups/rest"])
def test_kustomize_makes_of_it_what_these_tests_looked_at(folder: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    text = run("kubectl", "kustomize", KUBERNETES / folder).stdout
    # The name of a ConfigMap that is not changed in place ends in a hash.
    text = re.sub(r"(name: nri-v1bridge(?:-canary|-rest)?)-[0-9a-z]{10}$", r"\1", text, flags=re.MULTILINE)
    assert comparable(yaml.safe_load_all(text)) == comparable(kustomize.build(KUBERNETES / folder))


def test_the_dockerfile_copies_what_is_there_and_what_is_built() -> None:
    text = (KUBERNETES / "Dockerfile").read_text()
    sources = re.findall(r"^COPY (?!--from)(\S+) \S+$", text, re.MULTILINE)
    let_in = (KUBERNETES / "Dockerfile.dockerignore").read_text().split()
    assert sorted(f"!{path}" for path in sources) == sorted(let_in[1:])
    for path in sources:
        assert path == "dist/nri" or (ROOT / path).exists(), path
