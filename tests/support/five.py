"""Five plugins as an author writes them, whose mistakes and refusals every tool must show alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCES = {
    "capper": '''from nri import skel
from nri.cgroups import Quota
from nri.skel import fields


class Conf(skel.Conf):
    period: int = fields.integer("of the quota, in microseconds", 1000, 1000000)
    pods: bool | tuple[str, ...] = fields.namespaces("whose pods may ask")


class Capper(skel.Plugin):
    """Writes the CPU quota for which an annotation asks."""

    type = "capper"
    conf_class = Conf
    acts_on = ("create", "update")
    resident = True

    def invoke(self, request, conf):
        result = request.new_result(self.type)
        found = skel.scoped(request, "cap.example.com")
        if request.is_sandbox or found is None or skel.why_not_allowed(request, conf.pods, "pods"):
            return result
        if not found[1].isdigit():
            raise skel.Refusal(f"{found[0]}: found {found[1]!r}, expected microseconds")
        cgroup, wanted = skel.cgroup_of(request), Quota(int(found[1]), conf.period)
        result.metadata["before"] = str(cgroup.cpu_quota())
        if cgroup.cpu_quota() != wanted:
            cgroup.write("cpu.max", wanted)
        return result
''',
    "keeper": '''from nri import skel


class Keeper(skel.Plugin):
    """Keeps what it has seen of a container, in its result."""

    type = "keeper"
    resident = True

    def invoke(self, request):
        result = request.new_result(self.type)
        before = request.prev_result.metadata["seen"] if request.prev_result is not None else ""
        result.metadata["seen"] = f"{before} {request.state}".strip()
        return result
''',
    "guard": '''from nri import skel


class Guard(skel.Plugin):
    """Looks at capabilities, which not every host shows."""

    type = "guard"
    acts_on = ("setup",)
    needs = ("configuration",)
    resident = True

    def invoke(self, request):
        if "CAP_SYS_ADMIN" in request.spec.process["capabilities"]["bounding"]:
            raise skel.Refusal("found CAP_SYS_ADMIN, expected a container without it")
        return request.new_result(self.type)
''',
    "late": '''from nri import skel


class Late(skel.Plugin):
    """Acts on a state that its entry does not list."""

    type = "late"
    acts_on = ("create", "update")
    resident = True

    def invoke(self, request):
        return request.new_result(self.type, metadata={"limit": str(request.spec.resources["memory"].get("limit"))})
''',
    "giver": '''from nri import skel


class Giver(skel.Plugin):
    """Changes the container that will be created, and an update."""

    type = "giver"
    acts_on = ("setup", "resize")
    resident = True

    def invoke(self, request):
        result = request.new_result(self.type)
        if request.state == "setup":
            return result.replace(adjust={"env": {"POD": request.labels["io.kubernetes.pod.name"]}})
        resources = {"memory": {"limit": request.spec.resources["memory"]["limit"] // 2}}
        return result.replace(updates=[{"id": request.id, "resources": resources}])
''',
}

ENTRIES: list[dict[str, Any]] = [
    {"type": "capper", "conf": {"period": 100000, "pods": ["default"]}, "states": ["update"]},
    {"type": "keeper", "states": ["setup", "resize", "update"]},
    {"type": "guard", "states": ["setup"], "failurePolicy": "ignore"},
    {"type": "late"},
    {"type": "giver", "states": ["setup", "resize"]},
]


def write(folder: Path) -> list[str]:
    """Write the sources, and a configuration beside them; return the names of the sources."""
    for name, source in SOURCES.items():
        run = f"\n\nif __name__ == '__main__':\n    skel.main({name.capitalize()}())\n"
        (folder / f"{name}.py").write_text(source + run)
    (folder / "five.conf").write_text(json.dumps({"version": "0.1", "plugins": ENTRIES}))
    return [f"{name}.py" for name in SOURCES]
