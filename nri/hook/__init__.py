"""``nri hook STATE``: the chain as a hook of an OCI runtime.

The runtime (runc, crun, and what stands on them: podman, CRI-O) runs it as createRuntime hook with ``create`` and as
poststop hook with ``delete``, writes the container's state to its stdin, and waits: every container's start pays for
what is imported here. So no click, no jsonschema, no ``json``, unless there is something to say that needs them.
"""

from nri.hook.arguments import Arguments, parse
from nri.hook.entry import main, run

__all__ = ["Arguments", "main", "parse", "run"]
