"""The five demonstrations of NRI's introduction, a chapter each: what is wanted, configured, done and seen."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from demo import NAMESPACE, lines
from demo.stage import show
from harness import machines
from harness.node import ROOT
from nri.cli import status
from nri.cli.cpus import read
from nri.cli.output import wrapped
from nri.plugins.konfine import EXCLUSIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from demo.stage import Stage


class Chapter(NamedTuple):
    """A chapter: what the operator wants, and its play.

    :ivar shown: the events for which a plugin runs.
    :ivar machine: the CPUs of a made-up machine; "" for this one.
    """

    wants: str
    play: Callable[[Stage], None]
    shown: frozenset[str]
    machine: str = ""


def events(stage: Stage) -> None:
    """One pod's life, as the plugin logger prints it."""
    log = stage.scratch / "requests.log"
    shown = ["state", "id", "sandboxID", "labels"]
    stage.configure(
        "99-logger.conf",
        {"type": "logger", "states": ["setup"], "conf": {"file": str(log), "fields": shown}},
    )
    with stage.begun():
        pod = stage.pod("web")
        stage.start(pod)
        stage.stop(pod)
    show(["", "requests.log:"], bold=True)
    for line in log.read_text().splitlines():
        request = json.loads(line)
        words = {key: request[key] for key in ("state", "id", "sandboxID") if key in request}
        show(wrapped(json.dumps(words), "    "), fg="green")


def hooks(stage: Stage) -> None:
    """An OCI hook of the node runs for containers that it matches."""
    folder, trace = stage.scratch / "hooks.d", stage.scratch / "trace"
    folder.mkdir()
    program = {"path": "/bin/sh", "args": ["sh", "-c", f"cat >> {trace}"]}
    when = {"annotations": {"^example.org/traced$": "yes"}}
    file = {"version": "1.0.0", "hook": program, "when": when, "stages": ["createRuntime"]}
    (folder / "10-trace.json").write_text(json.dumps(file))
    show(lines.described("hook", f"hooks.d/10-trace.json, when {json.dumps(when)}"))
    allowed = {"dirs": [str(folder)], "allow": {"annotations": [NAMESPACE]}}
    stage.configure(
        "40-hooks.conf", {"type": "hook-injector", "states": ["setup"], "conf": allowed}
    )
    with stage.begun():
        for name, annotations in (("traced", {"example.org/traced": "yes"}), ("plain", {})):
            pod = stage.pod(name, annotations)
            stage.start(pod)
            stage.stop(pod)
    show(["", "what the hook got on stdin, once:"], bold=True)
    show(wrapped(trace.read_text(), "    "), fg="green")


def devices(stage: Stage) -> None:
    """A pod asks for a device and a limit, and sees both inside."""
    setup = {"states": ["setup"]}
    stage.configure(
        "30-devices.conf",
        {"type": "device-injector", **setup, "conf": {"allow": {"devices": [NAMESPACE]}}},
        {"type": "ulimit-adjuster", **setup, "conf": {"allow": {"ulimits": [NAMESPACE]}}},
    )
    asked = {
        "devices.noderesource.dev/container.app": "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n",
        "ulimits.nri.containerd.io/container.app": "- type: nofile\n  hard: 99\n  soft: 77\n",
    }
    for key, value in asked.items():
        show(lines.described("annotation", key, " ".join(value.split())))
    with stage.begun():
        pod = stage.pod("camera", asked)
        stage.start(
            pod, 'stat -c "%A %n, device %t:%T" dev/nri-null; echo "open files: $(ulimit -n)"'
        )
        stage.stop(pod)


def resources(stage: Stage) -> None:
    """CPU 0 is the system's, and pods of a class have no quota."""
    for file in sorted((ROOT / "conf/resource.d").glob("*.conf")):
        plugins = json.loads(file.read_text())["plugins"]
        stage.configure(file.name, *[plugin | {"failurePolicy": "fail"} for plugin in plugins])
    show(
        lines.described(
            "pods", "web: latency-sensitive (qos.class=ls); batch: not. Half a CPU each."
        )
    )
    show(lines.described("cgroups", *stage.where))
    with stage.begun():
        pods = [
            stage.pod(name, {"qos.class": qos}) for name, qos in (("web", "ls"), ("batch", "batch"))
        ]
        for pod in pods:
            stage.start(pod)
        stage.limit(pods[0], 70_000)
        for pod in pods:
            stage.stop(pod)
    without = "Without the plugins, web would be throttled at 0.5 and 0.7 CPUs, and both could run on CPU 0."
    show(["", *wrapped(without, "")])


def placed(stage: Stage) -> tuple[Callable[..., dict[str, Any]], str]:
    """Return what makes an entry of konfine for a made-up machine, and the machine's /sys."""
    sys = machines.make(stage.scratch / "sys", packages=2, cores=4, threads=2)
    places = {"sys": sys, "run": str(stage.run)}

    def konfine(**conf: object) -> dict[str, Any]:
        return {"type": "konfine", "states": ["setup", "update"], "conf": conf | places}

    return konfine, sys


ALLOW = {"class": [NAMESPACE], "exclusive": [NAMESPACE], "cpus": [NAMESPACE]}
GIVEN = {"systemReserved": [0], "allow": ALLOW}
POOL = {"name": "batch", "classes": ["batch"], "max": 4}


def start_pods(stage: Stage) -> None:
    """Start a pod that shares CPUs, one that asks for four of its own, and one of the pool's class."""
    stage.start(stage.pod("web"))
    stage.start(stage.pod("db", {EXCLUSIVE: "4"}, shares=4096))
    stage.start(stage.pod("batch", {"qos.class": "batch"}, shares=2048))


def policy(stage: Stage) -> None:
    """A policy's life under running pods: an edit, a refused set, the way back, and its end."""
    konfine, sys = placed(stage)

    def owners() -> None:
        """Print who has which CPUs, from the lines below the picture of ``nri status --cpus``."""
        page = status.cpus_page(read(str(stage.run)), sys)
        words = [line.split(maxsplit=2) for line in page if re.match(r"[A-Za-z.]  [0-9]", line)]
        text = "; ".join([f"{cpus} {who}" for _, cpus, who in words])
        text = re.sub(r" \(\d+ containers?\)", "", text).replace("reserved for the ", "")
        show(wrapped(text, "    "), fg="green")

    about = "16 made-up CPUs; web and batch share, db asks for four of its own."
    show(lines.described("pods", about))
    with stage.begun():
        stage.apply("first", konfine(**GIVEN, pools=[POOL]))
        start_pods(stage)
        owners()
        show(
            ["", "An edit: all of core 0 for the system, no pool. Running pods follow."], bold=True
        )
        stage.apply("second", konfine(**(GIVEN | {"systemReserved": [0, 8]})))
        stage.nri("reapply")
        owners()
        show(["", "A misspelt key is refused, and nothing changes."], bold=True)
        stage.apply("third", konfine(**GIVEN, sytemReserved=[0]))
        show(["", "Back to the set before, which is kept."], bold=True)
        stage.apply(stage.sets()[0])
        stage.nri("reapply")
        owners()
        show(["", "No plugin any more: konfine gives back what it took."], bold=True)
        stage.apply("none")
        stage.nri("reapply")


_LIFE = frozenset({"RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox"})
_SETUP = frozenset({"CreateContainer"})

CHAPTERS = {
    "events": Chapter("see what happens to the containers of a node.", events, _LIFE | _SETUP),
    "policy": Chapter(
        "change a policy under running pods, and to go back.",
        policy,
        frozenset(),
        machine="0-15",
    ),
    "hooks": Chapter(
        "run an OCI hook for some containers, on a runtime that has no hooks.d.", hooks, _SETUP
    ),
    "devices": Chapter("give a device and a limit to pods that ask for them.", devices, _SETUP),
    "resources": Chapter(
        "keep CPU 0 for the system, and no CPU quota for latency-sensitive pods.",
        resources,
        _LIFE | {"PostUpdateContainer"},
    ),
}


def chosen(among: Sequence[str]) -> Sequence[str]:
    """Return the chapters that the command line names, or all of *among*."""
    if unknown := [name for name in sys.argv[1:] if name not in among]:
        raise SystemExit(f"found the chapter {unknown[0]!r}, expected one of {', '.join(among)}")
    return sys.argv[1:] or among


def run(main: Callable[[], None]) -> None:
    """Run a demonstration; where its output cannot be written any more, as for `head`, it ends."""
    try:
        main()
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter would write the rest again
        raise SystemExit(1 if error.errno == errno.EPIPE else f"stdout: {error.strerror}") from None


def play(
    names: Sequence[str], begin: Callable[[Chapter], AbstractContextManager[Any]], on: str = ""
) -> None:
    """Play chapters.

    :param begin: makes a chapter's stage.
    :param on: the runtime, for the headings.
    """
    for number, name in enumerate(names, 1):
        chapter = CHAPTERS[name]
        click.secho(f"\n{number}. {name}{on}", bold=True, fg="cyan")
        show([*wrapped(f"An operator wants to {chapter.wants}", ""), ""])
        with begin(chapter) as stage:
            chapter.play(stage)
