"""Ways to cut a stream of bytes into what a socket may give at once."""

from collections.abc import Iterator

from hypothesis import strategies as st


def every_way(data: bytes) -> Iterator[list[bytes]]:
    """Whole; byte by byte; in two, cut at every place."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Any way at all."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
