"""Prepares a process for its first request: fills caches, and prefaults pages that the request writes to.

A page is shared after fork until one of the two processes writes to it, and then copied. The interpreter counts the
references to an object in the object, so it writes to each object that it uses.
"""

from __future__ import annotations

import sys

from nri.prefork.protocol import encode_end, encode_piece, encode_request
from nri.prefork.server.answering import AnswerFile, Program, RequestFile, flush

_FUNCTION = type(lambda: None)
_REQUEST = b"""{"conf": {"a": ["", 0, true]}, "version": "0.1", "state": "create", "id": "%(64)s", "sandboxID":
"%(64)s", "pid": 123456, "spec": {"resources": {"memory": {"limit": 1073741824}, "cpu": {"quota": 50000, "cpus":
"0-3"}}, "namespaces": {"pid": "", "network": "/proc/123456/ns/net"}, "cgroupsPath": "/kubepods/%(32)s/%(64)s",
"annotations": {"%(16)s": "%(16)s", "io.kubernetes.cri.%(16)s": "%(32)s", "io.kubernetes.cri.%(32)s": "%(100)s"}},
"labels": {"%(16)s": "%(32)s", "io.kubernetes.pod.%(8)s": "%(24)s"}, "results": [{"plugin": "a", "metadata": {"a":
"b"}}]}""" % {str(size).encode(): b"a" * size for size in (8, 16, 24, 32, 64, 100)}  # lengths of real requests


def fill_caches(program: Program) -> None:
    """Rehearse a request without the plugin."""
    result = AnswerFile()
    status = program.answer(program.rehearsal, RequestFile(0, encode_request(_REQUEST)), result)
    flush()
    encode_piece(result.data) + encode_end(status)


def prefault(program: Program) -> None:
    """Write to the objects that a request will use, so that no page of them is copied during the request."""
    fill_caches(program)
    for kind in program.classes:
        beside = [value for value in vars(sys.modules[kind.__module__]).values() if type(value) is _FUNCTION]
        for value in [*beside, *vars(kind).values()]:
            code = getattr(value, "__code__", None)
            if code is not None:
                list(code.co_consts)
