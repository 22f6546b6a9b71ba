"""The containers of the DaemonSet in ``deploy/kubernetes``, run by podman with what the manifests say.

The image is built from the project's Dockerfile, on a base of another suite of Debian than the machine's.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.node.guest.node import PROJECT
from tests.node.guest.shell import run

IMAGE = "localhost/nri:test"
NEXT = "localhost/nri:next"
BASE = "localhost/base:bookworm"
KUBERNETES = PROJECT / "deploy/kubernetes"
CONFIG_MAPS = Path("/var/lib/config-maps")


def build_images() -> None:
    """Build the image with podman, without a network; and one of another build, for an upgrade."""
    run("podman", "import", "/payload/base.tar", BASE)
    build = ["podman", "build", "--network=none"]
    run(
        *build,
        f"--build-arg=BASE={BASE}",
        "--tag",
        IMAGE,
        "--file",
        KUBERNETES / "Dockerfile",
        PROJECT,
    )
    after = Path("/var/tmp/next/Dockerfile")
    after.parent.mkdir(exist_ok=True)
    after.write_text(f"FROM {IMAGE}\nRUN echo x >/opt/nri/lib/_internal/of-another-build\n")
    run(*build, "--tag", NEXT, "--file", after, after.parent)


class DaemonSet:
    """The pod of one overlay on this node.

    :param overlay: ``outside``, ``pre-registered`` or ``uninstall``.
    :param image: of which build.
    """

    def __init__(self, overlay: str, image: str = IMAGE) -> None:
        self._image = image
        self._folder = KUBERNETES / "overlays" / overlay
        base = _spec(KUBERNETES / "base/daemonset.yaml")
        patch = _spec(self._folder / "daemonset.yaml")
        self.spec: dict[str, Any] = {**base, **patch}
        for name in ("initContainers", "containers", "volumes"):
            self.spec[name] = _merged(base.get(name, []), patch.get(name, []))
        assert self.spec["hostNetwork"] is True

    def install(self, *, mode: str = "", status: int | None = 0) -> str:
        """Run the init container to its end; return its output.

        :param mode: another one of install-node than the manifest's.
        """
        (container,) = self.spec["initContainers"]
        if mode:
            program, _, *rest = container["command"]
            container = {**container, "command": [program, mode, *rest]}
        return run("podman", "run", "--rm", *self._options(container), status=status)

    def start(self, name: str) -> None:
        """Start the bridge's container."""
        (container,) = self.spec["containers"]
        run("podman", "run", "--detach", f"--name={name}", *self._options(container))

    def is_ready(self, name: str) -> bool:
        """Return whether the readiness probe succeeds."""
        (container,) = self.spec["containers"]
        command = container["readinessProbe"]["exec"]["command"]
        said = run(
            "podman", "exec", name, "sh", "-c", f"{' '.join(command)}; echo status=$?", status=None
        )
        return said.rstrip().endswith("status=0")

    def _options(self, container: dict[str, Any]) -> list[str]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        options = [
            "--network=host",
            "--read-only",
            "--read-only-tmpfs=false",
            "--security-opt=no-new-privileges",
        ]
        options += ["--cap-drop=all", f"--user={security['runAsUser']}"]
        options += [f"--cap-add={name}" for name in security["capabilities"].get("add", [])]
        if self.spec.get("hostPID"):
            options.append("--pid=host")
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        for mount in container.get("volumeMounts", []):
            source = self._source(volumes[mount["name"]], mount.get("subPath", ""))
            options.append(
                f"--volume={source}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"
            )
        entrypoint, *arguments = container["command"]
        return [*options, f"--entrypoint={entrypoint}", self._image, *arguments]

    def _source(self, volume: dict[str, Any], sub_path: str) -> Path:
        if "hostPath" in volume:
            path = Path(volume["hostPath"]["path"])
            if volume["hostPath"].get("type") == "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            return path
        folder = CONFIG_MAPS / str(volume["configMap"]["name"])
        folder.mkdir(parents=True, exist_ok=True)
        for file in self._folder.glob("*.json"):
            shutil.copy(file, folder)
        for file in self._folder.glob("*.conf"):
            shutil.copy(file, folder)
        return folder / sub_path


def _spec(manifest: Path) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]
    return spec


def _merged(base: list[dict[str, Any]], patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge two lists by name, as a strategic merge patch does; what is below is merged likewise."""
    merged = {each.get("name", each.get("mountPath")): dict(each) for each in base}
    for each in patch:
        key = each.get("name", each.get("mountPath"))
        known = merged.setdefault(key, {})
        for name, value in each.items():
            if name == "volumeMounts":
                known[name] = [*known.get(name, []), *value]
            elif isinstance(value, dict) and isinstance(known.get(name), dict):
                known[name] = {**known[name], **value}
            else:
                known[name] = value
    return list(merged.values())
