"""The versions of this build, of Python, of the kernel and of the distribution."""

from __future__ import annotations

import os
import platform
import sys

from nri import build
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.errors import escape

SUBJECT = "versions"


def findings(node: Node) -> Findings:
    """Return the findings of this subject."""
    found = Findings(SUBJECT)
    kind = "compiled, " if getattr(sys, "frozen", False) else ""
    found.ok("nri", f"nri {build.describe()}, {kind}Python {platform.python_version()}")
    if node.is_own:
        system = os.uname()
        found.ok("kernel", f"{system.sysname} {system.release} {system.machine}")
    found.ok("distribution", _distribution(node))
    if node.is_own and os.geteuid() != 0:
        text = f"run as user {os.geteuid()}: processes, logs and files of root are seen in part or not at all"
        found.unseen("not-root", text, "run it again as root: sudo nri doctor")
    if not node.is_own:
        text = f"{node.root} stands for the root: its programs are not run, and plugins are not asked"
        found.unseen("other-root", text)
    return found


def _distribution(node: Node) -> str:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            lines = node.read(path, 64 * 1024).decode("utf-8", "replace").splitlines()
        except LookError:
            continue
        for line in lines:
            if line.startswith("PRETTY_NAME="):
                return escape(line.partition("=")[2].strip("\"'"))[:100]
    return "unknown distribution: no name in /etc/os-release"
