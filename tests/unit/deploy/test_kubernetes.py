"""The Kubernetes manifests: what they name exists, and the plugins reach what they need."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.stub import DEFAULT_SOCKET
from nri.v1bridge import BridgeOptions
from nri.v1bridge.serving import LAST_CALLS
from tests.support.installing import DEPLOY, ROOT, run

KUBERNETES = DEPLOY / "kubernetes"
WITH_BRIDGE = ["outside", "pre-registered"]
OVERLAYS = [*WITH_BRIDGE, "uninstall"]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def merged(base: Any, patch: Any) -> Any:
    """As a strategic merge does it: objects by key, lists of objects by their name, others replaced."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return base | {key: merged(base.get(key), value) for key, value in patch.items()}
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(item, dict) for item in base + patch):
        named = {_name(item): item for item in base}
        for item in patch:
            named[_name(item)] = merged(named.get(_name(item)), item)
        return list(named.values())
    return patch


def _name(item: dict[str, Any]) -> str:
    return str(item.get("mountPath") or item.get("name") or item)


def daemonset(overlay: str) -> Any:
    """The specification of an overlay's DaemonSet."""
    base, patch = (load(KUBERNETES / folder / "daemonset.yaml") for folder in ("base", f"overlays/{overlay}"))
    return merged(base, patch)["spec"]


def pod(overlay: str) -> Any:
    """The pod of an overlay's DaemonSet."""
    return daemonset(overlay)["template"]["spec"]


def mounts(overlay: str, kind: str) -> dict[str, tuple[str, bool]]:
    """What the one container of a kind has mounted: the place, what of the node it is, and whether it is writable."""
    spec = pod(overlay)
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    (container,) = spec[kind]
    return {
        mount["mountPath"]: (_of(volumes[mount["name"]]), not mount.get("readOnly", False))
        for mount in container.get("volumeMounts", [])
    }


def _of(volume: dict[str, Any]) -> str:
    return str(volume["hostPath"]["path"] if "hostPath" in volume else f"configMap {volume['configMap']['name']}")


@pytest.mark.parametrize("folder", ["base", *[f"overlays/{overlay}" for overlay in OVERLAYS]])
def test_what_a_kustomization_names_exists(folder: str) -> None:
    where = KUBERNETES / folder
    kustomization = load(where / "kustomization.yaml")
    files = [*kustomization["resources"], *[patch["path"] for patch in kustomization.get("patches", [])]]
    files += [file for made in kustomization.get("configMapGenerator", []) for file in made["files"]]
    for file in files:
        assert (where / file).exists(), file
        assert not (where / file).is_dir() or (where / file / "kustomization.yaml").exists()


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
    kind = {"outside": "containers", "pre-registered": "initContainers"}[overlay]
    # The bridge does not read a file in a directory that all may write to, which a mounted ConfigMap is.
    place = {"outside": f"/bridge-options/{file}", "pre-registered": "/bridge-options"}[overlay]
    assert mounts(overlay, kind)[place] == (f"configMap {made['name']}", False)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_images_name_is_replaced_in_all_containers(overlay: str) -> None:
    spec = pod(overlay)
    (image,) = load(KUBERNETES / "overlays" / overlay / "kustomization.yaml")["images"]
    assert {container["image"] for container in spec["initContainers"] + spec["containers"]} == {image["name"]}


def test_a_bridge_in_a_container_reaches_all_that_its_plugins_need() -> None:
    spec = pod("outside")
    assert mounts("outside", "containers") == {
        os.path.dirname(DEFAULT_SOCKET): ("/var/run/nri", True),
        "/etc/nri": ("/etc/nri", False),
        "/opt/nri": ("/opt/nri", False),  # not bin alone, whose links lead to lib
        "/sys/fs/cgroup": ("/sys/fs/cgroup", True),
        "/run/systemd": ("/run/systemd", False),  # the directory: systemd makes its socket anew
        "/bridge-options/v1bridge.json": ("configMap nri-v1bridge", False),
    }
    assert spec["hostPID"] is True
    (bridge,) = spec["containers"]
    security = bridge["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (0, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert "cpu" not in bridge["resources"]["limits"]
    assert spec["terminationGracePeriodSeconds"] > LAST_CALLS


def test_the_bridge_in_a_container_is_run_with_its_settings(installed: Path) -> None:
    (bridge,) = pod("outside")["containers"]
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


def test_the_bridge_in_a_container_is_ready_when_it_is_connected_and_is_never_restarted_for_it() -> None:
    (bridge,) = pod("outside")["containers"]
    probe = bridge["readinessProbe"]
    assert probe["exec"]["command"] == [*bridge["command"][:2], "--probe"]
    assert probe["timeoutSeconds"] > 1
    assert not {"livenessProbe", "startupProbe"} & set(bridge)


def test_a_new_bridge_in_a_container_waits_beside_the_old_one_and_an_uninstallation_does_not() -> None:
    def surge(overlay: str) -> Any:
        strategy = daemonset(overlay)["updateStrategy"]
        assert strategy["type"] == "RollingUpdate"
        return strategy["rollingUpdate"]

    assert surge("outside") == {"maxSurge": 1, "maxUnavailable": 0}
    assert surge("uninstall") == {"maxSurge": 0, "maxUnavailable": "100%"}
    assert "updateStrategy" not in daemonset("pre-registered")
    # The lock that it waits for is in a directory of the node that it can write to.
    assert mounts("outside", "containers")["/var/run/nri"] == ("/var/run/nri", True)


@pytest.mark.parametrize(
    ("overlay", "mode"), [("outside", "outside"), ("pre-registered", "register"), ("uninstall", "uninstall")]
)
def test_the_init_container_runs_what_the_image_has(overlay: str, mode: str) -> None:
    (install,) = pod(overlay)["initContainers"]
    program, *arguments = install["command"]
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


@pytest.mark.parametrize("overlay", ["pre-registered", "uninstall"])
def test_what_is_only_to_be_there_has_no_rights(overlay: str) -> None:
    (idle,) = pod(overlay)["containers"]
    assert "volumeMounts" not in idle
    assert idle["securityContext"]["runAsNonRoot"] is True
    assert idle["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_init_container_sees_what_the_nodes_processes_run(overlay: str) -> None:
    """A bridge in a container has no capability; one that the runtime launches has all, and is shown to few."""
    assert pod(overlay)["hostPID"] is True
    (install,) = pod(overlay)["initContainers"]
    more = {} if overlay == "outside" else {"add": ["SYS_PTRACE"]}
    assert install["securityContext"]["capabilities"] == {"drop": ["ALL"], **more}
    assert install["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_init_container_writes_where_the_node_keeps_nri(overlay: str) -> None:
    writable = {place: of for place, (of, can_write) in mounts(overlay, "initContainers").items() if can_write}
    expected = {"/node/opt/nri": "/opt/nri"}
    if overlay == "pre-registered":
        expected["/node/etc/nri"] = "/etc/nri"
    assert writable == expected


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_of_it_what_these_tests_looked_at(overlay: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    text = run("kubectl", "kustomize", KUBERNETES / "overlays" / overlay).stdout
    documents = {document["kind"]: document for document in yaml.safe_load_all(text)}
    assert set(documents) == ({"DaemonSet"} if overlay == "uninstall" else {"ConfigMap", "DaemonSet"})
    made = documents["DaemonSet"]["spec"]["template"]["spec"]
    assert documents["DaemonSet"]["spec"].get("updateStrategy") == daemonset(overlay).get("updateStrategy")
    expected = pod(overlay)
    for kind in ("initContainers", "containers"):
        for container in expected[kind]:
            container["image"] = "registry.example.com/nri:0.1.0"
    for volume in expected["volumes"]:
        if "configMap" in volume:
            volume["configMap"]["name"] = documents["ConfigMap"]["metadata"]["name"]
    assert _sorted(made) == _sorted(expected)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return sorted((_sorted(item) for item in value), key=_name)
    return value


def test_the_dockerfile_copies_what_is_there_and_what_is_built() -> None:
    text = (KUBERNETES / "Dockerfile").read_text()
    sources = re.findall(r"^COPY (?!--from)(\S+) \S+$", text, re.MULTILINE)
    let_in = (KUBERNETES / "Dockerfile.dockerignore").read_text().split()
    assert sorted(f"!{path}" for path in sources) == sorted(let_in[1:])
    for path in sources:
        assert path == "dist/nri" or (ROOT / path).exists(), path
