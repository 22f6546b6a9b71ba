"""``pause`` and ``resume``: plugins hear of it when it is done."""

from __future__ import annotations

from nri.errors import NRIError
from nri.runtime.invocation import request, spec_of
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.runtime.invocation import Invocation


def freeze(call: Invocation) -> int:
    """Pause or resume the container, then run the chain; return the real runtime's exit status.

    The container is paused, or runs again: the chain cannot undo that, so its failure is reported, and no more.
    """
    name = State(call.line.command)
    try:
        chains = call.chains()
        id_ = call.container_id()
    except NRIError as error:
        call.report.error(*str(error).split("\n"))
        call.real.execute(call.line.words)
    if not id_ or not chains.wants(name):
        call.real.execute(call.line.words)
    status = call.real.run(call.line.words)
    if status:
        return status
    try:
        if (state := call.state(id_)) is None:
            raise NRIError("the container has no state")
        chains.run(request(name, id_, spec_of(state), state.pid))
    except (NRIError, OSError) as error:
        call.report.error(str(error))
    return 0
