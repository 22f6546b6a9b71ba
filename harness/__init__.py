"""Support for benchmark, demonstration, soak and tests: a node with the bridge, outside of the package.

| module | contents |
| --- | --- |
| ``harness.node`` | ``BridgeNode``: the compiled bridge, launched by the embedded runtime in a scratch directory |
| ``harness.processes`` | processes, their memory and descriptors, as ``/proc`` shows them |
| ``harness.containerd`` | a private, real containerd with a CRI client |

Imports ``nri``; never imports ``tests``, ``bench``, ``demo``, ``soak`` or ``fuzz``.
"""
