"""A socket at which plugins from outside connect to an embedded runtime, as to a real one."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from nri.adaptation import AdaptationError, Runtime


@contextlib.contextmanager
def listening(runtime: Runtime, path: str | Path) -> Iterator[Runtime]:
    """Start the runtime, and attach what connects at *path*."""
    with runtime, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return  # it was shut down
                with contextlib.suppress(AdaptationError):
                    runtime.attach(sock)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield runtime
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            os.unlink(path)
