"""Addresses, and the limits of the server: time, and connections at once."""

import socket

import pytest

from nri.metrics.server import ListenError, MetricsServer, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":10753", ("127.0.0.1", 10753)),
        ("10753", ("127.0.0.1", 10753)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::]:0", ("::", 0)),
        ("node1.example.com:65535", ("node1.example.com", 65535)),
    ],
)
def test_an_address_without_a_host_is_loopback(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":65536", ":-1", "::1", "a:٣", ":1e3"])
def test_another_text_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ListenError, match="expected"):
        parse_address(text)


def test_an_address_that_cannot_be_used_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            MetricsServer(("127.0.0.1", port), lambda: b"")
    with pytest.raises(ListenError, match=r"cannot listen on nowhere\.invalid port 0: .+; expected an address"):
        MetricsServer(("nowhere.invalid", 0), lambda: b"")
