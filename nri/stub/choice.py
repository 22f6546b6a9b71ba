"""The events to which a plugin subscribes: those that it chooses when it is configured, else all that it handles."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nri.api import events
from nri.errors import NRIError, escape


def chosen_events(answer: object, handled: Collection[int]) -> frozenset[int]:
    """Return the events that ``configure`` has answered with; all of ``handled`` for None and for an empty answer.

    :param answer: names such as ``"CreateContainer"`` and numbers such as ``api.Event.CREATE_CONTAINER``.
    :raises NRIError: for something else, a name or number that is no event's, or an event that has no handler.
    """
    if answer is None:
        return frozenset(handled)
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        found = escape(f"{answer!r:.80}")
        raise NRIError(f"configure returned {found}, expected a collection of events such as ['CreateContainer']")
    try:
        methods = [events.find(each) for each in answer]
    except ValueError as error:
        raise NRIError(f"configure chose an event: {escape(str(error))}") from error
    unhandled = [method.rpc for method in methods if method.event not in handled]
    if unhandled:
        names = ", ".join(method.rpc for method in events.METHODS if method.event in handled)
        raise NRIError(f"configure chose {', '.join(unhandled)}, but the plugin handles only {names}")
    return frozenset(int(method.event) for method in methods) or frozenset(handled)
