"""Invokers: the object through which a chain finds and runs its plugins."""

from __future__ import annotations

from nri.client.errors import PluginError
from nri.client.lookup import find
from nri.places import DEFAULT_BIN_DIRS
from nri.process.launch import launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nri.prefork.pool.pool import Pool
    from nri.process.launch import Output

    Log = Callable[[str], None]


class Invoker:
    """The interface of all invokers, like CNI's ``invoke.Exec``. A test implements it without processes."""

    def find(self, plugin: str) -> str:
        """Return the path of the executable of the type ``plugin``.

        :raises PluginError: if there is none that can be run.
        """
        raise NotImplementedError

    def run(self, path: str, plugin: str, request: bytes, deadline: float, *, max_output: int, log: Log) -> Output:
        """Run ``path`` as ``plugin invoke`` with ``request`` on its stdin.

        :param deadline: when the process is killed, a time of :func:`time.monotonic`.
        :param max_output: bytes of stdout beyond which the process is killed.
        :param log: called with each line of its stderr.
        :raises OSError: if it cannot be started; BrokenOffError if it was started and could not be read.
        """
        raise NotImplementedError


class DirectInvoker(Invoker):
    """Starts a process for each request.

    :param bin_dirs: the directories of the executables; the first executable found is run.
    :param check_owner: refuse an executable that users other than root and the caller can write to.
    """

    def __init__(self, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS, *, check_owner: bool = True) -> None:
        self.bin_dirs = tuple(bin_dirs)
        self.check_owner = check_owner
        self._launch = launch

    def find(self, plugin: str) -> str:
        """As :func:`nri.client.find`."""
        return find(plugin, self.bin_dirs, check_owner=self.check_owner)

    def run(self, path: str, plugin: str, request: bytes, deadline: float, *, max_output: int, log: Log) -> Output:
        """Run it as :func:`nri.process.launch.launch` does."""
        return self._launch(path, [plugin, "invoke"], request, deadline, max_output=max_output, log=log)


class PoolInvoker(DirectInvoker):
    """Runs a plugin in a process of the pool that has it loaded; starts one if there is none."""

    def __init__(self, pool: Pool, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS, *, check_owner: bool = True) -> None:
        super().__init__(bin_dirs, check_owner=check_owner)
        self._pool = pool
        self._launch = pool.launch

    def prepare(self, plugins: Iterable[str]) -> None:
        """Have the pool load these plugins in the background. Skip one that is not found: a request reports it."""
        for plugin in plugins:
            try:
                path = self.find(plugin)
            except PluginError:
                continue
            self._pool.prepare(path, plugin)
