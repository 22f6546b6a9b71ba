"""A container image with only Debian's static busybox: it needs no network, and is reproducible.

`write_image` writes an OCI layout as a tar, for `ctr images import`; `unpack_rootfs` fills a directory, for an OCI
bundle. Both have /bin/busybox and a link to it for each of `APPLETS`.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")  # from the package busybox-static
NAME = "docker.io/local/busybox:1"
APPLETS = ("sh", "sleep", "cat", "echo", "true", "false", "ls", "grep", "mkdir", "kill")
DIRECTORIES = ("bin", "dev", "etc", "proc", "sys", "tmp")
# The command of pause containers, and of containers that only have to exist.
FOREVER = ("/bin/sleep", "1000000")

_OCI = "application/vnd.oci.image"


def write_image(target: Path, *, name: str = NAME) -> None:
    """Write the image to the tar `target`; without a command it sleeps for ever."""
    layer = _layer()
    config = _json(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(
                os.uname().machine, os.uname().machine
            ),
            "os": "linux",
            "config": {"Entrypoint": list(FOREVER), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _descriptor(f"{_OCI}.config.v1+json", config),
            "layers": [_descriptor(f"{_OCI}.layer.v1.tar", layer)],
        }
    )
    entry = _descriptor(f"{_OCI}.manifest.v1+json", manifest)
    entry["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(target, "w") as tar:
        for blob in (layer, config, manifest):
            _add_file(tar, f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob)
        _add_file(tar, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        _add_file(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))


def unpack_rootfs(target: Path) -> None:
    """Fill the directory `target`, which is made if necessary, with the image's only layer."""
    for directory in DIRECTORIES:
        (target / directory).mkdir(parents=True, exist_ok=True)
    shutil.copy2(BUSYBOX, target / "bin/busybox")
    for applet in APPLETS:
        (target / "bin" / applet).symlink_to("busybox")


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add_file(tar, "bin/busybox", BUSYBOX.read_bytes(), mode=0o755)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)  # owner and time stay 0, so that the bytes are reproducible
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
