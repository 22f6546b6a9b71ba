"""``run`` and ``restore``: the container starts within one command of the real runtime.

For ``run`` the chain of ``create`` is a createRuntime hook of the container (``nri hook``), which the real runtime
runs between creating and starting it: so the terminal, the streams and the exit status stay the real runtime's. The
bundle's config.json is put back afterwards. ``restore`` has no such point in all runtimes: there ``create`` comes
right after it, as late, and a refusal ends the container.
"""

from __future__ import annotations

import os
import sys

from nri.client.oci import spec_from_oci
from nri.errors import NRIError
from nri.runtime.create import open_config, set_up
from nri.runtime.invocation import request, spec_of
from nri.types.jsonobject import mismatch
from nri.types.v1 import Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.runtime.invocation import Invocation

MARK = "NRI_RUNTIME=run"
"""A variable in the hook's environment: a hook of a call that was killed is known by it, and replaced."""

_MAX_SAID = 65536


def run(call: Invocation) -> int:
    """Run the container with its chains; return the real runtime's exit status, negative for a signal."""
    chains = call.chains()
    id_ = call.container_id()
    if not id_ or not chains.wants(State.SETUP, State.CREATE, State.DELETE):
        call.real.execute(call.line.words)
    file = open_config(call)
    is_detached = call.line.has("detach")
    spec = spec_from_oci(file.config)
    if chains.wants(State.SETUP, asked=request(State.SETUP, id_, spec)):
        set_up(call, chains, id_, file)
        spec = spec_from_oci(file.config)
    log = f"{file.path}.nri-{os.getpid()}.log"
    try:
        if chains.wants(State.CREATE, asked=request(State.CREATE, id_, spec)):
            file.write(_with_hook(file.config, call, log))
        status = call.real.run(call.line.words)
    except NRIError:
        call.undo_chain(chains, id_, spec)
        raise
    finally:
        try:
            file.put_back()
        except NRIError as error:
            call.report.note(str(error))
        _report_hook(call, log)
    if status == 0 and is_detached:
        return 0
    call.undo_unless_taken(chains, id_, spec)  # it is taken if the container was kept, too
    return status


def restore(call: Invocation) -> int:
    """Restore the container, and run ``create`` for it; return the exit status."""
    chains = call.chains()
    id_ = call.container_id()
    if not id_ or not chains.wants(State.CREATE):
        call.real.execute(call.line.words)
    if not call.line.has("detach"):
        raise NRIError(
            "found no --detach, expected it: plugins are configured, and run when the container is restored"
        )
    status = call.real.run(call.line.words)
    if status:
        return status
    spec = Spec()
    try:
        if (state := call.state(id_)) is None:
            raise NRIError("the container was restored, and has no state")
        spec = spec_of(state)
        asked = request(State.CREATE, id_, spec, state.pid, late=True)
        chains.run(asked, if_killed=lambda: call.destroy(id_))
    except (NRIError, OSError):
        call.take_back(chains, id_, spec)
        raise
    return 0


def _with_hook(config: dict[str, Any], call: Invocation, log: str) -> dict[str, Any]:
    """Return the configuration with ``nri hook create`` as the last createRuntime hook."""
    hooks = config.get("hooks") or {}
    if not isinstance(hooks, dict):
        raise mismatch(hooks, "hooks", "an object")
    listed = hooks.get("createRuntime") or []
    if not isinstance(listed, list):
        raise mismatch(listed, "hooks.createRuntime", "an array")
    kept = [hook for hook in listed if not (isinstance(hook, dict) and MARK in (hook.get("env") or []))]
    options = call.options
    words = ["hook", "create", "--conf-dir", options.conf_dir, "--conf-file", options.conf_file]
    for directory in options.bin_dirs:
        words += ["--bin-dir", directory]
    words += ["--failure-policy", options.failure_policy, "--log-file", log]
    words += ["--timeout", repr(options.timeout), "--deadline", repr(options.deadline)]
    program, environment = _own_program()
    hook = {"path": program[0], "args": [*program[1], *words], "env": [MARK, *environment]}
    return config | {"hooks": hooks | {"createRuntime": [*kept, hook]}}


def _own_program() -> tuple[tuple[str, list[str]], list[str]]:
    """Return the executable and first arguments of the command ``nri``, and the variables that it needs."""
    if getattr(sys, "frozen", False):
        return (os.readlink("/proc/self/exe"), ["nri"]), []
    code = "from nri.cli.entry import main; main()"
    return (sys.executable, [sys.executable, "-c", code]), [f"PYTHONPATH={os.pathsep.join(sys.path)}"]


def _report_hook(call: Invocation, log: str) -> None:
    """Report what the hook has written: runc shows a hook's stderr, crun discards it."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            said = file.read(_MAX_SAID)
        os.unlink(log)
    except FileNotFoundError:
        return  # the hook had nothing to say
    except OSError as error:
        call.report.note(f"what the plugins said cannot be read: {log}: {error.strerror}")
        return
    for line in said.splitlines():
        text = line.partition(" ")[2]  # after the time
        if text.startswith("nri hook create"):
            call.report.error(text.partition(": ")[2])
        elif text:
            call.report.note(text.removeprefix("nri: "))
