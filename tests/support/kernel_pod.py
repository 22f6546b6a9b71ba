"""A pod with a container on the kernel's own cgroups, and sample plugins that run for it as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.types.v1 import Request, Result, Spec
from tests.support.real_cgroups import Real, real_cgroups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    labels: dict[str, str] | None = None,
    says: bytes = b"",
) -> Result:
    """Run a plugin for a container of class ``ls``, which is ``CONTAINER`` unless *path* names another.

    :param says: the beginning of what it writes to stderr.
    """
    path = f"{real.top}{CONTAINER}" if path is None else path
    spec = Spec(cgroups_path=path, annotations={"qos.class": "ls", **(annotations or {})})
    request = Request(
        state=state, id=id_, sandbox_id="pod", pid=pid, spec=spec, conf=conf, labels=labels
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
