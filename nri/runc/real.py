"""The real runtime: finds it, hands the process over to it, runs it as a child, asks it things."""

from __future__ import annotations

import os
import sys

from nri.errors import NRIError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import NoReturn

    from nri.process.conversation import Output
    from nri.runc.commandline import CommandLine

DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where a runtime is looked for by its name. ``$PATH`` is the caller's, and not followed."""

# the signal module would import enum
_SIGPIPE = 13
_SIGCHLD = 17
_SIGXFSZ = 25
FORWARDED = frozenset((1, 2, 3, 10, 12, 14, 15, 28, *range(34, 65)))
"""The signals that are forwarded to a child if they were sent to this process alone: HUP, INT, QUIT, USR1, USR2,
ALRM, TERM, WINCH and the real-time ones. A terminal sends its own to the whole group, the child included."""


def find(wanted: str, argv0: str) -> str:
    """Return the path of a runtime.

    :param wanted: its path or its name.
    :param argv0: what this program was called by: it is not found, whatever its name.
    :raises NRIError: if there is none.
    """
    ours = {_identity("/proc/self/exe")}
    if "/" in argv0:
        ours.add(_identity(argv0))
    ours.discard(None)
    paths = [wanted]
    where = ""
    if "/" not in wanted:
        paths = [f"{directory}/{wanted}" for directory in DIRECTORIES]
        where = f" in {', '.join(DIRECTORIES)}"
    for path in paths:
        is_executable = os.path.isfile(path) and os.access(path, os.X_OK)
        if is_executable and _identity(path) not in ours:
            return path
    raise NRIError(
        f"runtime: no executable {wanted}{where}, other than this program; expected runc, crun or "
        "the like"
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


class Real:
    """The real runtime at *path*."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_crun = "crun" in os.path.basename(path)
        self._environment = original(os.environ, is_frozen=getattr(sys, "frozen", False))

    def root(self, line: CommandLine) -> str:
        """Return the directory in which runc and crun keep their containers."""
        usual = "/run/crun" if self.is_crun else "/run/runc"
        return os.path.realpath(line.value("root", usual))

    def execute(self, words: Sequence[str]) -> NoReturn:
        """Become the real runtime.

        :raises NRIError: if it cannot be run.
        """
        _undo_pythons_signals()
        try:
            os.execve(self.path, [self.path, *words], self._environment)  # noqa: S606 - never with a shell
        except OSError as error:
            raise self._not_run(error) from error

    def run(self, words: Sequence[str], *, stdin: int = 0) -> int:
        """Run it as a child with our descriptors, and return its exit status; a negative one is a signal.

        :param stdin: the descriptor that it gets as 0.
        :raises NRIError: if it cannot be run.
        """
        import _signal  # type: ignore[import-not-found] # the signal module would import enum

        # Where it is ignored, the kernel keeps no exit status.
        _signal.signal(_SIGCHLD, _signal.SIG_DFL)
        waited_for = FORWARDED | {_SIGCHLD}
        mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, waited_for)
        try:
            child = self._spawn(words, stdin, mask)
            while True:
                info = _signal.sigwaitinfo(waited_for)
                if info.si_signo == _SIGCHLD:
                    pid, status = os.waitpid(child, os.WNOHANG)
                    if pid:
                        return os.waitstatus_to_exitcode(status)
                elif info.si_code <= 0:  # a process has sent it, not the terminal
                    os.kill(child, info.si_signo)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def _spawn(self, words: Sequence[str], stdin: int, mask: Iterable[int]) -> int:
        """Fork and exec: posix_spawn of glibc would leave two of its own signals ignored in the container."""
        try:
            read, write = os.pipe2(os.O_CLOEXEC)
            child = os.fork()
        except OSError as error:
            raise self._not_run(error) from error
        if child == 0:
            self._become(words, stdin, mask, write)
        os.close(write)
        number = os.read(read, 16)
        os.close(read)
        if number:
            os.waitpid(child, 0)
            raise self._not_run(OSError(int(number), os.strerror(int(number))))
        return child

    def _become(
        self, words: Sequence[str], stdin: int, mask: Iterable[int], failed: int
    ) -> NoReturn:
        import _signal

        try:
            if stdin:
                os.dup2(stdin, 0)
            _undo_pythons_signals()
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
            environment = self._environment
            if environment.get("LISTEN_PID") == str(os.getppid()):  # sd_listen_fds(3)
                environment["LISTEN_PID"] = str(os.getpid())
            os.execve(self.path, [self.path, *words], environment)  # noqa: S606 - never with a shell
        except OSError as error:
            os.write(failed, str(error.errno).encode())
        finally:
            os._exit(127)

    def _not_run(self, error: OSError) -> NRIError:
        return NRIError(f"runtime: {self.path} cannot be run: {error.strerror}")

    def ask(self, words: Sequence[str], deadline: float, stdin: bytes = b"") -> Output:
        """Run it apart from the caller's streams, and return what it has written and its exit status.

        :param deadline: a time of ``time.monotonic``, when it is killed.
        :raises NRIError: if it cannot be run.
        """
        from nri.process.conversation import Asked, Conversation, start

        try:
            pid, pipes = start(
                self.path, [self.path, *words], deadline, self._environment, is_plugin=False
            )
            return Conversation(Asked(pid), pipes, stdin, lambda line: None).run(deadline)
        except OSError as error:
            raise self._not_run(error) from error


def original(environment: Mapping[str, str], *, is_frozen: bool) -> dict[str, str]:
    """Return the environment that this process was called with.

    :param is_frozen: whether PyInstaller's launcher has started it, which sets variables for the libraries beside it.
    """
    if not is_frozen:
        return dict(environment)
    restored = {name: value for name, value in environment.items() if not name.startswith("_PYI_")}
    before = restored.pop("LD_LIBRARY_PATH_ORIG", None)
    restored.pop("LD_LIBRARY_PATH", None)
    if before is None:
        return restored
    return restored | {"LD_LIBRARY_PATH": before}


def _undo_pythons_signals() -> None:
    """Restore the dispositions that the interpreter has changed: an ignored signal stays ignored across exec."""
    import _signal

    for number in (_SIGPIPE, _SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
