"""HTTP without a socket: one page, at one path, for one kind of request."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.metrics.http_answer import MAX_HEAD, answer

PAGE = b"nri_v1bridge_up 1.0\n"


def get(line: str, *fields: str) -> tuple[str, dict[str, str], bytes]:
    """Status, header fields and body of the answer to a request."""
    return split(answer("\r\n".join([line, *fields, "", ""]).encode(), lambda: PAGE))


def split(response: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = response.partition(b"\r\n\r\n")
    line, *rest = head.decode().split("\r\n")
    protocol, _, status = line.partition(" ")
    assert protocol == "HTTP/1.1"
    fields = dict(field.split(": ", 1) for field in rest)
    assert fields["Connection"] == "close"
    return status, fields, body


def asked() -> bytes:
    pytest.fail("the bridge was asked for a page that is not there")


def test_page_is_at_its_path_with_any_parameters_and_head_has_no_body() -> None:
    status, fields, body = get("GET /metrics HTTP/1.1", "Host: localhost:10753")

    assert (status, body, fields["Content-Length"]) == ("200 OK", PAGE, str(len(PAGE)))
    assert fields["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert get("GET /metrics?name[]=up HTTP/1.0")[2] == PAGE
    status, fields, body = get("HEAD /metrics HTTP/1.1")
    assert (status, fields["Content-Length"], body) == ("200 OK", str(len(PAGE)), b"")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /Metrics HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET * HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"get /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"", "400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\n", "400 Bad Request"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/2\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nA: " + b"a" * MAX_HEAD, "431 Request Header Fields Too Large"),
    ],
    ids=range(11),
)
def test_other_requests_are_refused_and_the_bridge_is_not_asked(head: bytes, status: str) -> None:
    found, fields, _ = split(answer(head, asked))
    assert found == status
    assert fields.get("Allow") == ("GET, HEAD" if status.startswith("405") else None)


@pytest.mark.parametrize(
    ("field", "is_packed"),
    [
        ("Accept-Encoding: gzip", True),
        ("accept-encoding: deflate, GZIP;q=0.5", True),
        ("Accept-Encoding: gzip; q=0", False),
        ("Accept-Encoding: identity", False),
        ("X-Accept-Encoding: gzip", False),
    ],
)
def test_the_page_is_packed_for_those_who_can_unpack_it(field: str, is_packed: bool) -> None:
    status, fields, body = get("GET /metrics HTTP/1.1", field)

    assert (status, fields.get("Content-Encoding")) == ("200 OK", "gzip" if is_packed else None)
    assert (gzip.decompress(body) if is_packed else body) == PAGE
    assert fields["Content-Length"] == str(len(body))


@given(st.binary(max_size=200))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    for head in (data, data + b"\r\n\r\n", b"GET /metrics HTTP/1.1\r\n" + data + b"\r\n\r\n"):
        assert split(answer(head, lambda: PAGE))[0][:1] in ("2", "4")
