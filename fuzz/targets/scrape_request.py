"""The head of an HTTP request to ``nri metrics``: Python's client reads the answer, whose length is that of its body,
and the bridge is asked for ``GET`` and ``HEAD`` of ``/metrics`` only.
"""

from __future__ import annotations

import gzip
import http.client
import io
import re

from nri.metrics.http_answer import answer

PAGE = b"nri_v1bridge_up 1.0\n"
STATUSES = {200, 400, 404, 405, 431}
_ASKS = re.compile(rb"(GET|HEAD) /metrics(\?[!-~]*)? HTTP/1\.[01]\r\n", re.DOTALL)


class _Socket:
    """What Python's client reads a response from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def check(data: bytes) -> None:
    """Answer these bytes, as they came until the peer ended, and as a complete head."""
    for head in (data, data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"):
        asked: list[bytes] = []
        response = answer(head, lambda asked=asked: asked.append(PAGE) or PAGE)  # type: ignore[misc]
        read = http.client.HTTPResponse(_Socket(response))  # type: ignore[arg-type]
        read.begin()
        body = response.partition(b"\r\n\r\n")[2]
        assert read.status in STATUSES
        assert read.length == len(body) or (head.startswith(b"HEAD ") and body == b"")
        assert (read.status == 200) == bool(asked)
        assert len(asked) == int(head.endswith(b"\r\n\r\n") and _ASKS.match(head) is not None)
        if read.status == 200 and body:
            assert (gzip.decompress(body) if read.headers["Content-Encoding"] else body) == PAGE


SEEDS = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost:10753\r\nAccept-Encoding: gzip\r\n\r\n",
    b"HEAD /metrics?a=b HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"HEAD /none HTTP/1.1\r\n\r\n",
    b"GET  /metrics HTTP/1.1\r\n\r\n",
    b"GET /metrics HTTP/1.12\r\n\r\n",
    b"GET /metrics\n\n",
    b"HEAD /metrics?a=\rb HTTP/1.0\r\n\r\n",
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip;q=0, *\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 9000,
)
WORDS = (
    b"GET ",
    b"HEAD ",
    b"/metrics",
    b" HTTP/1.1",
    b"\r\n",
    b"\r\n\r\n",
    b"Accept-Encoding:",
    b"gzip",
    b";q=",
    b"?",
)
