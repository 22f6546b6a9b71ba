"""A node in a scratch directory: the compiled bridge, launched by the embedded runtime, with v0.1 plugins.

node = BridgeNode(scratch, binaries / "v1bridge", bin_dirs=[binaries], options={"logLevel": "error"})
node.configure("10.conf", {"type": "clearcfs"})
with node:
    node.runtime.run_pod_sandbox(pod)
    processes.resident(node.pid)
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harness.processes import command_line, descendants
from nri import adaptation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
"""The project's directory."""

BINARIES = ROOT / "dist/nri"
"""The compiled executables; ``make binaries`` builds them."""

PLUGIN = "10-v1bridge"
"""The name by which the runtime knows the bridge."""


class BridgeNode:
    """A scratch directory laid out like a node, and an embedded runtime that launches the bridge there.

    The constructor writes the files; ``start`` starts the processes. Until then, plugins are configured with
    ``configure``, and pods that exist before the bridge are added to ``runtime.store``.

    :param scratch: an existing directory. It gets ``plugins``, ``conf.d`` and ``resource.d``.
    :param bridge: the bridge's executable.
    :param bin_dirs: the directories with v0.1 plugins.
    :param options: more bridge options, by their keys in the bridge's configuration file.
    :param runtime: keyword arguments of ``nri.adaptation.Runtime``.
    :ivar runtime: the embedded runtime.
    :ivar conf_dir: the host configuration's directory.
    :ivar log_file: the bridge's log.
    :ivar pid: the bridge's process; 0 before ``start``, and when the bridge did not start.
    """

    def __init__(
        self,
        scratch: Path,
        bridge: Path,
        *,
        bin_dirs: Sequence[Path],
        options: Mapping[str, Any] | None = None,
        **runtime: Any,
    ) -> None:
        for name in ("plugins", "conf.d", "resource.d"):
            (scratch / name).mkdir()
        (scratch / "plugins" / PLUGIN).symlink_to(bridge)
        self.conf_dir, self.log_file, self.pid = scratch / "resource.d", scratch / "bridge.log", 0
        document = {
            "confDir": str(self.conf_dir),
            "binDirs": [str(folder) for folder in bin_dirs],
            "logFile": str(self.log_file),
            "recordDir": str(scratch / "v1bridge.record"),
            **(options or {}),
        }
        (scratch / f"conf.d/{PLUGIN}.conf").write_text(json.dumps(document))
        self._scratch = scratch
        self.runtime = adaptation.Runtime(
            plugin_dir=str(scratch / "plugins"), config_dir=str(scratch / "conf.d"), **runtime
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_served(self) -> bool:
        """True if the bridge is connected to the runtime."""
        return self.pid != 0 and self.runtime.plugins == [PLUGIN]

    def configure(self, file: str, *plugins: Mapping[str, Any]) -> None:
        """Write a file of the host configuration with these plugin entries."""
        document = {"version": "0.1", "plugins": list(plugins)}
        (self.conf_dir / file).write_text(json.dumps(document))

    def start(self) -> None:
        """Start the runtime, which launches the bridge and waits until it is registered."""
        self.runtime.start()
        mark = os.fsencode(self._scratch)
        self.pid = next((pid for pid in descendants(os.getpid()) if mark in command_line(pid)), 0)

    def log(self) -> str:
        """Return the bridge's log; "" when it does not exist."""
        return self.log_file.read_text() if self.log_file.exists() else ""

    def close(self) -> None:
        """End the runtime and the bridge, and kill what the bridge leaves behind."""
        family = [
            pidfd
            for pid in (descendants(self.pid) if self.pid else [])
            if (pidfd := _pidfd(pid)) >= 0
        ]
        self.runtime.close()
        for pidfd in family:
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(pidfd)


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1  # it has ended
