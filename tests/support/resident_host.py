"""A made-up host that keeps processes of its plugins: residents, or processes that wait for their request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.client.resident import Residents
from nri.config.entries import PluginEntry
from tests.support.host import request
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path

    from nri.client.standing import Standing
    from nri.types.v1 import Result
    from tests.support.host import Host


class ResidentHost:
    """A host and the processes that it keeps.

    :param type_: the plugin that is meant where a test names none.
    """

    def __init__(self, host: Host, type_: str) -> None:
        self.host = host
        self.type = type_
        self.residents = Residents([str(host.bin)], check_owner=False)

    def put(self, type_: str, text: str) -> Path:
        """Install an executable; replace an earlier one in one step."""
        part = self.host.script(f"{type_}.part", text)
        return part.rename(part.with_suffix(""))

    def keep(self, *types: str, **entry: Any) -> None:
        """Keep processes for entries of these types, and wait until they have started, or failed to."""
        self.residents.keep([PluginEntry(type=type_, **entry) for type_ in types])
        self.residents.prepare(SOON)

    def renew(self) -> None:
        """Replace processes that have ended."""
        self.residents.tidy()
        self.residents.prepare(SOON)

    def standing(self, type_: str = "") -> Standing:
        return self.residents.standing(str(self.host.bin / (type_ or self.type)))

    def ask(
        self,
        conf: Any = None,
        type_: str = "",
        *,
        spawned: bool = False,
        labels: dict[str, str] | None = None,
        on_step: Any = None,
        **options: Any,
    ) -> Result:
        """Send a request; return the result.

        :param spawned: to a process of its own.
        """
        entry = PluginEntry(type=type_ or self.type, conf=conf)
        client = self.host.client(entry, residents=None if spawned else self.residents, **options)
        (result,) = client.invoke(request(labels=labels or {}), "create", on_step=on_step)
        return result
