"""The process behind a plugin's server handle: its own, or one that it shares (:mod:`.shared_server`)."""

from __future__ import annotations

import os
from typing import Protocol

from nri.prefork.pool import in_background
from nri.process.spawn import pipe, spawn
from nri.process.wait import end_child

END_WITHIN = 2.0  # seconds that a server has to end by itself


class ServerProcess(Protocol):
    """The process behind a handle: of this plugin alone, or shared with others."""

    is_shared: bool
    """True if it serves other plugins, too."""

    stderr: int
    """A non-blocking descriptor of its output while it loads the plugin, which the handle closes; -1 without one."""

    def distrust(self) -> None:
        """Let no other plugin be served by this process: it may be at fault that a worker was killed."""

    def leave(self, *, wait: bool) -> None:
        """End what the process does for this plugin, whose control socket is closed.

        :param wait: return only when it has ended, if it ends.
        """


class OwnProcess:
    """A server process of one plugin: ``TYPE prefork``.

    :param control: the descriptor of its end of the control socket.
    :raises OSError: when it can't be started.
    """

    is_shared = False

    def __init__(self, path: str, plugin: str, control: int) -> None:
        self.stderr, output = pipe()
        try:
            os.set_blocking(self.stderr, False)
            self._pid = spawn(path, [plugin, "prefork"], (control, output, output))
        except BaseException:
            os.close(self.stderr)
            raise
        finally:
            os.close(output)

    def distrust(self) -> None:
        """Do nothing: the process is not used again."""

    def leave(self, *, wait: bool) -> None:
        """End it. Its process group is killed, too: the plugin may have started processes while it was loaded."""
        if wait or not in_background(end_child, self._pid, END_WITHIN):
            end_child(self._pid, END_WITHIN)
