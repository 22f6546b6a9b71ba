"""Paths of cgroups: a runtime's cgroupsPath, the kernel's ``/proc/PID/cgroup``, the kubelet's names of pods.

Sources: the OCI runtime specification, ``config-linux.md`` "Cgroups Path"; for the systemd style, which it leaves to
the runtime, runc's ``ExpandSlice`` and ``getUnitName`` (libcontainer/cgroups/systemd/common.go), with which crun and
runsc agree; ``systemd.slice(5)``; ``cgroups(7)``; for pods the kubelet's ``pkg/kubelet/cm``, ``GetPodContainerName``,
``podCgroupNamePrefix``, ``defaultNodeAllocatableCgroupName``, ``ToSystemd`` and ``escapeSystemdCgroupName`` ("_" for
"-"). This module does not access the file system.
"""

from __future__ import annotations

import os

from .errors import CgroupPathError, quoted

MAX_COMPONENT = 255
"""The maximum size of a directory's name in bytes (NAME_MAX)."""

MAX_PATH = 4096
"""The maximum size of a path in bytes (PATH_MAX)."""

_CONTROLS = frozenset(map(chr, [*range(32), *range(127, 160)]))
_SLICE = ".slice"
_POD_ROOT = "kubepods"
_POD_CLASSES = (["burstable"], ["besteffort"])


def expand(cgroups_path: str) -> str:
    """Return the path, below a hierarchy's mount, of the cgroup that an OCI cgroupsPath names.

    It begins with "/", has no empty, "." or ".." component, is not "/" itself, and so never leaves the mount.

    - cgroupfs style, ``/kubepods/burstable/podUID/ID``: the path itself. A relative one counts from the
      hierarchy's root (the specification leaves that to the runtime; runc counts from its own cgroup, which only
      the container's process shows).
    - systemd style, ``SLICE:PREFIX:NAME``: the unit ``PREFIX-NAME.scope``, or NAME itself if that ends in
      ``.slice``, below SLICE with all its parents; an empty SLICE is ``system.slice``, and ``-`` is the root.

    :raises CgroupPathError: the text has neither style, or names the root.
    """
    if not cgroups_path:
        raise CgroupPathError(
            "cgroupsPath is empty: expected '/PARENT/NAME' or 'SLICE:PREFIX:NAME'"
        )
    _check_text(cgroups_path)
    if cgroups_path.startswith("/") or ":" not in cgroups_path:
        parts = [part for part in cgroups_path.split("/") if part not in ("", ".")]
    else:
        parts = _systemd(cgroups_path)
    for part in parts:
        if part == "..":
            raise CgroupPathError(
                f"cgroupsPath {quoted(cgroups_path)} holds '..': it could leave the cgroup tree"
            )
        if len(os.fsencode(part)) > MAX_COMPONENT:
            raise CgroupPathError(
                f"cgroupsPath {quoted(cgroups_path)}: {quoted(part)} is longer than "
                f"{MAX_COMPONENT} bytes"
            )
    if not parts:
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)} is the root cgroup: never a container's own"
        )
    path = "/" + "/".join(parts)
    if len(os.fsencode(path)) > MAX_PATH:
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)} makes a path longer than {MAX_PATH} bytes"
        )
    return path


def memberships(text: str) -> dict[str, str]:
    """Return the paths in the text of ``/proc/PID/cgroup``, by v1 controller; the path in v2 is under "".

    A v1 hierarchy without controllers is under its name, ``name=systemd``. Lines that are not as documented are left
    out. The paths are as the kernel prints them: relative to the reader's cgroup namespace, with "..".
    """
    by_controller: dict[str, str] = {}
    for line in text.split("\n"):
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and (hierarchy == "0") == (controllers == ""):
            by_controller |= dict.fromkeys(controllers.split(","), path)
    return by_controller


def is_named_after(path: str, container_id: str) -> bool:
    """Return whether a cgroup is named ``ID`` or ``PREFIX-ID``, either with ``.scope``. Never for an empty id."""
    name = "-" + path.rpartition("/")[2]
    return container_id != "" and name.endswith((f"-{container_id}", f"-{container_id}.scope"))


def is_pod(path: str) -> bool:
    """Return whether a cgroup's path in its hierarchy names a pod's own cgroup; not ``kubepods``, and not a class.

    cgroupfs driver: ``…/kubepods[/burstable|/besteffort]/podUID``; systemd driver:
    ``…kubepods[-burstable|-besteffort]-podUID.slice``. They are below the kubelet's ``--cgroup-root``, if it has one.
    """
    *parents, name = path.split("/")
    if name.endswith(_SLICE):
        head, _, uid = name.removesuffix(_SLICE).rpartition("-pod")
        parents = head.split("-")
    else:
        _, _, uid = f"/{name}".partition("/pod")
    if parents[-1:] in _POD_CLASSES:
        parents.pop()
    # A UID is a UUID, or 32 hexadecimal digits for a static pod, or the value in a static pod's manifest.
    signs = uid.replace("_", "0").replace(".", "0").replace("-", "0")
    return signs.isascii() and signs.isalnum() and parents[-1:] == [_POD_ROOT]


def is_pods(path: str) -> bool:
    """Return whether a cgroup's name is that of the one above all pods: ``kubepods``, or ``…kubepods.slice``."""
    slice_name = f"{_POD_ROOT}{_SLICE}"
    return f"/{path}".endswith((f"/{_POD_ROOT}", f"/{slice_name}", f"-{slice_name}"))


def _systemd(cgroups_path: str) -> list[str]:
    fields = cgroups_path.split(":")
    if len(fields) != 3:
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)} has {len(fields) - 1} colons: expected 'SLICE:PREFIX:NAME', "
            "or a path that begins with '/'"
        )
    parent, prefix, name = fields
    if name in ("", _SLICE, f"-{_SLICE}") or "/" in f"{prefix}{name}":
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)} makes no unit name: PREFIX and NAME must not hold '/', "
            "and NAME must be a container's, neither empty nor the root slice"
        )
    # With an empty PREFIX runc and crun name the unit "-NAME.scope".
    if name.endswith(_SLICE):
        unit = name
    else:
        unit = f"{prefix}-{name}.scope"
    return [*_slices(parent or "system.slice", cgroups_path), unit]


def _slices(name: str, cgroups_path: str) -> list[str]:
    """Return a slice's parents and the slice: ``a-b.slice`` is below ``a.slice``. systemd.slice(5)."""
    stem = name.removesuffix(_SLICE)
    if stem == "-":  # "-.slice"; runtimes also write "-"
        return []
    words = stem.split("-")
    has_parts = "" not in words and "/" not in name
    is_short = len(os.fsencode(name)) <= MAX_COMPONENT
    if stem == name or not has_parts or not is_short:
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)}: {quoted(name)} is no slice: expected one like 'a-b.slice', "
            f"of at most {MAX_COMPONENT} bytes, without '/' and without an empty part between dashes"
        )
    return ["-".join(words[: depth + 1]) + _SLICE for depth in range(len(words))]


def _check_text(cgroups_path: str) -> None:
    try:
        # JSON can contain a lone surrogate, which is not text; a name that the locale cannot encode cannot be opened.
        cgroups_path.encode()
        size = len(os.fsencode(cgroups_path))
    except UnicodeEncodeError as error:
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)} cannot be a file name: {error.reason}"
        ) from error
    if size > MAX_PATH:
        raise CgroupPathError(f"cgroupsPath {quoted(cgroups_path)} is longer than {MAX_PATH} bytes")
    found = _CONTROLS.intersection(cgroups_path)
    if found:
        raise CgroupPathError(
            f"cgroupsPath {quoted(cgroups_path)} holds the control character {min(found)!r}"
        )
