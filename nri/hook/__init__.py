"""``nri hook STATE``: runs the chain as a hook of an OCI runtime.

The runtime (runc, crun, and their callers: podman, CRI-O) runs it as createRuntime hook with ``create`` and as
poststop hook with ``delete``, writes the container's state to its stdin, and waits. Every container's start waits for
the imports here, so click, jsonschema and ``json`` are imported only to report an error.
"""

from nri.hook.arguments import Arguments, parse
from nri.hook.entry import main, run

__all__ = ["Arguments", "main", "parse", "run"]
