"""The protocol between a plugin's prefork server and a host's pool: its words and a codec without I/O.

A host may start a plugin once, as ``TYPE prefork``. This process is the server: it loads the plugin, and then it only
forks. Each request is still answered by a new process, a worker, which answers once. A worker is forked from the
server, which has seen no request, so it carries nothing over from an earlier request.

The server's stdin is the control socket (SOCK_SEQPACKET); the host has the other end. A message is a word, and where
it has an argument a blank and the argument:

=======  =================  ==========================================================================================
word     sent by            meaning
=======  =================  ==========================================================================================
files    server, first      The plugin is loaded. The argument lists the files it was loaded from, except its
                            executable and the interpreter's own library, each ended by a NUL. The host checks these
                            files before each request.
refused  server, instead    The workers would not be as good as new processes (:mod:`nri.prefork.server.fitness`), or
                            the plugin cannot be loaded. The argument is the reason, which is on stderr, too. The
                            server exits with status 2.
more     host               Fork a worker.
done     host               The host has finished with the worker with this PID.
next     host               ``done PID`` and ``more`` in one message.
ready    server             A worker with this PID waits. With the message come three descriptors: a pidfd, the
                            worker's socket (SOCK_STREAM), and a pipe from the worker's stdout and stderr.
=======  =================  ==========================================================================================

A worker reads one request from its socket: the length (:data:`LENGTH` bytes, network order), then the request. It
writes the bytes that ``TYPE invoke`` would write to stdout, in pieces: the length of a piece (the same form, not 0),
then the piece. Last come zeros in place of a length, and the exit status in one byte. By then the worker has closed
its files; it waits until the host closes the socket or kills it, because exiting takes longer than answering, and
would compete with the host for the CPU. If a worker ends before it has read the request, the host sees that the
socket was reset, and gives the request to another worker. A plugin that forks in ``invoke`` and returns in both
processes writes two results, as it does as ``TYPE invoke``: the second process writes a piece, and no end.

One server may serve several plugins (:mod:`nri.skel.shared`). Then its stdin takes one message for each, ``serve``,
with one descriptor: the control socket of that plugin, which works as above. The argument is the module that the
plugin's executable runs, the path of that executable, and the same path without links, each ended by a NUL. A worker
of such a server prefaults its pages only when the host asks for it, with a length of 0 (:data:`PREPARE`) before the
request: the host asks the worker that gets the next request, and the others stay small. The host closes stdin when
all plugins are to end. Both processes are of the same build, so this part has no version.

If there is no control socket, or a module is missing, the plugin writes ``TYPE prefork: REASON`` to stderr. The host
reads stderr until it receives ``files``; after that, the server's stderr is /dev/null.

When the host closes the control socket or ends, the server kills all workers, also those at work, and ends. A change
of this protocol changes :data:`VERSION`.
"""

from __future__ import annotations

import os

VERSION = 5  # of the protocol, which `TYPE version` prints
FILES, REFUSED, READY = b"files", b"refused", b"ready"  # the words of a server
MORE, DONE, NEXT = b"more", b"done", b"next"  # the words of a host
SERVE = b"serve"  # the word of a host to a server of several plugins
SHARED_VERB = "prefork-server"  # of a host's executable that is such a server; its argument is the build
MAX_MESSAGE = 65536  # bytes of a message on the control socket at most
MAX_ARGUMENT = 60_000  # bytes of the argument of `files` or `refused`; a plugin with longer file names is refused
LENGTH = 4  # bytes of the length of a request or of a piece
MAX_PIECE = 1 << 28  # bytes of a piece at most; the first four bytes of a text are a larger number
_END = PREPARE = bytes(LENGTH)


def encode_message(word: bytes, argument: bytes | int | None = None) -> bytes:
    """Return a message of the control socket; an integer argument is a process id."""
    if argument is None:
        return word
    return word + b" " + (b"%d" % argument if isinstance(argument, int) else argument)


def decode_message(data: bytes) -> tuple[bytes, bytes]:
    """Return the word of a message and its argument; the word is empty at the end of the socket."""
    word, _, argument = data.partition(b" ")
    return word, argument


def decode_pid(argument: bytes) -> int:
    """Return the process id in an argument, or 0 if the argument is not a process id."""
    return int(argument) if argument.isdigit() else 0


def encode_files(paths: list[str]) -> bytes:
    """Return the argument of ``files``: these paths, each with a NUL after it. That of ``serve`` has words."""
    return b"".join([os.fsencode(path) + b"\0" for path in paths])


def decode_files(argument: bytes) -> list[str]:
    """Return what :func:`encode_files` was given."""
    return [os.fsdecode(path) for path in argument.split(b"\0") if path]


def encode_request(data: bytes) -> bytes:
    """Return the bytes that a worker reads for the request ``data``."""
    return len(data).to_bytes(LENGTH, "big") + data


class RequestDecoder:
    """Decodes the bytes from a host on a worker's socket, in pieces of any size."""

    __slots__ = ("_head", "_skips", "is_asked", "left")

    def __init__(self, *, skips: bool = False) -> None:
        """:param skips: skip lengths of 0, which ask for preparation."""
        self._skips = skips
        self.is_asked = False  # True if preparation was asked for, and no request has followed yet
        self.left: int | None = None  # bytes of the request that are still to come; None until its length is known
        self._head = b""

    def feed(self, data: bytes) -> bytes:
        """Return the part of the request in ``data``, the bytes that were read next."""
        if self.left is None:
            self._head += data
            while self._skips and self._head.startswith(PREPARE):
                self._head, self.is_asked = self._head[LENGTH:], True
            if len(self._head) < LENGTH:
                return b""
            self.is_asked = False
            self.left = int.from_bytes(self._head[:LENGTH], "big")
            data = self._head[LENGTH:]
        self.left -= len(data)
        return data


def encode_piece(data: bytes) -> bytes:
    """Return the bytes that a worker writes for a piece of its stdout; none for an empty piece."""
    return len(data).to_bytes(LENGTH, "big") + data if data else b""


def encode_end(status: int) -> bytes:
    """Return the bytes that a worker writes last."""
    return _END + bytes([status & 0xFF])


class ResultDecoder:
    """Decodes the bytes from a worker, in pieces of any size."""

    __slots__ = ("_head", "_piece", "is_over", "is_text", "status", "stdout")

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.status: int | None = None  # the exit status that the worker has reported; None before its end
        self.is_over = False  # True if the result is complete: the end was read, or the bytes are not in pieces
        # True if the received bytes follow the end, or if the plugin wrote to the socket directly. They become part
        # of `stdout`, which makes the result invalid.
        self.is_text = False
        self._head = b""  # the bytes read so far of a length, or of the end
        self._piece = 0  # bytes of the current piece that are still to come

    def feed(self, data: bytes) -> None:
        """Decode ``data``, the bytes that were read next."""
        left = self._head + data
        self._head = b""
        while left:
            if self._piece:
                self.stdout += left[: self._piece]
                self._piece, left = max(0, self._piece - len(left)), left[self._piece :]
            elif self.is_text:
                self.stdout += left
                break
            elif len(left) <= LENGTH:
                self._head = left  # a length is followed by at least one byte of the piece, or by the exit status
                break
            elif left.startswith(_END):
                self.status, left = left[LENGTH], left[LENGTH + 1 :]
                self.is_over = self.is_text = True
            elif (size := int.from_bytes(left[:LENGTH], "big")) <= MAX_PIECE:
                self._piece, left = size, left[LENGTH:]
            else:
                self.is_over = self.is_text = True
