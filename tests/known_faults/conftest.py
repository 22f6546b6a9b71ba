"""Fixtures of the integration tests: a made-up host, and the bridge as a process."""

from __future__ import annotations

from tests.integration.conftest import host, readable_by_go
from tests.integration.runtime.conftest import runtime
from tests.integration.v1bridge.conftest import bridge
from tests.support.cgroup_node import site

__all__ = ["bridge", "host", "readable_by_go", "runtime", "site"]
