"""deploy/: what it names exists, it agrees with what `make install` lays out, and plugins can do their work in it."""

import configparser
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.stub import DEFAULT_SOCKET
from nri.v1bridge import BridgeOptions
from nri.v1bridge.serving import LAST_CALLS
from tests.support.waiting import SOON, wait_until

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ["outside", "pre-registered"]
BINARIES = ("clearcfs", "konfine", "nri", "v1bridge")
BRIDGE = "opt/nri/plugins/10-v1bridge"


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def source(tmp_path: Path) -> Path:
    """A checkout with what tools/install needs, and files for executables."""
    root = tmp_path / "source"
    (root / "dist/nri").mkdir(parents=True)
    for name in BINARIES:
        (root / "dist/nri" / name).write_text("#!/bin/sh\n")
        (root / "dist/nri" / name).chmod(0o755)
    shutil.copytree(ROOT / "conf", root / "conf")
    (root / "tools").mkdir()
    for name in ("install", "install-lib"):
        shutil.copy(ROOT / "tools" / name, root / "tools")
    return root


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What `make install DESTDIR=…` lays out."""
    run(source(tmp_path) / "tools/install", tmp_path / "installed")
    return tmp_path / "installed"


def test_without_rights_it_stops_before_anything_is_done_and_says_why() -> None:
    with tempfile.TemporaryDirectory(prefix="nri-test-") as folder:
        os.chmod(folder, 0o755)  # anybody may look
        checkout = source(Path(folder))
        shutil.copy(ROOT / "Makefile", checkout)
        shut = Path(folder) / "shut"
        shut.mkdir(mode=0o555)
        (shut / "usr").mkdir(mode=0o555)
        nobody = 65534
        user: dict[str, Any] = {"user": nobody, "group": nobody, "extra_groups": []} if os.geteuid() == 0 else {}
        for command in (["tools/install", str(shut)], ["make", "--silent", "install", f"DESTDIR={shut}"]):
            done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, **user)
            assert done.returncode != 0
            (said,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
            who = pwd.getpwuid(user.get("user", os.geteuid())).pw_name
            assert said.startswith(f"tools/install: cannot write to {shut} as {who}; run it as root, or name a tree ")
            assert done.stdout == ""
        assert [path.name for path in shut.rglob("*")] == ["usr"]


def links(tree: Path) -> dict[str, str]:
    """The links below a directory."""
    return {str(path.relative_to(tree)): os.readlink(path) for path in tree.rglob("*") if path.is_symlink()}


# systemd


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd/nri-v1bridge.service")
    return parser


def test_the_unit_runs_what_is_installed_with_settings_that_are_right(
    unit: configparser.ConfigParser, installed: Path
) -> None:
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert arguments == ["bridge", "--config", "/etc/nri/v1bridge.json"]
    assert (installed / program.lstrip("/")).resolve().name == "nri"
    BridgeOptions.parse((DEPLOY / "systemd/v1bridge.json").read_text())


def test_the_unit_does_not_start_beside_a_bridge_that_the_runtime_launches(
    unit: configparser.ConfigParser, installed: Path
) -> None:
    assert unit["Unit"]["AssertPathExists"] == f"!/{BRIDGE}"
    assert (installed / BRIDGE).is_symlink()


def test_the_unit_leaves_plugins_the_cgroups_and_what_else_they_need(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["ProtectControlGroups"] == service["ProtectKernelTunables"] == "no"
    assert (service["ProtectProc"], service["ProcSubset"]) == ("default", "all")
    assert service["CapabilityBoundingSet"] == ""  # see test_the_plugins_need_no_capability
    assert (service["NoNewPrivileges"], service["RestrictNamespaces"], service["LimitCORE"]) == ("yes", "yes", "0")
    assert "AF_UNIX" in service["RestrictAddressFamilies"].split()
    assert not {"User", "DynamicUser", "ReadOnlyPaths", "InaccessiblePaths", "RootDirectory"} & set(service)


def test_the_unit_lets_the_chains_that_are_running_end(unit: configparser.ConfigParser) -> None:
    assert unit["Service"]["KillMode"] == "mixed"
    assert int(unit["Service"]["TimeoutStopSec"]) > LAST_CALLS


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    text = (DEPLOY / "systemd/nri-v1bridge.service").read_text()
    copy = tmp_path / "nri-v1bridge.service"
    copy.write_text(text.replace("/usr/local/bin/nri ", "/bin/true "))  # it must exist, here
    done = run("systemd-analyze", "verify", "--man=no", copy, check=False)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    assert (done.returncode, [line for line in done.stderr.splitlines() if "nri-v1bridge" in line]) == (0, [])


def test_systemd_finds_the_unit_no_more_exposed_than_its_plugins_need(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    copy = tmp_path / "nri-v1bridge.service"
    shutil.copy(DEPLOY / "systemd/nri-v1bridge.service", copy)
    # Tenths of its scale, in which 100 is no protection. Most of what is left is root, the network and the cgroups.
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=50", copy, check=False)
    if "unrecognized option" in done.stderr or "Failed to" in done.stderr:
        pytest.skip(f"systemd-analyze security --offline does not work here (systemd 250): {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout[-200:]
    assert "Overall exposure level" in done.stdout


def test_make_install_registers_no_bridge_where_the_unit_is_installed(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    (node / "etc/systemd/system").mkdir(parents=True)
    shutil.copy(DEPLOY / "systemd/nri-v1bridge.service", node / "etc/systemd/system")

    said = run(checkout / "tools/install", node).stdout

    assert not (node / BRIDGE).is_symlink()
    assert f"no /{BRIDGE}, as nri-v1bridge.service is the bridge here" in said


# OCI hooks


def test_the_hooks_run_what_is_installed(installed: Path) -> None:
    for file in (DEPLOY / "hooks.d").iterdir():
        path = json.loads(file.read_text())["hook"]["path"]
        assert (installed / path.lstrip("/")).resolve().name == "nri"


# Kubernetes


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


def pod(overlay: str) -> Any:
    """The pod of an overlay's DaemonSet."""
    base, patch = (load(KUBERNETES / folder / "daemonset.yaml") for folder in ("base", f"overlays/{overlay}"))
    return merged(base, patch)["spec"]["template"]["spec"]


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


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_are_right_and_are_mounted(overlay: str) -> None:
    kustomization = load(KUBERNETES / "overlays" / overlay / "kustomization.yaml")
    (made,) = kustomization["configMapGenerator"]
    (file,) = made["files"]
    BridgeOptions.parse((KUBERNETES / "overlays" / overlay / file).read_text())
    kind = {"outside": "containers", "pre-registered": "initContainers"}[overlay]
    # The bridge does not read a file in a directory that all may write to, which a mounted ConfigMap is.
    place = {"outside": f"/settings/{file}", "pre-registered": "/settings"}[overlay]
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
        "/settings/v1bridge.json": ("configMap nri-v1bridge", False),
    }
    assert spec["hostPID"] is True
    (bridge,) = spec["containers"]
    security = bridge["securityContext"]
    assert security["runAsUser"] == 0
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert "cpu" not in bridge["resources"]["limits"]
    assert spec["terminationGracePeriodSeconds"] > LAST_CALLS


def test_the_bridge_in_a_container_is_run_with_its_settings(installed: Path) -> None:
    (bridge,) = pod("outside")["containers"]
    program, *arguments = bridge["command"]
    assert (installed / program.lstrip("/")).resolve().name == "nri"
    assert arguments == ["bridge", "--config", "/settings/v1bridge.json"]
    (mount,) = [mount for mount in bridge["volumeMounts"] if mount["name"] == "settings"]
    assert (mount["mountPath"], mount["subPath"]) == ("/settings/v1bridge.json", "v1bridge.json")


def test_what_is_only_to_be_there_has_no_rights() -> None:
    (idle,) = pod("pre-registered")["containers"]
    assert "volumeMounts" not in idle
    assert idle["securityContext"]["runAsNonRoot"] is True
    assert idle["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_init_container_sees_what_the_nodes_processes_run(overlay: str) -> None:
    """A bridge in a container has no capability; one that the runtime launches has all, and is shown to few."""
    assert pod(overlay)["hostPID"] is True
    (install,) = pod(overlay)["initContainers"]
    more = {"add": ["SYS_PTRACE"]} if overlay == "pre-registered" else {}
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
    assert set(documents) == {"ConfigMap", "DaemonSet"}
    made = documents["DaemonSet"]["spec"]["template"]["spec"]
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


# The script of the init container


def install_node(mode: str, node: Path, image: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run(KUBERNETES / "install-node", mode, node, image, check=check)


@pytest.fixture
def image(installed: Path) -> Path:
    """The image's root, with the settings that are mounted into it."""
    shutil.copytree(KUBERNETES / "overlays/pre-registered", installed / "settings")
    return installed


@pytest.fixture
def node(tmp_path: Path) -> Path:
    for place in ("node/opt/nri", "node/etc/nri"):
        (tmp_path / place).mkdir(parents=True)
    return tmp_path / "node"


def test_a_node_with_the_bridge_registered_has_what_make_install_lays_out(node: Path, image: Path) -> None:
    install_node("register", node, image)

    assert links(node / "opt/nri") == links(image / "opt/nri")
    assert {file.name for file in (node / "opt/nri/lib").iterdir()} == set(BINARIES)
    assert all(path.exists() for path in (node / "opt/nri").rglob("*"))
    assert BridgeOptions.parse((node / "etc/nri/conf.d/10-v1bridge.conf").read_text()).log_level == "info"
    assert [file.name for file in (node / "etc/nri/conf.d").iterdir()] == ["10-v1bridge.conf"]


def test_a_node_with_the_bridge_outside_has_the_same_but_no_bridge_to_launch(node: Path, image: Path) -> None:
    install_node("outside", node, image)

    expected = links(image / "opt/nri")
    del expected["plugins/10-v1bridge"]
    assert links(node / "opt/nri") == expected
    assert not list((node / "etc/nri").iterdir())


def test_two_bridges_are_refused(node: Path, image: Path) -> None:
    install_node("register", node, image)
    refused = install_node("outside", node, image, check=False)
    assert refused.returncode == 1
    assert "found /opt/nri/plugins/10-v1bridge on this node" in refused.stderr


@pytest.mark.parametrize("mode", ["outside", "register"])
def test_an_upgrade_of_a_node_keeps_the_folder_before_and_what_is_not_ours(
    node: Path, image: Path, mode: str
) -> None:
    lib = node / "opt/nri/lib"
    install_node(mode, node, image)
    (node / "opt/nri/bin/mine").write_text("#!/bin/sh\n")
    first = lib.resolve()

    assert "is there already" in install_node(mode, node, image).stdout
    assert lib.resolve() == first

    folders = [first]
    for number in range(2):
        (image / "opt/nri/lib/clearcfs").write_text(f"#!/bin/sh\n# {number}\n")
        install_node(mode, node, image)
        assert lib.resolve() not in folders
        assert (node / "opt/nri/lib.previous").resolve() == folders[-1]
        folders.append(lib.resolve())
    assert [folder.exists() for folder in folders] == [False, True, True]
    assert (node / "opt/nri/bin/mine").exists()


# The folders of binaries


class Upgrades:
    """A folder of binaries that are built anew, and installed."""

    def __init__(self, root: Path) -> None:
        self.dist = root / "dist"
        self.dist.mkdir()
        self.nri = root / "opt/nri"
        self.lib = self.nri / "lib"
        shutil.copy(shutil.which("sleep") or "/bin/sleep", self.dist / "v1bridge")
        (self.dist / "_internal").mkdir()
        (self.dist / "_internal/link").symlink_to("../nri")
        self.build("1.2.3", "one")

    def build(self, version: str, content: str = "") -> None:
        (self.dist / "nri").write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 'nri {version} (Python 3)'\n")
        (self.dist / "nri").chmod(0o755)
        (self.dist / "_internal/a file").write_text(content)

    def install(self) -> str:
        return run(ROOT / "tools/install-lib", self.dist, self.nri).stdout

    @property
    def folders(self) -> set[str]:
        return {path.name for path in self.nri.iterdir() if path.is_dir() and not path.is_symlink()}

    @property
    def current(self) -> str:
        return os.readlink(self.lib)


@pytest.fixture
def upgrades(tmp_path: Path) -> Upgrades:
    return Upgrades(tmp_path)


def test_a_folder_is_named_by_version_and_content(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    assert re.fullmatch(r"lib\.1\.2\.3-[0-9a-f]{12}", first)
    upgrades.build("1.2.3", "two")
    upgrades.install()
    assert upgrades.current != first
    upgrades.build("2.0.0+g1a2b3c4", "two")
    upgrades.install()
    assert upgrades.current.startswith("lib.2.0.0+g1a2b3c4-")
    assert (upgrades.lib / "v1bridge").stat().st_mode & 0o777 == 0o755
    assert upgrades.lib.stat().st_mode & 0o777 == 0o755
    assert os.readlink(upgrades.lib / "_internal/link") == "../nri"


def test_a_file_or_a_link_with_another_name_or_end_is_another_content(upgrades: Upgrades) -> None:
    upgrades.install()
    seen = [upgrades.current]
    (upgrades.dist / "_internal/a file").rename(upgrades.dist / "_internal/b file")
    upgrades.install()
    seen.append(upgrades.current)
    (upgrades.dist / "_internal/link").rename(upgrades.dist / "_internal/other")
    upgrades.install()
    seen.append(upgrades.current)
    (upgrades.dist / "_internal/other").unlink()
    (upgrades.dist / "_internal/other").symlink_to("../v1bridge")
    upgrades.install()
    seen.append(upgrades.current)
    assert len(set(seen)) == 4


def test_at_no_moment_of_an_upgrade_is_there_no_plugin(upgrades: Upgrades) -> None:
    upgrades.install()
    missed = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            if not os.path.exists(upgrades.lib / "v1bridge"):
                missed.append(time.monotonic())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(5):
            upgrades.build("1.2.3", f"upgrade {number}")
            upgrades.install()
    finally:
        is_over.set()
        thread.join()
    assert missed == []


def test_a_version_that_cannot_be_told_or_is_no_name_is_no_obstacle(upgrades: Upgrades) -> None:
    upgrades.build("../../etc/x y")
    upgrades.install()
    assert upgrades.current.startswith("lib.....etcx-")
    (upgrades.dist / "nri").write_text("#!/bin/sh\nexit 1\n")
    upgrades.install()
    assert upgrades.current.startswith("lib.unknown-")


def test_the_same_content_again_changes_nothing(upgrades: Upgrades) -> None:
    upgrades.install()
    upgrades.build("1.2.3", "two")
    upgrades.install()
    before = sorted((str(path), path.lstat().st_ino, path.lstat().st_ctime_ns) for path in upgrades.nri.rglob("*"))
    for path in upgrades.dist.rglob("*"):
        os.utime(path, follow_symlinks=False)
    (upgrades.dist / ".made-from").write_text("another time")
    assert upgrades.install() == f"{upgrades.current} is there already\n"
    after = sorted((str(path), path.lstat().st_ino, path.lstat().st_ctime_ns) for path in upgrades.nri.rglob("*"))
    assert after == before


def test_one_rename_goes_back_and_the_next_upgrade_works_as_before(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    upgrades.build("1.2.3", "two")
    upgrades.install()
    second = upgrades.current
    run("mv", "-T", upgrades.nri / "lib.previous", upgrades.lib)
    assert upgrades.current == first
    assert (upgrades.lib / "nri").exists()
    upgrades.install()
    assert (upgrades.current, os.readlink(upgrades.nri / "lib.previous")) == (second, first)
    assert upgrades.folders == {first, second}


def test_a_folder_that_a_process_runs_from_stays_for_as_long_as_it_does(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    process = subprocess.Popen([upgrades.lib / "v1bridge", "1000"])
    try:
        for content in ("two", "three", "four"):
            upgrades.build("1.2.3", content)
            upgrades.install()
        assert first in upgrades.folders
        assert len(upgrades.folders) == 3
        # Where it is mounted, or below which directory it is installed, does not matter.
        upgrades.nri.rename(upgrades.nri.with_name("elsewhere"))
        upgrades.nri = upgrades.nri.with_name("elsewhere")
        upgrades.lib = upgrades.nri / "lib"
        upgrades.build("1.2.3", "five")
        assert f"kept {upgrades.nri}/{first}, which a process runs from" in upgrades.install()
        assert first in upgrades.folders
    finally:
        process.kill()
        process.wait()
    upgrades.build("1.2.3", "six")
    upgrades.install()
    assert first not in upgrades.folders
    assert len(upgrades.folders) == 2


def test_a_folder_that_somebody_changed_is_not_taken_for_what_its_name_says(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    (upgrades.nri / first / "_internal/a file").write_text("changed")
    upgrades.build("1.2.3", "two")
    upgrades.install()
    upgrades.build("1.2.3", "one")
    upgrades.install()
    assert upgrades.current == f"{first}.again"
    assert (upgrades.lib / "_internal/a file").read_text() == "one"


def test_an_upgrade_that_is_broken_off_leaves_what_there_was_and_is_cleared_away_later(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    (upgrades.dist / "nri").write_text("#!/bin/sh\nexit 1\n")
    killed = "cp() { mkdir $3/_internal; kill -9 $$; }\n" + (ROOT / "tools/install-lib").read_text()
    done = subprocess.run(["sh", "-c", killed, "install-lib", upgrades.dist, upgrades.nri], check=False)
    assert done.returncode == -9
    assert upgrades.current == first
    (left,) = upgrades.folders - {first}
    assert left.startswith(".lib.")
    upgrades.build("1.2.3", "two")
    upgrades.install()
    assert left in upgrades.folders  # it may belong to another one that is still at work
    upgrades.build("1.2.3", "three")
    os.utime(upgrades.nri / left, (1, 1))
    upgrades.install()
    assert left not in upgrades.folders
    assert upgrades.current != first


def test_upgrades_at_once_leave_one_of_them(upgrades: Upgrades, tmp_path: Path) -> None:
    """One that has made its folder, and not yet the link to it, may not lose it to another."""
    upgrades.install()
    slow = tmp_path / "slow"
    shutil.copytree(upgrades.dist, slow)
    (slow / "_internal/a file").write_text("slow")
    # It waits where its folder is there and the link is not.
    script = (ROOT / "tools/install-lib").read_text()
    waiting = (
        f'mv() {{ command mv "$@"; touch {tmp_path}/made; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; }}\n'
    )
    first = subprocess.Popen(["sh", "-c", waiting + script, "install-lib", slow, upgrades.nri])
    assert wait_until((tmp_path / "made").exists, SOON)
    upgrades.build("1.2.3", "two")
    second = subprocess.Popen([ROOT / "tools/install-lib", upgrades.dist, upgrades.nri])
    try:
        assert wait_until(lambda: second.poll() is not None or is_waiting_for_a_lock(second.pid), SOON)
    finally:
        (tmp_path / "go").touch()
        assert (first.wait(SOON), second.wait(SOON)) == (0, 0)
    assert (upgrades.lib / "_internal/a file").read_text() == "two"
    assert (upgrades.nri / "lib.previous/_internal/a file").read_text() == "slow"


def is_waiting_for_a_lock(pid: int) -> bool:
    """Return whether a child of the process is in flock(2)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return any(Path(f"/proc/{child}/comm").read_text() == "flock\n" for child in children)
    except OSError:
        return False  # a child has ended in between


def test_a_directory_in_the_place_of_the_link_is_named_and_left_alone(upgrades: Upgrades) -> None:
    upgrades.lib.mkdir(parents=True)
    command = [ROOT / "tools/install-lib", upgrades.dist, upgrades.nri]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    wrong = f"found a directory at {upgrades.lib}, expected a link or nothing; move it away"
    assert (done.returncode, done.stderr) == (1, f"install-lib: {wrong}\n")
    assert os.listdir(upgrades.nri) == ["lib"]
