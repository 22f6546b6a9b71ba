"""A container's state on a hook's stdin: the hook ends with 0 and prints nothing, or with 1 and prints the reason in
printable lines that begin with its name. It ends with 0 if the state is an object with an id, a bundle's absolute
path, optionally a pid of 64 bits, and optionally annotations that are strings. It raises no exception.
"""

from __future__ import annotations

import io
import os

from nri.hook import Arguments, run
from nri.types import DecodeError, gojson

JSON = True
NOWHERE = "/nonexistent/nri-fuzz"


def check(data: bytes) -> None:
    """Run a hook on a host without plugins, with the bytes as stdin."""
    arguments = Arguments(
        "create", conf_dir="", conf_file=NOWHERE, record_dir="", bin_dirs=[NOWHERE]
    )
    stderr = io.StringIO()
    stdin = os.memfd_create("state", os.MFD_CLOEXEC)
    try:
        os.pwrite(stdin, data, 0)
        status = run(arguments, stdin, stderr)
    finally:
        os.close(stdin)
    lines = stderr.getvalue().split("\n")
    assert (status, lines == [""]) == ((0, True) if _is_good(data) else (1, False)), (
        f"{status}: {lines}"
    )
    if status:
        assert lines.pop() == ""
        assert all(line.startswith("nri hook create: ") and line.isprintable() for line in lines)
        assert max(map(len, lines)) < 1000, "an error carries the document"


def _is_good(data: bytes) -> bool:
    try:
        state = gojson.loads(data)
    except DecodeError:
        return False
    if not isinstance(state, dict):
        return False
    annotations = {} if state.get("annotations") is None else state["annotations"]
    pid = 0 if state.get("pid") is None else state["pid"]
    return (
        isinstance(state.get("id"), str)
        and bool(state["id"])
        and isinstance(state.get("bundle"), str)
        and state["bundle"].startswith("/")
        and type(pid) is int
        and -(2**63) <= pid < 2**63
        and isinstance(annotations, dict)
        and all(value is None or isinstance(value, str) for value in annotations.values())
    )


SEEDS = (
    b'{"ociVersion":"1.0.2","id":"redis","status":"created","pid":4711,"bundle":"/run/b","annotations":{"a":"b"}}',
    b'{"id":"a","bundle":"/b","pid":null,"annotations":null}',
    b'{"id":"a","bundle":"b"}',
    b'{"id":"a","bundle":"a/b"}',
    b'{"id":"a","bundle":""}',
    b'{"id":"","bundle":"/b"}',
    b'{"id":"\\u001b[2J","bundle":5}',
    b'{"id":"a","bundle":"/b","pid":9223372036854775808}',
    b'{"id":"a","bundle":"/b","annotations":{"a":["b"]}}',
    b"[]",
    b"",
)
