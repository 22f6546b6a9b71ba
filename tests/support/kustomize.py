"""Build kustomizations with a real kubectl: Debian 13's, as Debian 12's does not support components."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import debian
from tests.support.installing import ROOT

Object = dict[str, Any]

SUITE = "trixie"
CACHE = ROOT / ".cache/kubectl"


@functools.cache
def kubectl() -> Path:
    """Return a kubectl of 1.21 or later."""
    if own := shutil.which("kubectl"):
        return Path(own)
    try:
        return debian.fetch("kubectl", SUITE, CACHE, debian.PAUSES) / "usr/bin/kubectl"
    except debian.UnavailableError as error:
        pytest.skip(f"no kubectl: {error}")


def build(folder: Path) -> list[Object]:
    """Return the objects of a kustomization."""
    command = [str(kubectl()), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [*yaml.safe_load_all(done.stdout)]
