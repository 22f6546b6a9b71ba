"""Messages of systemd: any bytes are a message, or a FormatError of one printable line. The size in the
header is that of the message, and no value is longer.

The input is what a socket gave.
"""

from __future__ import annotations

from nri.cgroups import dbus


def check(data: bytes) -> None:
    """Read one message from the beginning of the bytes."""
    try:
        size = dbus.size(data)
        assert dbus.FIXED <= size <= dbus.MAX_MESSAGE
        message = dbus.read(data[:size])
    except dbus.FormatError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 500
        return
    assert message.type == data[1]
    assert message.reply_to in range(2**32)
    if isinstance(message.value, str | bytes):
        assert len(message.value) <= size


SEEDS = (
    dbus.call(1, "/a", "b.c", "Ask", "x", destination="d.e"),
    dbus.set_properties(2, "/a", "CPUQuotaPerSecUSec", 2**64 - 1, destination="d.e"),
    dbus.set_properties(3, "/a", "AllowedCPUs", b"\x0e\x00\x01", destination="d.e"),
    b"l\2\1\1\x0c\0\0\0\1\0\0\0\x0f\0\0\0\5\1u\0\7\0\0\0\x08\1g\0\1v\0\0\2ay\0\2\0\0\0\1\2",
    b"B\3\1\1\0\0\0\0\0\0\0\1\0\0\0\x10\5\1t\0\1u\0\0\0\0\3a\0\0\0\0",
    b"B\3\1\1\0\0\0\0\0\0\0\1\0\0\0\x10\4\1s\0\0\0\0\3a.b\0\0\0\0\0",
)
WORDS = (
    b"l\2\1\1",
    b"B\3\1\1",
    b"\5\1u\0",
    b"\4\1s\0",
    b"\x08\1g\0",
    b"\2ay\0",
    b"\1t\0",
    b"\1v\0",
    b"\xff\xff\xff\xff",
)
