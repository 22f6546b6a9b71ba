"""Prefaults the pages that a worker's request writes to, before there is a request.

A page is shared after fork until one of the two processes writes to it, and then copied. The interpreter counts the
references to an object in the object, so it writes to each object that it uses.
"""

from __future__ import annotations

import sys

REQUEST = b"""{"conf": {"a": ["", 0, true]}, "version": "0.1", "state": "create", "id": "%(64)s", "sandboxID":
"%(64)s", "pid": 123456, "spec": {"resources": {"memory": {"limit": 1073741824}, "cpu": {"quota": 50000, "cpus":
"0-3"}}, "namespaces": {"pid": "", "network": "/proc/123456/ns/net"}, "cgroupsPath": "/kubepods/%(32)s/%(64)s",
"annotations": {"%(16)s": "%(16)s", "io.kubernetes.cri.%(16)s": "%(32)s", "io.kubernetes.cri.%(32)s": "%(100)s"}},
"labels": {"%(16)s": "%(32)s", "io.kubernetes.pod.%(8)s": "%(24)s"}, "results": [{"plugin": "a", "metadata": {"a":
"b"}}]}""" % {str(size).encode(): b"a" * size for size in (8, 16, 24, 32, 64, 100)}
"""A request to rehearse with, its texts as long as those of a real one."""

_FUNCTION = type(lambda: None)


def prefault(classes: list[type]) -> None:
    """Write to the code of these classes, and of the functions beside them."""
    for kind in classes:
        beside = [value for value in vars(sys.modules[kind.__module__]).values() if type(value) is _FUNCTION]
        for value in [*beside, *vars(kind).values()]:
            code = getattr(value, "__code__", None)
            if code is not None:
                list(code.co_consts)
