"""HTTP, as far as a scrape needs it: from the head of a request to the whole answer. No I/O.

There is one page, at /metrics, for GET and HEAD. Each answer ends its connection, so a peer can keep none open.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from nri.metrics.page import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = b"/metrics"

VERSIONS = (b"HTTP/1.1", b"HTTP/1.0")

MAX_HEAD = 8192
"""Bytes of a request's head, the line and the header fields; Prometheus sends some 300."""

END_OF_HEAD = b"\r\n\r\n"

_VISIBLE = bytes(range(0x21, 0x7F))  # of these a target consists (RFC 3986)
_PLAIN = "text/plain; charset=utf-8"


def answer(head: bytes, text: Callable[[], bytes]) -> bytes:
    """Return the answer to a request.

    :param head: what came until the empty line, with it; or less or more, if the peer sent no such line.
    :param text: makes the page, and is called for a request of the page only.
    """
    if not head.endswith(END_OF_HEAD):
        wrong = "431 Request Header Fields Too Large" if len(head) > MAX_HEAD else "400 Bad Request"
        return _response(wrong, f"expected a request of at most {MAX_HEAD} bytes, ended by an empty line\n".encode())
    line, *fields = head[: -len(END_OF_HEAD)].split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or words[2] not in VERSIONS or words[1].translate(None, _VISIBLE):
        return _response("400 Bad Request", b"expected: GET /metrics HTTP/1.1\n")
    method, target, _ = words
    if target.partition(b"?")[0] != PATH:
        return _response("404 Not Found", b"there is /metrics only\n", {}, method)
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", b"expected GET or HEAD\n", {"Allow": "GET, HEAD"})
    body, more = text(), {}
    if _accepts_gzip(fields):
        body, more = gzip.compress(body, 6, mtime=0), {"Content-Encoding": "gzip"}
    return _response("200 OK", body, {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding", **more}, method)


def _accepts_gzip(fields: list[bytes]) -> bool:
    """Return whether a header field Accept-Encoding names gzip, without refusing it (RFC 9110, 12.5.3)."""
    for field in fields:
        name, _, value = field.partition(b":")
        if name.strip().lower() == b"accept-encoding":
            for choice in value.lower().split(b","):
                coding, _, weight = choice.replace(b" ", b"").partition(b";q=")
                if coding == b"gzip" and (not weight or weight.strip(b"0.")):
                    return True
    return False


def _response(status: str, body: bytes, fields: dict[str, str] | None = None, method: bytes = b"GET") -> bytes:
    all_fields = {"Content-Type": _PLAIN, "Content-Length": str(len(body)), "Connection": "close", **(fields or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in all_fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + (b"" if method == b"HEAD" else body)
