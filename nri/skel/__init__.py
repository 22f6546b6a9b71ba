"""What a plugin executable links against.

    from nri import skel

    class Hello(skel.Plugin):
        type = "hello"

        def invoke(self, request):
            return request.new_result(self.type)

    if __name__ == "__main__":
        skel.main(Hello())

:func:`main` is the process wrapper, :func:`run` the same with its arguments and streams given, for tests;
:func:`scoped` looks up an annotation the way the field writes them. Standard library only, as in
:mod:`nri.types`: whatever is imported here, every start of every plugin pays for.
"""

from nri.skel.plugin import Plugin
from nri.skel.process import main, run
from nri.skel.scopes import scoped

__all__ = ["Plugin", "main", "run", "scoped"]
