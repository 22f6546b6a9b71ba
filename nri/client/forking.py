"""Runs the plugins of this very build in forked processes, and starts all others.

Starting a plugin costs more than its work: the kernel loads a program, the interpreter starts and loads modules. A
host such as ``nri hook`` has loaded most of them already. So this invoker forks for a plugin whose code this process
has itself (:mod:`nri.client.own_build`). The process has all that the contract says: see :mod:`nri.process.forked`.

The process of the next plugin is forked while one runs. It waits for its request, which has the results of those
before it. If there is no request, it is killed.
"""

from __future__ import annotations

from nri.client.invoker import DirectInvoker, PluginError
from nri.client.own_build import find_program
from nri.places import DEFAULT_BIN_DIRS
from nri.process.forked import ForkedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nri.client.invoker import Log
    from nri.process.afresh import LoadedProgram
    from nri.process.launch import Output


class ForkingInvoker(DirectInvoker):
    """Forks for a plugin of this build, and starts any other.

    For a process with one thread that does nothing but run chains. The parameters are those of
    :class:`DirectInvoker`.
    """

    def __init__(self, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS, *, check_owner: bool = True) -> None:
        super().__init__(bin_dirs, check_owner=check_owner)
        self._expected: list[tuple[str, str, LoadedProgram]] = []  # the next plugins: path, type, and what it runs
        self._waiting: tuple[str, str, ForkedProgram] | None = None

    def expect(self, plugins: Iterable[str]) -> None:
        """Load those of the next plugins, in the order in which they will run, that are of this build.

        A plugin that cannot be run is left to its request, which reports it. Call :meth:`dismiss` after the chain.
        """
        for plugin in plugins:
            try:
                path = self.find(plugin)
            except PluginError:
                continue
            if (program := find_program(path, [plugin, "invoke"])) is not None:
                self._expected.append((path, plugin, program))

    def dismiss(self) -> None:
        """Expect no plugin any more; end the process that waits for a request."""
        self._expected.clear()
        if self._waiting is not None:
            waiting, self._waiting = self._waiting[2], None
            waiting.end()

    def run(self, path: str, plugin: str, request: bytes, deadline: float, *, max_output: int, log: Log) -> Output:
        """Run it in a forked process if it is expected, else start it."""
        if self._waiting is None:
            self._fork_next(deadline, path, plugin)
        if self._waiting is None or self._waiting[:2] != (path, plugin):
            return super().run(path, plugin, request, deadline, max_output=max_output, log=log)
        forked, self._waiting = self._waiting[2], None
        return forked.converse(
            request, deadline, max_output=max_output, log=log, meanwhile=lambda: self._fork_ahead(deadline)
        )

    def _fork_next(self, deadline: float, path: str, plugin: str) -> None:
        """Fork for a plugin if it is expected; those before it did not run.

        :raises OSError: when no process can be forked.
        """
        names = [expected[:2] for expected in self._expected]
        if (path, plugin) in names:
            del self._expected[: names.index((path, plugin))]
            self._waiting = (path, plugin, ForkedProgram(self._expected.pop(0)[2], deadline))

    def _fork_ahead(self, deadline: float) -> None:
        if not self._expected:
            return
        path, plugin, program = self._expected[0]
        try:
            self._waiting = (path, plugin, ForkedProgram(program, deadline))
        except OSError:
            return  # its request tries it again, and reports the error
        del self._expected[0]
