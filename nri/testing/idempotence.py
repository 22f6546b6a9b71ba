"""The check that repeated and lone requests do no harm: a second ``create``, an ``update``, a lone ``delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.testing.invoking import invoke
from nri.types.v1 import Request, State

if TYPE_CHECKING:
    from nri.skel import Plugin
    from nri.testing.cgroup_tree import CgroupTree
    from nri.types.v1 import Result


def assert_idempotent(plugin: Plugin, request: Request, tree: CgroupTree | None = None) -> None:
    """Check that a plugin stands repeated and lone requests about a container. The metadata may differ.

    - ``delete`` without a ``create`` has no error, and writes nothing;
    - ``create`` has no error; a second one has no error either, changes no file, and asks for the same changes;
    - ``update`` after it has no error, and changes nothing that ``create`` did not;
    - ``delete`` after all has no error.

    :param request: the ``create`` of a container; or its ``setup``, which then stands for ``create`` above.
    :param tree: the active tree that the plugin writes to; without one only the results are compared.
    :raises AssertionError: it names the step, and says how it differs.
    """
    state = str(request.state)
    if request.state not in (State.CREATE, State.SETUP):
        raise ValueError(f"the request is of state {state!r}: expected 'create' or 'setup', whose repetition counts")
    _step(plugin, request.replace(state=State.DELETE), tree, f"delete without a {state}", writes=False)
    first = _step(plugin, request, tree, f"the first {state}")
    second = _step(plugin, request, tree, f"the second {state}", writes=False)
    for attribute in ("adjust", "updates", "cgroups_path"):
        was, is_ = getattr(first, attribute), getattr(second, attribute)
        if was != is_:
            found = f"found {is_!r}, expected {was!r}"
            raise AssertionError(f"{plugin.type}: the second {state} differs from the first in {attribute}: {found}")
    _step(plugin, request.replace(state=State.UPDATE), tree, f"update after {state}", writes=False)
    _step(plugin, request.replace(state=State.DELETE), tree, f"delete after {state}", writes=None)


def _step(
    plugin: Plugin, request: Request, tree: CgroupTree | None, name: str, *, writes: bool | None = None
) -> Result:
    """Do one step; with ``writes=False`` it must write nothing."""
    before = 0 if tree is None else len(tree.writes)
    result = invoke(plugin, request)
    if result.error:
        raise AssertionError(f"{plugin.type}: {name} has the error {result.error!r}: expected none")
    if writes is False and tree is not None and (new := tree.writes[before:]):
        wrote = ", ".join(f"{file} = {text!r}" for file, text in new)
        raise AssertionError(f"{plugin.type}: {name} wrote {wrote}: expected nothing to be written")
    return result
