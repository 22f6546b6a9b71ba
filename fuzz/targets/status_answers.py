"""Answers of a status socket: any bytes are refused with a sentence, or become a verdict in one short line and
a page that fits a terminal of 80 columns. The input is an answer.
"""

from __future__ import annotations

import contextlib
import json
import os

from tests.support import status_documents

from nri.cli.output import WIDTH
from nri.cli.status import page, pod_page
from nri.status.client import AskError, Reading, read
from nri.status.judging import DEGRADED, MAX_LINE, WELL, judge

os.environ["COLUMNS"] = str(WIDTH)  # without it, and without a terminal, no line is broken


def check(data: bytes) -> None:
    """Read the answer, and make all of it that can be made."""
    try:
        document = read(data, "/a.sock")
    except AskError as error:
        assert str(error).startswith("/a.sock: ")
        assert len(str(error)) < 2000
        return
    with contextlib.suppress(UnicodeError):  # of which each reader makes its own
        expected = json.loads(data.decode())
        json.dumps(expected, ensure_ascii=False).encode()
        assert document == expected
    lines = []
    try:
        with Reading("/a.sock"):
            verdict = judge(document)
            assert verdict.code in (WELL, DEGRADED)
            assert verdict.line.isprintable()
            assert len(verdict.line.encode()) <= MAX_LINE
            lines += page(document)
    except AskError as error:
        assert str(error).isprintable()
    try:
        with Reading("/a.sock"):
            lines += pod_page(document)
    except AskError as error:
        assert str(error).isprintable()
    for line in lines:
        assert len(line) <= WIDTH, line
        assert line.isprintable(), line


_PLUGIN = status_documents.plugin(
    lastError={"time": 1, "state": "create", "pod": "a/b", "container": None, "error": "\x1b[2J"}
)
_DOCUMENTS = (
    status_documents.healthy(plugins=[_PLUGIN]),
    status_documents.degraded(),
    status_documents.connecting(),
    status_documents.pod(status_documents.container(), status_documents.container(None)),
)
JSON = True
SEEDS = (
    b"",
    b"[]",
    b"{",
    b'{"protocol": 2}',
    b'{"protocol": 1, "error": "\\u001b"}',
    *[json.dumps(document).encode() for document in _DOCUMENTS],
    json.dumps(_DOCUMENTS[0]).encode().replace(b"commit", b"\x80commit"),
    json.dumps(_DOCUMENTS[0]).replace("0.1", "1e999").encode(),
)
_OBJECTS = (*_DOCUMENTS, _PLUGIN, status_documents.event(), status_documents.container())
WORDS = tuple({f'"{key}"'.encode(): None for document in _OBJECTS for key in document})
