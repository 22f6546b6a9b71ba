"""Tests of plugins: run one, make the requests that runtimes send, and give it cgroups that need no kernel.

    from nri.testing import CgroupTree, Pod, invoke

    def test_a_batch_container_is_moved():
        web = Pod("shop", annotations={"class.example.com": "batch"}).container("web")
        with CgroupTree() as tree:
            tree.add(web)
            result = invoke(Batch(), web.request("create", conf={"cpus": "2-3"}))
        assert result.error == ""
        assert tree.written == {"web/cpuset.cpus": "2-3"}

With pytest the fixtures ``nri_pod`` and ``nri_cgroups`` (``nri.pytest_plugin``) save the first lines.
docs/testing.md is the page for authors.
"""

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
