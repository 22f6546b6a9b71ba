"""Ways to cut a stream of bytes into pieces, as a socket may return them."""

from collections.abc import Iterator


def every_way(data: bytes) -> Iterator[list[bytes]]:
    """Whole; byte by byte; in two, cut at every place."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]
