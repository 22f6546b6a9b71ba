"""Asks the plugins whether they accept their confs, before a changed set of files is taken into use.

A misspelt key of an entry keeps the last valid set in use; so does a conf that its plugin would refuse for every
container. Only an executable with the mark of a build of nri (``nri.client.build_mark``) is asked, ``TYPE check``,
and only for an entry that is new: a foreign program may take any verb for ``invoke``. One that does not answer in
time says nothing; its run reports what is wrong.
"""

from __future__ import annotations

from nri.client import build_mark
from nri.client.invoker import PluginError
from nri.client.verbs import ask
from nri.files import identity
from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.client.invoker import Invoker
    from nri.config.entries import ConfigList, PluginEntry
    from nri.config.faults import Fault

ANSWER_WITHIN = 1.0
"""Seconds that a plugin has to judge its conf: an event may wait for it, once after a change."""


class Acceptance:
    """Asks the plugins that an invoker finds.

    :ivar refused_by: the executables that have refused the set that was asked about last, as they were.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker
        self.refused_by: dict[str, tuple[int, ...]] = {}

    def faults(self, config: ConfigList, used: ConfigList) -> list[Fault]:
        """Return what the plugins of a set find wrong with their confs.

        :param used: the set in use: what it has is accepted.
        """
        self.refused_by = {}
        known = {entry.key for entry in used.plugins}
        found: list[Fault] = []
        for entry in config.plugins:
            if entry.key not in known:
                found += self._ask(entry)
        return found

    def is_changed(self) -> bool:
        """Return whether an executable that has refused its conf is another one now."""
        return any(identity(path) != before for path, before in self.refused_by.items())

    def _ask(self, entry: PluginEntry) -> Sequence[Fault]:
        try:
            path = self._invoker.find(entry.type)
            _, _, module = build_mark.read(path)
            if not module:
                return ()
            before = identity(path)
            conf = gojson.dumps(entry.conf)
            answer, _ = ask(path, [entry.type, "check"], conf, within=ANSWER_WITHIN)
        except (PluginError, OSError):
            return ()
        from nri.config.conf_verdict import conf_verdict  # only after a change

        verdict = conf_verdict(answer)
        faults = () if verdict is None else verdict.faults(entry)
        if faults:
            self.refused_by[path] = before
        return faults
