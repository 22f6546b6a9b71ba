"""A stand-in for an NRI v2 plugin, as an executable of its own: see `tests.e2e.standin`, which installs it.

It keeps how it was launched and every request it is given, and agrees to everything. It speaks as much ttRPC
and protobuf as that takes, and uses nothing of this project, so what it shows is the runtime's doing.
"""

import json
import os
import socket
import struct
import sys
import time

PLUGIN, RUNTIME = 1, 2  # the trunk's connections: who serves there
REQUEST, RESPONSE = 1, 2  # ttRPC's types of message


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def fields(message: bytes) -> dict[int, int | bytes]:
    """The last value of each field of a protobuf message that has only numbers and byte strings."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            found[tag >> 3], at = message[at : at + value], at + value
        else:
            found[tag >> 3] = value
    return found


def field(number: int, value: bytes) -> bytes:
    """A field that is a short byte string."""
    return bytes([number << 3 | 2, len(value)]) + value


class Mux:
    """The socket to the runtime. A ttRPC message is a frame of its own, or follows its header's frame."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream, self.kept = stream, {PLUGIN: b"", RUNTIME: b""}

    def send(self, connection: int, stream: int, kind: int, data: bytes) -> None:
        message = struct.pack(">IIBB", len(data), stream, kind, 0) + data
        self.stream.sendall(struct.pack(">II", connection, len(message)) + message)

    def receive(self) -> tuple[int, int, int, bytes]:
        """The next message: connection, stream, type, data. EOFError when the runtime has gone."""
        while True:
            connection, length = struct.unpack(">II", self._exactly(8))
            self.kept[connection] += self._exactly(length)
            kept = self.kept[connection]
            if len(kept) >= 10:
                length, stream, kind, _ = struct.unpack(">IIBB", kept[:10])
                if len(kept) >= 10 + length:
                    self.kept[connection] = kept[10 + length :]
                    return connection, stream, kind, kept[10 : 10 + length]

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self.stream.recv(length - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def launched() -> dict[str, object]:
    descriptors = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            descriptors[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            pass  # what listed the directory
    with open("/proc/self/environ") as file:  # Python adds to its own
        environment = dict(entry.split("=", 1) for entry in file.read().split("\0") if entry)
    return {
        "environment": environment,
        "descriptors": descriptors,
        "cwd": os.getcwd(),
        "arguments": sys.argv,
        "leads its process group": os.getpgid(0) == os.getpid(),
        "parent": os.getppid(),
    }


def keep(kept: str, **what: object) -> None:
    with open(f"{kept}/lines", "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "time": time.time(), **what}) + "\n")


def main(kept: str) -> None:
    keep(kept, launched=launched())
    print("said on stderr", file=sys.stderr, flush=True)
    mux = Mux(socket.socket(fileno=int(os.environ["NRI_PLUGIN_SOCKET"])))
    name, index = (os.environb[key] for key in (b"NRI_PLUGIN_NAME", b"NRI_PLUGIN_IDX"))
    identity = field(1, name) + field(2, index)
    register = field(1, b"nri.pkg.api.v1alpha1.Runtime") + field(2, b"RegisterPlugin") + field(3, identity)
    mux.send(RUNTIME, 1, REQUEST, register)
    try:
        while True:
            connection, stream, _, data = mux.receive()
            if connection == PLUGIN:
                call = fields(data)
                method, payload = bytes(call[2]).decode(), bytes(call.get(3, b""))
                keep(kept, method=method, payload=payload.hex(), timeout=call.get(4, 0))
                mux.send(PLUGIN, stream, RESPONSE, b"")
    except (EOFError, ConnectionError) as error:
        keep(kept, ended=type(error).__name__)


# tests.e2e.standin adds the call of main
