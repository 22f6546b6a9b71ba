"""D-Bus messages, with a second opinion: jeepney reads what is written here, and writes what is read here."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    Parser,
    new_error,
    new_method_call,
    new_method_return,
    new_signal,
)
from jeepney.low_level import Endianness

from nri.cgroups import dbus

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
CALL = new_method_call(DBusAddress("/a", bus_name="a.b", interface="a.b"), "Ask")
CALL.header.serial = 7


def parsed(data: bytes) -> Message:
    parser = Parser()
    parser.add_data(data, fds=[])
    message = parser.get_next_message()
    assert message is not None
    assert parser.get_next_message() is None
    return message


@given(st.lists(TEXTS, max_size=3), st.integers(1, 2**32 - 1))
def test_a_call_is_what_another_reads(arguments: list[str], serial: int) -> None:
    data = dbus.call(serial, "/a/b_2e", "org.a", "Ask", *arguments, destination="org.b")
    message = parsed(data)
    assert message.header.message_type is MessageType.method_call
    assert message.header.serial == serial
    fields = message.header.fields
    assert fields[HeaderFields.path] == "/a/b_2e"
    assert fields[HeaderFields.interface] == "org.a"
    assert fields[HeaderFields.member] == "Ask"
    assert fields[HeaderFields.destination] == "org.b"
    assert list(message.body) == arguments
    assert dbus.size(data) == len(data)


@given(TEXTS, st.integers(0, 2**64 - 1) | st.binary(max_size=1100))
def test_a_property_is_what_another_reads(name: str, value: int | bytes) -> None:
    message = parsed(dbus.set_properties(1, "/unit", name, value, destination="org.b"))
    kind = "t" if isinstance(value, int) else "ay"
    assert message.header.fields[HeaderFields.signature] == "ba(sv)"
    assert message.body == (True, [(name, (kind, value))])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "s": TEXTS,
    "t": st.integers(0, 2**64 - 1),
    "u": st.integers(0, 2**32 - 1),
    "ay": st.binary(max_size=1100),
}


@given(
    st.one_of([st.tuples(st.just(kind), value) for kind, value in VALUES.items()]),
    st.sampled_from(Endianness),
)
def test_values_of_another_writer_are_read(
    value: tuple[str, str | int | bytes], endianness: Endianness
) -> None:
    reply = new_method_return(CALL, "v", (value,))
    reply.header.endianness = endianness
    data = reply.serialise(3)
    assert dbus.size(data) == len(data)
    message = dbus.read(data)
    assert (message.type, message.reply_to, message.error, message.value) == (
        dbus.REPLY,
        7,
        "",
        value[1],
    )


def test_errors_signals_and_empty_replies_are_read() -> None:
    signal = new_signal(DBusAddress("/", interface="a.b"), "Changed", "a{sv}", ({},))
    for sent, read in (
        (new_error(CALL, "a.b.No", "s", ("not today",)), (dbus.ERROR, 7, "a.b.No", "not today")),
        (signal, (4, 0, "", None)),
        (new_method_return(CALL), (dbus.REPLY, 7, "", None)),
    ):
        message = dbus.read(sent.serialise(3))
        assert (message.type, message.reply_to, message.error, message.value) == read


WHOLE = new_method_return(CALL, "v", (("ay", b"\x0e"),)).serialise(3)


def test_a_message_that_is_cut_is_refused() -> None:
    for cut in range(len(WHOLE)):
        with pytest.raises(dbus.FormatError):
            dbus.read(WHOLE[:cut])


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"x" + WHOLE[1:], "no D-Bus message"),
        (WHOLE[:3] + b"\2" + WHOLE[4:], "no D-Bus message"),
        (WHOLE[:4] + b"\xff\xff\xff\xff" + WHOLE[8:], "a message of 4294967"),
        (WHOLE[:12] + b"\xff\xff\0\1" + WHOLE[16:], "a message of 16842"),
        (b"", "no D-Bus message"),
    ],
)
def test_an_invalid_header_is_refused(head: bytes, reason: str) -> None:
    with pytest.raises(dbus.FormatError, match=reason):
        dbus.size(head)


def test_a_header_field_of_another_type_is_refused() -> None:
    for field, reason in (
        (b"\5\1t\0" + bytes(11) + b"\1", "header field 5 has the type 't', expected 'u'"),
        (b"\4\1u\0" + bytes(3) + b"\1", "header field 4 has the type 'u', expected 's'"),
        (b"\x08\1u\0" + bytes(3) + b"\1", "header field 8 has the type 'u', expected 'g'"),
    ):
        with pytest.raises(dbus.FormatError, match=reason):
            dbus.read(b"B\3\1\1" + bytes(7) + b"\1" + bytes(3) + bytes((len(field),)) + field)
