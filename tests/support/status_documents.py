"""Documents as a bridge answers them on its status socket: docs/status.md. Each call makes a new one to change."""

from __future__ import annotations

from typing import Any

NOW = 1763802000.5
"""The time of the documents: 2025-11-22 09:00:00 UTC."""

BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]
"""The bounds of a histogram, in seconds."""


def histogram(*counts: int, total: float = 0.0) -> dict[str, Any]:
    """A histogram with these first counts; the others are 0."""
    return {
        "bounds": list(BOUNDS),
        "counts": [*counts, *[0] * (len(BOUNDS) + 1 - len(counts))],
        "sum": total,
    }


def runs(
    *, ok: int = 0, error: int = 0, killed: int = 0, ignored: int = 0, refused: int = 0
) -> dict[str, int]:
    """The runs of a plugin in one state."""
    return {"ok": ok, "error": error, "killed": killed, "ignored": ignored, "refused": refused}


def last(
    outcome: str = "ok", error: str | None = None, state: str = "create", **changes: Any
) -> dict[str, Any]:
    """The last run of a plugin in one state."""
    about = {"outcome": outcome, "since": NOW - 300, "time": NOW - 60, "state": state}
    return {**about, "pod": "default/web", "container": "app", "error": error, **changes}


def refusal(**changes: Any) -> dict[str, Any]:
    """A container that a plugin has refused several times."""
    wrong = "exclusive.konfine.nri.io/pod: found 'two', expected a number of CPUs, 1 to 8191"
    value = {
        "plugin": "konfine",
        "time": NOW - 10,
        "state": "create",
        "pod": "default/db",
        "container": "db",
    }
    return {**value, "since": NOW - 70, "count": 6, "error": wrong, **changes}


CAUSES = ("failed", "ignored", "refused", "missed", "unconfigured", "off")
"""The causes of a container without a plugin."""


def without(*entries: tuple[str | None, str, str, int]) -> dict[str, Any]:
    """The counts of containers without a plugin: of each plugin, state and cause."""
    by = [dict(zip(("plugin", "state", "cause", "count"), entry, strict=True)) for entry in entries]
    causes = dict.fromkeys(CAUSES, 0)
    for _, _, cause, count in entries:
        causes[cause] += count
    return {"containers": sum(causes.values()), "causes": causes, "by": by}


def plugin(type: str = "clearcfs", **changes: Any) -> dict[str, Any]:
    """A plugin that was run 120 times, and is well."""
    value: dict[str, Any] = {
        "type": type,
        "source": f"/etc/nri/resource.d/10-{type}.conf",
        "index": 0,
        "states": ["create", "delete"],
        "timeout": 10.0,
        "failurePolicy": "fail",
        "binary": f"/opt/nri/bin/{type}",
        "problem": None,
        "build": "0.9.0",
        "resident": {"state": "ready", "reason": None},
        "runs": {"create": runs(ok=100), "delete": runs(ok=20)},
        "seconds": histogram(90, 20, 10, total=0.21),
        "last": {"create": last(), "delete": last(state="delete")},
        "lastError": None,
    }
    return {**value, **changes}


def event(name: str = "StartContainer", **changes: Any) -> dict[str, Any]:
    """Counters of one event."""
    value: dict[str, Any] = {
        "event": name,
        "answered": 100,
        "errors": 0,
        "late": 0,
        "seconds": histogram(60, 30, 10, total=0.3),
        "waiting": histogram(100, total=0.01),
        "nearDeadline": 0,
    }
    return {**value, **changes}


def healthy(**changes: Any) -> dict[str, Any]:
    """A bridge that is connected, with two plugins that are well."""
    value: dict[str, Any] = {
        "protocol": 1,
        "time": NOW,
        "bridge": {
            "version": "0.9.0",
            "commit": "3f2c1ab",
            "date": "2025-11-20",
            "pid": 812,
            "started": NOW - 3600,
            "state": "connected",
            "options": {"confDir": "/etc/nri/resource.d", "resident": True},
        },
        "runtime": {
            "name": "containerd",
            "version": "v2.1.9",
            "nri": "0.8",
            "since": NOW - 3598,
            "synchronized": True,
            "connections": 1,
        },
        "configuration": {
            "files": [
                "/etc/nri/resource.d/10-clearcfs.conf",
                "/etc/nri/resource.d/20-konfine.conf",
            ],
            "hash": "1f0c5a7b9d21",
            "valid": True,
            "faults": [],
            "since": NOW - 3599,
            "rejectedSince": None,
            "missing": [],
            "refused": None,
        },
        "plugins": [
            plugin("clearcfs"),
            plugin("konfine", source="/etc/nri/resource.d/20-konfine.conf"),
        ],
        "events": [event("RunPodSandbox"), event("StartContainer"), event("StopPodSandbox")],
        "refusals": [],
        "lateCreates": {"waiting": 0, "running": 0, "succeeded": 0, "failed": 0, "refused": 0},
        "record": {"directory": "/run/nri/v1bridge.record", "fault": None},
        "withoutPlugins": [],
        "without": without(),
        "outdated": [],
        "watchdog": None,
        "ownPod": None,
        "inProgress": None,
        "log": {"to": "syslog", "lost": 0, "fault": None},
    }
    return {**value, **changes}


def degraded() -> dict[str, Any]:
    """A bridge with all that can be wrong: the configuration, a plugin that fails, is missing, is no resident."""
    last_error = {
        "time": NOW - 60,
        "state": "create",
        "pod": "default/web",
        "container": "app",
        "error": "/sys/fs/cgroup/kubepods/cpu.max: Permission denied",
    }
    value = healthy()
    value["configuration"] |= {
        "valid": False,
        "faults": ["/etc/nri/resource.d/10-clearcfs.conf:4:7: plugins[0].type: missing"],
        "rejectedSince": NOW - 600,
    }
    failed_runs = {"create": runs(ok=90, error=7, killed=3), "delete": runs(ok=20)}
    value["plugins"] = [
        plugin(
            "clearcfs",
            runs=failed_runs,
            last={"create": last("error", str(last_error["error"]))},
            lastError=last_error,
        ),
        plugin("konfine", resident={"state": "failed", "reason": "it holds a thread"}),
        plugin(
            "absent",
            binary=None,
            problem="not found in /opt/nri/bin",
            build=None,
            resident={"state": "off", "reason": None},
            runs={},
            seconds=histogram(),
            last={},
        ),
    ]
    value["events"] = [event("StartContainer", errors=10, late=1, nearDeadline=4)]
    value["lateCreates"] |= {"waiting": 1, "succeeded": 3, "failed": 2}
    value["withoutPlugins"] = [
        {
            "id": "0123456789ab",
            "pod": "default/web",
            "container": "app",
            "plugin": "clearcfs",
            "state": "create",
            "since": NOW - 60,
            "why": "its failure is ignored: Permission denied",
            "cause": "ignored",
        }
    ]
    value["without"] = without(("clearcfs", "create", "ignored", 1))
    value["refusals"] = [refusal()]
    value["log"]["lost"] = 12
    return value


def connecting() -> dict[str, Any]:
    """A bridge that looks for its runtime, and has not found one yet."""
    value = healthy(plugins=[], events=[])
    value["bridge"]["state"] = "connecting"
    value["runtime"] = dict.fromkeys(value["runtime"])
    return value


def container(name: str | None = "app", **changes: Any) -> dict[str, Any]:
    """A container that two plugins have served."""
    result = '{"plugin":"clearcfs","version":"0.1","metadata":{"class":"ls","quota":"cleared"}}'
    value: dict[str, Any] = {
        "id": "0123456789ab",
        "container": name,
        "state": "done",
        "plugins": [
            {"plugin": "clearcfs", "states": ["create"], "failed": False, "result": result},
            {"plugin": "konfine", "states": ["create", "update"], "failed": True, "result": None},
        ],
        "due": [{"plugin": "konfine", "what": "create"}],
        "without": [
            {
                "plugin": "konfine",
                "state": "create",
                "since": NOW - 60,
                "why": "no CPU",
                "cause": "failed",
            }
        ],
    }
    return {**value, **changes}


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    """What the pod default/web has had."""
    return {"protocol": 1, "name": "default/web", "containers": list(containers)}
