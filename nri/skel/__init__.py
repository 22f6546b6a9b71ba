"""The skeleton of a plugin: a base class, and the process around it.

    from nri import skel

    class Hello(skel.Plugin):
        type = "hello"

        def invoke(self, request):
            return request.new_result(self.type)

    if __name__ == "__main__":
        skel.main(Hello())

``main`` runs a plugin as a process; ``run`` does the same with arguments and streams as parameters, for
tests; ``Refusal`` refuses a container; ``scoped`` looks up an annotation with a scope, and
``why_not_allowed`` says whether its pod may set it; ``cgroup_of`` finds the container's cgroup; ``Conf``
and ``nri.skel.fields`` make a plugin conf of a class. Standard library only, as in ``nri.types``: each import
here adds to the start-up time of every plugin.
"""

from nri.skel.plugin import Plugin, Refusal
from nri.skel.process import main, run
from nri.skel.scopes import cgroup_of, scoped, why_not_allowed

__all__ = [
    "Conf",
    "Plugin",
    "Refusal",
    "cgroup_of",
    "fields",
    "main",
    "run",
    "scoped",
    "why_not_allowed",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.skel import fields
    from nri.types.conf import Conf


def __getattr__(name: str) -> object:
    """Import what only a plugin with a conf needs: ``nri.types.conf.Conf`` and ``nri.skel.fields``."""
    if name == "Conf":
        from nri.types.conf import Conf

        return Conf
    if name == "fields":
        import nri.skel.fields

        return nri.skel.fields
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
