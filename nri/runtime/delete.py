"""``delete``: plugins hear of it before the container is gone, and cannot stop it."""

from __future__ import annotations

from nri.errors import NRIError, escape
from nri.runtime.invocation import bare_spec_of, request
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nri.runtime.chains import HostChains
    from nri.runtime.invocation import Invocation


def delete(call: Invocation) -> NoReturn:
    """Run the chain for each container that will be deleted, then become the real runtime.

    Neither a failure nor a plugin or file that blocks keeps the container.
    """

    def go_on(reason: str) -> None:
        import _signal  # type: ignore[import-not-found] # the signal module would import enum

        call.report.error(reason)
        _signal.setitimer(_signal.ITIMER_REAL, 0)  # it would outlive the exec
        call.real.execute(call.line.words)

    try:
        chains = call.chains(go_on)
        if chains.wants(State.DELETE):
            about = call.report.about
            for id_ in _ids(call):
                call.report.about = f"{about} {escape(id_)}"
                _tell(call, chains, id_, go_on)
            call.report.about = about
    except (NRIError, OSError) as error:
        call.report.error(*str(error).split("\n"))
    call.real.execute(call.line.words)


def _tell(call: Invocation, chains: HostChains, id_: str, go_on: Callable[[str], None]) -> None:
    try:
        state = call.state(id_)
        if state is None or not (call.line.has("force") or state.status in ("created", "stopped")):
            return  # there is none, or the real runtime refuses
        spec = bare_spec_of(state)
        call.delete_chain(chains, request(State.DELETE, id_, spec, max(0, state.pid)), on_late=go_on)
    except (NRIError, OSError) as error:
        call.report.error(str(error))


def _ids(call: Invocation) -> list[str]:
    """Return the ids on the command line; those that match, for crun's ``--regex``."""
    if not call.line.has("regex"):
        return call.line.arguments[:1]
    import re

    done = call.ask("list", "--quiet")
    try:
        wanted = re.compile(call.line.arguments[0] if call.line.arguments else r"(?!)")
    except re.error as error:
        raise NRIError(f"--regex: {error}") from error
    return [id_ for id_ in done.stdout.decode(errors="replace").split() if wanted.search(id_)]
