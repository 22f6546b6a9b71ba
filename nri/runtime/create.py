"""``create``: plugins may change the container before the real runtime makes it, and refuse it before it starts."""

from __future__ import annotations

import os

from nri.client.oci import spec_from_oci
from nri.errors import NRIError, escape
from nri.runtime.config_file import ConfigFile
from nri.runtime.invocation import request
from nri.types import DecodeError
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.runtime.chains import HostChains
    from nri.runtime.invocation import Invocation

_LAST_PID = 1 << 22  # proc(5), pid_max


def create(call: Invocation) -> int:
    """Run ``setup``, the real runtime and ``create``; return the exit status. It may not return (exec)."""
    chains = call.chains()
    id_ = call.container_id()
    if not id_ or not chains.wants(State.SETUP, State.CREATE):
        call.real.execute(call.line.words)
    file = open_config(call)
    spec = spec_from_oci(file.config)
    wants_setup = chains.wants(State.SETUP, asked=request(State.SETUP, id_, spec))
    if wants_setup:
        set_up(call, chains, id_, file)
    if not wants_setup and not chains.wants(State.CREATE, asked=request(State.CREATE, id_, spec)):
        call.real.execute(call.line.words)
    status = call.real.run(call.line.words)
    if status:
        if wants_setup:
            call.undo_unless_taken(chains, id_, spec_from_oci(file.config))
        return status
    _run_create(call, chains, id_, file.config)
    return 0


def open_config(call: Invocation) -> ConfigFile:
    """Return the configuration of the bundle on the command line.

    :raises DecodeError: if it cannot be read.
    """
    name = call.line.value("config", "config.json")  # crun's option
    path = os.path.join(call.line.value("bundle", "."), name)
    try:
        return ConfigFile(os.path.abspath(path))
    except OSError as error:
        raise NRIError(f"{escape(path)}: is relative, and the current directory is gone: {error.strerror}") from error


def set_up(call: Invocation, chains: HostChains, id_: str, file: ConfigFile) -> None:
    """Run the chain for ``setup``, and write what the plugins have changed to the container's configuration.

    :raises NRIError: if a plugin refuses it, or it cannot be written; the plugins have then got a ``delete``.
    """
    oci = file.config
    changes = call.changes(oci)
    asked = request(State.SETUP, id_, spec_from_oci(oci, adjustable=True))
    try:
        chains.run(asked, changes=changes)
        call.apply_updates(changes)
        file.write(changes.config)
    except (NRIError, OSError):
        call.undo_unless_taken(chains, id_, spec_from_oci(oci))  # one that has succeeded may have something to undo
        raise


def _run_create(call: Invocation, chains: HostChains, id_: str, oci: dict[str, Any]) -> None:
    """Run the chain for ``create``; if it fails, take the container back.

    :raises NRIError: if it fails.
    """
    spec = spec_from_oci(oci)

    try:
        chains.run(request(State.CREATE, id_, spec, _pid(call, id_)), if_killed=lambda: call.destroy(id_))
    except (NRIError, OSError):
        call.take_back(chains, id_, spec)
        raise


def _pid(call: Invocation, id_: str) -> int:
    """Return the pid of a container that was created.

    :raises NRIError: if it is not known.
    """
    if path := call.line.value("pid-file"):
        try:
            with open(path, "rb") as file:
                text = file.read(32).strip()
            if text.isdigit() and 0 < int(text) <= _LAST_PID:
                return int(text)
        except OSError:
            pass  # the state has it, too
    state = call.state(id_)
    if state is None or state.pid <= 0:
        raise DecodeError(f"the state of {escape(id_)} has no pid, although the container was created")
    return state.pid
