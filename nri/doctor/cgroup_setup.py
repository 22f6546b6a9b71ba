"""The cgroups of a node: their version, and whether the runtimes and the kubelet have the same cgroup driver."""

from __future__ import annotations

import os
import re

from nri.cgroups import CgroupError, Mounts
from nri.doctor.engines import Engines
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node, Process
from nri.doctor.settings import Settings

SUBJECT = "cgroups"

KUBELET = "/var/lib/kubelet/config.yaml"

ASKS_RUNTIME = {"containerd": (2, 0), "CRI-O": (1, 28)}
"""The first version of a runtime that tells the kubelet its driver; a newer kubelet then ignores its own setting."""

_DRIVER = re.compile(r"^\s{0,4}\"?cgroupDriver\"?\s*:\s*[\"']?(systemd|cgroupfs)\b", re.MULTILINE)


def findings(node: Node, engines: Engines, all_settings: list[Settings]) -> Findings:
    """Return the findings of this subject."""
    found = Findings(SUBJECT)
    _version(node, found)
    kubelet, file = _kubelet(node, engines.processes or [], found)
    for settings in all_settings:
        for name, is_systemd in {(each.name, each.is_systemd) for each in settings.handlers}:
            if is_systemd is None:
                continue
            driver = "systemd" if is_systemd else "cgroupfs"
            found.ok("driver", f"{settings.about}: {name} has the cgroup driver {driver}")
            if kubelet and kubelet != driver and settings.serves:
                _differ(settings, name, driver, kubelet, file, found)
    return found


def _version(node: Node, found: Findings) -> None:
    try:
        data = node.read("/proc/self/mountinfo" if node.is_own else "/proc/1/mountinfo", 16 * 1024 * 1024)
        mounts = Mounts.parse(os.fsdecode(data))
    except (LookError, CgroupError) as error:
        found.unseen("version", f"{error}: the version of cgroups is not known")
        return
    if mounts.version == "none":
        mend = "run this command on the host, or mount cgroups at /sys/fs/cgroup"
        found.fault("no-cgroups", "no cgroup hierarchy with controllers is mounted: plugins find no cgroup", mend)
        return
    found.ok("version", f"cgroup {mounts.version}")
    for controller in ("cpu", "cpuset"):
        mount = mounts.serving(controller)
        if mount is None:
            text = f"no hierarchy has the controller {controller}: clearcfs and konfine need it"
            found.note("no-controller", text)


def _kubelet(node: Node, processes: list[Process], found: Findings) -> tuple[str, str]:
    """Return the cgroup driver in the kubelet's configuration, and its file; "" and "" without it."""
    kubelet = next((each for each in processes if os.path.basename(each.arguments[0]) == "kubelet"), None)
    given = kubelet.option("--cgroup-driver") if kubelet is not None else ""
    if given:
        found.ok("kubelet", f"kubelet: --cgroup-driver {given}")
        return given, "its command line"
    path = (kubelet.option("--config") if kubelet is not None else "") or KUBELET
    try:
        match = _DRIVER.search(node.read(path).decode("utf-8", "replace"))
    except LookError as error:
        if not error.is_absent:
            found.unseen("kubelet", f"kubelet: {error}")
        return "", ""
    if match is None:
        found.ok("kubelet", f"kubelet: {path} names no cgroupDriver")
        return "", ""
    found.ok("kubelet", f"kubelet: cgroupDriver {match[1]}, {path}")
    return match[1], path


def _differ(settings: Settings, name: str, driver: str, kubelet: str, file: str, found: Findings) -> None:
    text = f"{settings.about}: {name} has the cgroup driver {driver}, the kubelet {kubelet} ({file})"
    value = "true" if kubelet == "systemd" else "false"
    if settings.engine.name == "containerd":
        line = f"set SystemdCgroup = {value} in the options of the runtime {name} in {settings.main}"
    else:
        line = f'set cgroup_manager = "{kubelet}" in [crio.runtime] of {settings.main}'
    mend = f"{line}, then {settings.restart} and systemctl restart kubelet"
    if settings.engine.version >= ASKS_RUNTIME[settings.engine.name]:
        found.note("drivers-differ", f"{text}; a kubelet from 1.34 on asks the runtime", mend)
    else:
        found.fault("drivers-differ", text, mend)
