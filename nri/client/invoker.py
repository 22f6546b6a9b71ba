"""Finds a plugin's executable, and runs it: through an invoker, the object that a chain gets.

Only the configured directories are searched, never ``$PATH``. A type is a plain file name, so a configuration cannot
name a file elsewhere. An executable that other users could have put there is refused (``nri.trust``).
"""

from __future__ import annotations

import os

from nri import files, trust
from nri.config.entries import is_type_name
from nri.errors import NRIError, escape
from nri.places import DEFAULT_BIN_DIRS
from nri.process.conversation import NEVER, launch
from nri.types.gojson import shorten
from nri.types.v1 import RELEASE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.client.standing import Standing
    from nri.process.conversation import Output, Stop

    Log = Callable[[str], None]


class PluginError(NRIError):
    """A plugin failed: it was not found, could not be run, took too long, or reported an error.

    ``str()`` is ``TYPE: REASON``. Control characters in both are escaped, so the text is one line.

    :param killed: whether the host has killed it, as at its deadline; then the reason begins with ``killed: ``.
    :param refused: whether it is no failure, but an answer: the container may not have what it asks for.
    :param abandoned: whether the host has ended it since its answer was not wanted any more: that says nothing of it.
    """

    def __init__(
        self,
        plugin: str,
        reason: str,
        *,
        killed: bool = False,
        refused: bool = False,
        abandoned: bool = False,
    ) -> None:
        self.killed = killed
        self.refused = refused
        self.abandoned = abandoned
        self.plugin = escape(plugin)
        if killed:
            reason = f"killed: {reason}"
        self.reason = escape(reason)
        super().__init__(f"{self.plugin}: {self.reason}")


class Invoker:
    """Finds executables, and starts a process for each request. Others derive from it, as CNI's ``invoke.Exec``.

    :param bin_dirs: the directories of the executables; the first executable found is run.
    :param check_owner: refuse an executable that users other than root and the caller can write to.
    """

    def __init__(
        self, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS, *, check_owner: bool = True
    ) -> None:
        self.bin_dirs = tuple(bin_dirs)
        self.check_owner = check_owner
        # By path, and identity of the file.
        self._known: dict[tuple[str, tuple[int, ...]], Standing] = {}

    def acts_on(self, plugin: str, state: str) -> bool:
        """Return whether the type ``plugin`` is to be run for a state: unless it is known to do nothing."""
        return True

    def create_suffices(self, plugin: str) -> bool:
        """Return whether a missed ``setup`` of the type ``plugin`` is made up for by its ``create``, as it says."""
        return self.standing_of(plugin).create_suffices

    def releases(self, plugin: str) -> bool:
        """Return False if the type ``plugin`` says what it acts on, and that a release is not among it."""
        return self.says_it_acts_on(plugin, RELEASE)

    def says_it_acts_on(self, plugin: str, state: str) -> bool:
        """Return False if the type ``plugin`` says what it acts on, and that this state is not among it."""
        return state in self.standing_of(plugin).states

    def standing_of(self, plugin: str) -> Standing:
        """Return what the executable of a type says of itself; nothing if it cannot be asked: its run reports that.

        It is asked once while it is unchanged.
        """
        try:
            return self.said(self.find(plugin), plugin)
        except (PluginError, OSError):
            from nri.client.standing import UNKNOWN

            return UNKNOWN

    def said(self, path: str, plugin: str) -> Standing:
        """Return what an executable has said of itself while it is unchanged, or says now; a failure does not count.

        :raises OSError: as ``about``.
        """
        file = path, files.identity(path)
        known = self._known.get(file)
        if known is not None:
            return known
        standing = self.about(path, plugin)
        if standing.state != "failed":
            self._known[file] = standing
        return standing

    def about(self, path: str, plugin: str) -> Standing:
        """Return what an executable says of itself.

        :raises OSError: it cannot be read or started.
        """
        from nri.client.standing import about  # few requests need it

        return about(path, plugin)

    def run(
        self,
        path: str,
        plugin: str,
        request: bytes,
        deadline: float,
        log: Log,
        stop: Stop = NEVER,
    ) -> Output:
        """Run ``path`` as ``plugin invoke`` with ``request`` on its stdin.

        :param deadline: when the process is killed, a time of ``time.monotonic``.
        :param log: called with each line of its stderr.
        :param stop: ends it before its deadline.
        :raises OSError: if it cannot be started; BrokenOffError if it was started and could not be read.
        """
        return launch(path, [plugin, "invoke"], request, deadline, log=log, stop=stop)

    def find(self, plugin: str) -> str:
        """Return the path of the executable of a type: the first one in the directories.

        :raises PluginError: if no executable is found; the error names each file of that name that cannot be run.
            Also if the first executable is refused; no other directory is searched then, as it may have replaced a
            trusted one.
        """
        if not is_type_name(plugin):
            expected = "letters, digits and . _ -, beginning with a letter or digit"
            raise PluginError(shorten(plugin), f"is not the name of a plugin; expected {expected}")
        unusable = []
        for directory in self.bin_dirs:
            path = f"{directory}/{plugin}"
            try:
                status = os.stat(path)
            except FileNotFoundError:
                if len(self.bin_dirs) > 1 and not os.path.isdir(directory):
                    gone = (
                        f"{directory} does not exist, expected a directory, since it is named as "
                        "one of plugins"
                    )
                    raise PluginError(plugin, f"not run: {gone}") from None
                try:
                    unusable.append(
                        f"{path} is a link to {os.readlink(path)}, which does not exist"
                    )
                except OSError:
                    pass  # not a link, or removed a moment ago
                continue
            except OSError as error:
                unusable.append(f"{path} cannot be looked at: {error.strerror}")
                continue
            mode = status.st_mode
            if mode & 0o170000 != 0o100000:
                unusable.append(f"{path} is {files.describe(mode)}; expected an executable file")
            elif not os.access(path, os.X_OK):
                unusable.append(f"{path} is not executable{_why_not(path, mode)}")
            else:
                wrong = _distrust(path, status) if self.check_owner else ""
                if wrong:
                    raise PluginError(plugin, f"not run: {wrong}")
                return path
        if unusable:
            raise PluginError(plugin, f"not run: {'; '.join(unusable)}")
        raise PluginError(
            plugin,
            "not found: no such executable in "
            f"{', '.join(self.bin_dirs) or 'an empty list of directories'}",
        )


def _why_not(path: str, mode: int) -> str:
    if mode & 0o111 and os.statvfs(path).f_flag & os.ST_NOEXEC:
        return ", because its file system is mounted with noexec"
    return f" (mode {mode & 0o7777:04o}); expected one like 0755"


def _distrust(path: str, status: os.stat_result) -> str:
    try:
        return trust.judge_path(path, status)
    except OSError as error:
        return (
            f"{path} cannot be checked: {error.strerror}; expected an accessible parent directory"
        )
