"""`make demo-containerd`: a chapter on real containerd shows inside the container what a pod has asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.node import ROOT
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from harness.containerd.instance import Release

pytestmark = pytest.mark.runtime


def test_devices_are_seen_inside_a_real_container(containerd_2: Release) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "demo.on_containerd", "devices"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * SOON,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (
        "    inside: crw-rw-rw- dev/nri-null, device 1:3\n    inside: open files: 77\n"
        in ran.stdout
    )
    assert "    setup   device-injector " in ran.stdout
    assert [line for line in ran.stdout.splitlines() if len(line) > 80] == []
