"""The process at the other end of a Unix socket."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from nri.process import peer

_TELL = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"


def test_both_ends_of_a_connection_know_each_other(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with subprocess.Popen([sys.executable, "-I", "-c", _TELL, path]) as client:
            with listener.accept()[0] as connection:
                assert peer.credentials(connection) == (client.pid, os.geteuid())
            assert client.wait() == 0


def test_a_socket_without_a_peer_is_not_trusted() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        pid, user = peer.credentials(sock)
    assert (pid, user) == (0, 0xFFFFFFFF)
    assert not peer.is_trusted(user)
    assert [peer.is_trusted(user) for user in (0, os.geteuid(), os.geteuid() + 1)] == [
        True,
        True,
        False,
    ]
