"""A plugin that gets a request again, or a ``delete`` alone, as hosts may send them."""

from nri.skel import Plugin
from nri.testing import CgroupTree, invoke
from nri.types.v1 import Request, State


def assert_repeatable(plugin: Plugin, create: Request, tree: CgroupTree) -> None:
    """A ``delete`` without ``create``, and a second ``create``, succeed and write nothing."""
    assert invoke(plugin, create.replace(state=State.DELETE, pid=0)).error == ""
    assert tree.writes == []
    assert invoke(plugin, create).error == ""
    written = list(tree.writes)
    assert invoke(plugin, create).error == ""
    assert tree.writes == written
