"""A pod with a container on the kernel's own cgroups, and sample plugins that run for it as processes."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nri.cgroups import Mounts
from nri.types.v1 import Request, Result, Spec
from tests.support.real_cgroups import Real, real_cgroups
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SOURCE = str(Path(__file__).parents[2])
POD = "/kubepods/poda1"
CONTAINER = f"{POD}/redis"


@contextmanager
def kernel_pod(cpus: str = "0-1") -> Iterator[Real]:
    """A pod with a container, both with these CPUs."""
    with real_cgroups(cpus) as real:
        for path in ("/kubepods", POD, CONTAINER):
            real.make(path)
        yield real


@contextmanager
def offline(cpu: int) -> Iterator[None]:
    """Meanwhile a CPU of the whole machine is offline: for one that is nobody's."""
    switch = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    switch.write_text("0")
    try:
        yield
    finally:
        switch.write_text("1")


def run(
    plugin: str,
    real: Real,
    conf: dict[str, Any],
    *,
    state: str = "create",
    by: Sequence[str] = (),
    path: str | None = None,
    pid: int = 0,
    annotations: dict[str, str] | None = None,
    id_: str = "redis",
    labels: Mapping[str, str] = {},
    says: bytes = b"",
    **more: Any,
) -> Result:
    """Run a plugin for a container of class ``ls``, which is ``CONTAINER`` unless *path* names another.

    :param says: the beginning of what it writes to stderr.
    :param more: other keys of the request.
    """
    path = f"{real.top}{CONTAINER}" if path is None else path
    spec = Spec(cgroups_path=path, annotations={"qos.class": "ls", **(annotations or {})})
    request = Request(
        state=state, id=id_, sandbox_id="pod", pid=pid, spec=spec, conf=conf, labels=labels, **more
    )
    done = subprocess.run(
        [*by, sys.executable, "-c", f"from nri.plugins.{plugin} import main; main()", "invoke"],
        input=request.to_json(),
        env={"PYTHONPATH": SOURCE, "PATH": os.defpath},
        capture_output=True,
        check=True,
    )
    assert done.stderr.startswith(says)
    assert says or done.stderr == b""
    return Result.from_json(done.stdout)


@contextmanager
def with_memory_and_pids(real: Real, *paths: str) -> Iterator[None]:
    """Have cgroups with these controllers as well, where they are hierarchies of their own."""
    made: list[str] = []
    for controller in ("memory", "pids"):
        mount = Mounts.read().serving(controller)
        if mount is None or not os.access(mount.point, os.W_OK):
            pytest.skip(f"needs a hierarchy of {controller} that can be written to")
        for path in paths:
            parts = path.split("/")[1:]
            for depth in range(1, len(parts) + 1):
                directory = f"{mount.point}/{'/'.join(parts[:depth])}"
                if mount.version == 2:
                    Path(os.path.dirname(directory), "cgroup.subtree_control").write_text(
                        f"+{controller}"
                    )
                elif not os.path.isdir(directory):
                    os.mkdir(directory)
                    made.append(directory)
    try:
        yield
    finally:
        for directory in reversed(made):
            # Its process has just ended.
            assert wait_until(functools.partial(_is_removed, directory))


def _is_removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except OSError:
        return False
    return True


def child(path: str, code: str) -> subprocess.Popen[bytes]:
    """Start Python code in a cgroup, in all hierarchies."""
    mounts = Mounts.read()
    points = {
        mount.point
        for name in ("cpu", "memory", "pids")
        if (mount := mounts.serving(name)) is not None
    }
    enter = "; ".join(
        [f"open('{point}{path}/cgroup.procs', 'w').write('0')" for point in sorted(points)]
    )
    return subprocess.Popen(
        [sys.executable, "-c", f"import os\n{enter}\n{code}"], stderr=subprocess.DEVNULL
    )
