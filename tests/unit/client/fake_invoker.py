"""An invoker that starts no process: a test says what each plugin writes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from nri.client import Client, Invoker, PluginError
from nri.config.entries import ConfigList, PluginEntry
from nri.process.conversation import Output

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Output | OSError


def output(stdout: Any = None, *, status: int = 0, stopped: str = "", stderr: str = "") -> Output:
    """What a process leaves; by default a result without a plugin's name."""
    made = Output()
    made.stdout = stdout if isinstance(stdout, bytes) else json.dumps(stdout or {}).encode()
    made.stderr, made.status, made.stopped = stderr, status, stopped
    return made


def entries(*types: str, **options: Any) -> list[PluginEntry]:
    return [PluginEntry(type=each, **options) for each in types]


def client(invoker: FakeInvoker, *plugins: PluginEntry, **options: Any) -> Client:
    """A client for these plugins, by default ``a``, ``b`` and ``c``."""
    return Client(ConfigList(plugins=plugins or entries("a", "b", "c")), invoker, **options)


class FakeInvoker(Invoker):
    """Finds every plugin in ``/bin``, except those in ``missing``.

    :param answers: by plugin type; a plugin without one writes a result with its name.
    """

    def __init__(
        self, answers: dict[str, Answer] | None = None, missing: tuple[str, ...] = ()
    ) -> None:
        self._answers = answers or {}
        self._missing = missing
        self.ran: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.seconds: list[float] = []  # from each run to its deadline
        self.lines: list[str] = []  # that each plugin writes to stderr
        self.takes = 0.0  # seconds that each run takes

    def find(self, plugin: str) -> str:
        if plugin in self._missing:
            raise PluginError(plugin, "not found: nowhere")
        return f"/bin/{plugin}"

    def run(
        self,
        path: str,
        plugin: str,
        request: bytes,
        deadline: float,
        log: Callable[[str], None],
        stop: Any = None,
    ) -> Output:
        assert path == f"/bin/{plugin}"
        self.ran.append(plugin)
        self.requests.append(json.loads(request))
        self.seconds.append(deadline - time.monotonic())
        for line in self.lines:
            log(line)
        time.sleep(self.takes)
        answer = self._answers.get(plugin)
        if isinstance(answer, OSError):
            raise answer
        return answer or output({"plugin": plugin})
