"""The sandboxes and containers that live, and for which no ``create`` is on record.

Runtimes synchronize with what they know, which is more than what lives:

| runtime | sandboxes | containers |
| --- | --- | --- |
| containerd 1.7, 2.x | all but unknown ones, also stopped ones; these have no pid | created and running ones |
| CRI-O | all, also stopped ones; no pid if stopped, or without infra container | created, running and paused ones |

So a container lives if it runs or is paused. A created one gets its StartContainer later. A sandbox lives if it has a
pid, or a container that lives: runtimes stop the containers first. A sandbox without both may be ready or stopped; it
is proven ready by the start of a container in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nri.types.v1 import State
from nri.v1bridge import requests
from nri.v2 import api

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from nri.types.v1 import Request

_LIVES = (api.ContainerState.CONTAINER_RUNNING, api.ContainerState.CONTAINER_PAUSED)


class Missed(NamedTuple):
    """A sandbox or container that lives and was not served."""

    request: Request
    """Its ``create``, marked as late."""
    name: str
    """``NAMESPACE/POD[/CONTAINER]``."""


class Found(NamedTuple):
    """The result of a synchronization."""

    missed: list[list[Missed]]
    """For each pod the sandbox, if it was missed, and then its containers; no item is empty."""
    unproven: dict[str, list[Missed]]
    """By id, the sandboxes that were not served and may be ready or stopped."""

    def counted(self) -> str:
        """Return the numbers of those that were missed, for the log: ``3 sandboxes and 5 containers``."""
        sandboxes = sum(each.request.is_sandbox for pod in self.missed for each in pod)
        return (
            f"{_of(sandboxes, 'sandbox', 'es')} and {_of(sum(map(len, self.missed)) - sandboxes, 'container', 's')}"
        )


def find(pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], served: Container[str]) -> Found:
    """Compare what a runtime has synchronized with the ids that were *served*."""
    by_pod: dict[str, list[api.Container]] = {}
    for container in containers:
        if container.id and container.state in _LIVES:
            by_pod.setdefault(container.pod_sandbox_id, []).append(container)
    known = {pod.id: pod for pod in pods if pod.id}
    found = Found([], {})
    for id_ in [*known, *[id_ for id_ in by_pod if id_ not in known]]:
        pod = known.get(id_)
        group: list[Missed] = []
        if pod is not None and id_ not in served:
            sandbox = Missed(requests.of_pod(pod, State.CREATE).replace(late=True), requests.name_of(pod))
            if pod.pid or id_ in by_pod:
                group.append(sandbox)
            else:
                found.unproven[id_] = [sandbox]
        about = pod or api.PodSandbox(id=id_)
        group += [_of_container(about, each) for each in by_pod.get(id_, ()) if each.id not in served]
        if group:
            found.missed.append(group)
    return found


def _of_container(pod: api.PodSandbox, container: api.Container) -> Missed:
    request = requests.of_container(pod, container, State.CREATE).replace(late=True)
    return Missed(request, requests.name_of(pod, container))


def _of(number: int, what: str, ending: str) -> str:
    return f"{number} {what}{'' if number == 1 else ending}"
