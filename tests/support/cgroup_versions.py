"""Hooks of pytest for tests on the kernel's own cgroups: the tests of other versions are left out, and counted.

See ``real_cgroups``. A machine has one version of each controller, so these tests are deselected and not skipped; a
machine where none of them can run selects all, and each gives its reason when it is skipped.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.real_cgroups import serving

_LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose marker ``kernel_cgroups`` asks for another version of a controller."""
    left_out = [item for item in items if _is_for_others(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    config.stash[_LEFT_OUT] = [item.nodeid for item in left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the names of these tests from a process of xdist to the one that prints."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the names from a process of xdist; all of them have collected the same tests."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many tests ran on which version, and how many of each file were left out; with ``-v`` which."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
    ]
    ran = sum(report.when == "call" and "kernel_cgroups" in report.keywords for report in reports)
    left_out = config.stash.get(_LEFT_OUT, [])
    if ran:
        terminalreporter.write_line(f"the kernel's cgroups: {ran} tests ran on {_versions()}")
    if left_out:
        names = (
            left_out
            if config.get_verbosity() > 0
            else [name.partition("::")[0] for name in left_out]
        )
        listed = ", ".join(
            f"{name} ({count})" if count > 1 else name for name, count in Counter(names).items()
        )
        terminalreporter.write_line(f"{len(left_out)} left out, for other versions: {listed}")


def _is_for_others(item: pytest.Item) -> bool:
    wanted = [
        pair for marker in item.iter_markers("kernel_cgroups") for pair in marker.kwargs.items()
    ]
    mounts = serving() if wanted else {}
    return not isinstance(mounts, str) and any(
        mounts[controller].version != version for controller, version in wanted
    )


def _versions() -> str:
    mounts = serving()
    if isinstance(mounts, str):
        return "no version"
    return " and ".join(f"{controller} v{mount.version}" for controller, mount in mounts.items())
