"""containerd's config.toml, one function for each generation of containerd.

In all of them containerd writes only below `root` and at `socket`. It has no snapshotter but `native`, which works on
any file system, no CNI and no AppArmor; the pod's own container has the image of ``.image``; and a machine where
an OOM score cannot be lowered is accepted. The NRI paths are containerd's defaults, because an enclosure has its own
/opt/nri, /etc/nri and /run.
"""

from collections.abc import Callable
from pathlib import Path

from harness.containerd import image

_SNAPSHOTTERS = ("aufs", "blockfile", "btrfs", "devmapper", "erofs", "overlayfs", "zfs")
_TRACING = ("io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing")


def config(
    version: tuple[int, ...],
    *,
    root: Path,
    socket: Path,
    oci_runtime: str = "",
    request_timeout: float = 40.0,
) -> str:
    """Return a config.toml for a containerd of this version.

    :param oci_runtime: the path of the OCI runtime for CRI; "" for runc.
    :param request_timeout: the seconds that a v2 plugin has for an event.
    """
    for generation, text in _GENERATIONS.items():
        if version[: len(generation)] == generation:
            cri = "io.containerd.grpc.v1.cri" if version < (2,) else "io.containerd.cri.v1.runtime"
            nri = "" if version < (1, 7) else _NRI_V2.format(timeout=request_timeout)
            return text(root, socket) + nri + (_binary(cri, oci_runtime) if oci_runtime else "")
    raise RuntimeError(
        f"no configuration for containerd {version}, only for {sorted(_GENERATIONS)}"
    )


def _places(root: Path, socket: Path) -> str:
    disabled = [*(f"io.containerd.snapshotter.v1.{name}" for name in _SNAPSHOTTERS), *_TRACING]
    return f"""\
root = "{root}/root"
state = "{root}/state"
oom_score = 0
disabled_plugins = {disabled}

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"
"""


def _binary(cri: str, oci_runtime: str) -> str:
    runc = f'[plugins."{cri}".containerd.runtimes.runc'
    return f"""
{runc}]
  runtime_type = "io.containerd.runc.v2"

{runc}.options]
  BinaryName = "{oci_runtime}"
"""


def _config_1(root: Path, socket: Path) -> str:
    """Configuration version 2. NRI v0.1 has no switch: it is on when /etc/nri/conf.json exists. On 1.7 NRI is v2."""
    return f"""\
version = 2
{_places(root, socket)}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image.NAME}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_tcp_service = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{root}/cni/bin"
  conf_dir = "{root}/cni/net.d"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
"""


_NRI_V2 = """
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  socket_path = "/var/run/nri/nri.sock"
  plugin_path = "/opt/nri/plugins"
  plugin_config_path = "/etc/nri/conf.d"
  plugin_registration_timeout = "60s"
  plugin_request_timeout = "{timeout:g}s"
"""


def _config_2(root: Path, socket: Path) -> str:
    """Configuration version 3: CRI is several plugins. NRI v2 is on by default, v0.1 has no switch here either."""
    return f"""\
version = 3
{_places(root, socket)}
[plugins."io.containerd.grpc.v1.cri"]
  disable_tcp_service = true

[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux"
  snapshotter = "native"
  differ = "walking"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{image.NAME}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true

[plugins."io.containerd.cri.v1.runtime".cni]
  conf_dir = "{root}/cni/net.d"
"""


_GENERATIONS: dict[tuple[int, ...], Callable[[Path, Path], str]] = {
    (1, 6): _config_1,
    (1, 7): _config_1,
    (2,): _config_2,
}
