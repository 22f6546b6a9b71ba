"""The configuration of containerd, CRI-O, docker or podman, in TOML or JSON: for any bytes the doctor returns
settings, and short findings that are fit for a terminal and quote nothing of another table.
"""

from __future__ import annotations

from fuzz.targets import split
from nri.doctor import containerd, crio, other_engines
from nri.doctor.engines import Engine, Engines
from nri.doctor.node import LookError, Node

CHOICES = ("containerd 1.6", "containerd 1.7", "containerd 2", "CRI-O", "podman", "docker", "a hook")

SECRET = "canary-4711"
_CREDENTIALS = f'\n[plugins."x.auth".a.auth]\npassword = "{SECRET}"\n'.encode()
_VERSIONS = {"containerd 1.6": (1, 6, 20), "containerd 1.7": (1, 7, 24), "containerd 2": (2, 1, 9)}


class _Files(Node):
    """A node on which each file has the same content."""

    def __init__(self, content: bytes) -> None:
        super().__init__("/nonexistent")
        self._content = content

    def read(self, path: str, limit: int = 0) -> bytes:
        if "\0" in path:
            raise LookError(path, "embedded null byte")
        return self._content

    def names(self, path: str) -> list[str]:
        return ["10.conf", "20.json", "30.toml"] if path.endswith(".d") else []

    def exists(self, path: str) -> bool:
        return len(path) % 2 == 0


def check(data: bytes) -> None:
    """Read the bytes as the configuration that the first one selects."""
    choice, content = split(data, len(CHOICES))
    kind = CHOICES[choice]
    node = _Files(content if kind in ("docker", "a hook") else content + _CREDENTIALS)
    if kind == "a hook":
        assert all(path.startswith("/hooks.d/") for path in other_engines.hooks(node, ("/hooks.d",)))
        return
    if kind in ("podman", "docker"):
        configured, found = other_engines.look(node, Engines([Engine(kind, "", (5, 4, 2))], []))
        assert [each.engine for each in configured] == [kind]
    elif kind == "CRI-O":
        settings, found = crio.look(node, Engine(kind, "", (1, 31, 0)))
        assert settings.enabled in (True, False)
    else:
        settings, found = containerd.look(node, Engine("containerd", "", _VERSIONS[kind]))
        assert (settings.enabled is None) == (kind == "containerd 1.6") or settings.is_disabled_as_plugin
    for finding in found:
        assert finding.text.isprintable() and finding.mend.isprintable(), "a finding with control characters"
        assert len(finding.text) < 2100 and len(finding.mend) < 2100, "a finding carries the document"
        assert SECRET not in finding.text + finding.mend, "a finding quotes credentials"


_NRI = b'[plugins."io.containerd.nri.v1.nri"]\n'
_CRI = (
    b'[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\nBinaryName = "/opt/nri/sbin/nri-runc"\n'
)
WORDS = (
    b"version = 2\n",
    b"version = 3\n",
    b'imports = ["a*", "b"]\n',
    b'disabled_plugins = ["io.containerd.nri.v1.nri"]\n',
    _NRI,
    b"[plugins.nri]\n",
    b"disable = true\n",
    b"disable_connections = 1\n",
    b'socket_path = "/x"\n',
    b'plugin_request_timeout = "5s"\n',
    b"[crio.nri]\nenable_nri = false\n",
    b"[crio.runtime.runtimes.a]\n",
    b'[engine.runtimes]\nnri-runc = ["/a"]\n',
    b'"\\u0007"',
)
SEEDS = (
    b"\1version = 2\n" + _NRI + b'disable = false\nplugin_request_timeout = "5s"\n' + _CRI,
    b"\2version = 3\nimports = ['a*', 'b']\n"
    + _NRI
    + b"disable = true\ndefault_validator = {enable = true, required_plugins = ['a', 1]}\n",
    b"\1[plugins.nri]\ndisable = false\n",
    b"\0version = 2\n" + _CRI,
    b"\2[plugins]\nnri = 7\ncri = 1979-05-27\n",
    b"\3[crio.nri]\nenable_nri = true\nnri_plugin_request_timeout = 5000\n[crio.runtime]\nhooks_dir = ['a', 1]\n",
    b"\3[crio]\nnri = []\nruntime = {runtimes = {a = 1}, cgroup_manager = {}}\n",
    b'\4[engine]\nruntime = "nri-crun"\nhooks_dir = ["/a"]\n[engine.runtimes]\nnri-crun = ["/sbin/nri-crun", 1]\n',
    b'\5{"runtimes": {"nri-runc": {"path": "/opt/nri/sbin/nri-runc"}, "a": 1}, "default-runtime": "nri-runc"}',
    b'\6{"hook": {"path": "/opt/nri/lib/nri", "args": ["nri", "hook", 1]}}',
)
