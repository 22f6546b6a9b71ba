"""``delete``: plugins hear of it before the container is gone, and cannot stop it."""

from __future__ import annotations

from nri.errors import NRIError, escape
from nri.runtime.invocation import bare_spec_of, request
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from nri.runtime.chains import HostChains
    from nri.runtime.invocation import Invocation


def delete(call: Invocation) -> NoReturn:
    """Run the chain for each container that will be deleted, then become the real runtime."""
    try:
        chains = call.chains()
        if chains.wants(State.DELETE):
            for id_ in _ids(call):
                _tell(call, chains, id_)
    except (NRIError, OSError) as error:
        call.report.error(str(error).replace("\n", "; "))
    call.real.execute(call.line.words)


def _tell(call: Invocation, chains: HostChains, id_: str) -> None:
    state = call.state(id_)
    if state is None or not (call.line.has("force") or state.status in ("created", "stopped")):
        return  # there is none, or the real runtime refuses
    about, spec = call.report.about, bare_spec_of(state)
    call.avoid_doubling(chains, spec.annotations)
    call.report.about = f"{about} {escape(id_)}"
    asked = request(State.DELETE, id_, spec, max(0, state.pid))
    call.delete_chain(chains, asked, report=call.report.error)
    call.report.about = about


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
