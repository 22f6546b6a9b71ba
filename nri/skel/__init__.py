"""The skeleton of a plugin: a base class, and the process around it.

    from nri import skel

    class Hello(skel.Plugin):
        type = "hello"

        def invoke(self, request):
            return request.new_result(self.type)

    if __name__ == "__main__":
        skel.main(Hello())

:func:`main` runs a plugin as a process; :func:`run` does the same with arguments and streams as parameters, for
tests; :func:`scoped` looks up an annotation with a scope. Standard library only, as in :mod:`nri.types`: each import
here adds to the start-up time of every plugin.
"""

from nri.skel.plugin import Plugin
from nri.skel.process import main, run
from nri.skel.scopes import scoped

__all__ = ["Plugin", "main", "run", "scoped"]
