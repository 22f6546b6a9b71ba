"""Support for benchmark, demonstration, soak and tests: a node with the bridge, outside of the package.

| module | contents |
| --- | --- |
| :mod:`harness.node` | ``BridgeNode``: the compiled bridge, launched by the embedded runtime in a scratch directory |
| :mod:`harness.processes` | processes, their memory and descriptors, as ``/proc`` shows them |
| :mod:`harness.containerd` | a private, real containerd with a CRI client |

Imports ``nri``; never imports ``tests``, ``bench``, ``demo``, ``soak`` or ``fuzz``.
"""
