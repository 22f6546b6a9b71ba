"""Tests of plugins: run one, make the requests that runtimes send, and give it cgroups that need no kernel.

    from nri.testing import CgroupTree, Pod, invoke

    def test_a_batch_container_is_moved():
        web = Pod("shop", annotations={"class.example.com": "batch"}).container("web")
        with CgroupTree() as tree:
            tree.add(web)
            result = invoke(Batch(), web.request("create", conf={"cpus": "2-3"}))
        assert result.error == ""
        assert tree.written == {"web/cpuset.cpus": "2-3"}

With pytest the fixtures ``nri_pod`` and ``nri_cgroups`` (:mod:`nri.testing.pytest_plugin`) save the first lines.
docs/testing.md is the page for authors.

The names are imported when they are first used: pytest imports this package in every project that it tests.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.testing.cgroup_tree import CgroupTree
    from nri.testing.conformance import assert_conforms
    from nri.testing.invoking import assert_idempotent, invoke, run
    from nri.testing.pods import Container, Pod, recorded, recordings

__all__ = [
    "CgroupTree",
    "Container",
    "Pod",
    "assert_conforms",
    "assert_idempotent",
    "invoke",
    "recorded",
    "recordings",
    "run",
]

_HOMES = {
    "CgroupTree": "cgroup_tree",
    "Container": "pods",
    "Pod": "pods",
    "assert_conforms": "conformance",
    "assert_idempotent": "invoking",
    "invoke": "invoking",
    "recorded": "pods",
    "recordings": "pods",
    "run": "invoking",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
