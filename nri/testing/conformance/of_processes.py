"""Checks of a plugin's process: its streams, its surroundings, several at once, and what it leaves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nri.process.spawn import PLUGIN_ENVIRONMENT, pipe
from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError
from nri.testing.conformance.requests import encode, request
from nri.types.v1 import State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("The process")

_PIECES = 12


@GROUP.must("slow-stdin", "running-a-plugin", "A request may arrive in pieces")
def _slow_stdin(trial: Trial) -> None:
    container = trial.new_id()
    value = request(State.CREATE, container, trial.conf)
    trial.same_answer(value, container, "when it arrives at once", pieces=_PIECES)


@GROUP.should("closed-stdin", "exit-status", "A closed stdin is reported on stderr, and the exit status is 1")
def _closed_stdin(trial: Trial) -> None:
    trial.must_read()
    reply = trial.run("invoke", before="exec <&-")
    if reply.stopped or reply.status != 1 or not reply.stderr:
        raise BrokenRuleError("exit status 1, and the reason on stderr", reply.ending)


@GROUP.must("full-stdout", "exit-status", "The exit status is not 0 if the result cannot be written")
def _full_stdout(trial: Trial) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        _must_fail(trial, full, "every write fails with ENOSPC")
    finally:
        os.close(full)


@GROUP.must("broken-stdout", "exit-status", "The exit status is not 0 if stdout is no longer read")
def _broken_stdout(trial: Trial) -> None:
    reads, writes = pipe()
    os.close(reads)
    try:
        _must_fail(trial, writes, "the pipe has no reader")
    finally:
        os.close(writes)


@GROUP.must("environment", "running-a-plugin", "The plugin does not rely on its environment")
def _environment(trial: Trial) -> None:
    container = trial.new_id()
    environment = {"PATH": PLUGIN_ENVIRONMENT["PATH"]}
    value = request(State.CREATE, container, trial.conf)
    trial.same_answer(value, container, "with the whole environment", environment=environment)


@GROUP.must("directory", "running-a-plugin", "The plugin does not rely on its directory, nor on its umask")
def _directory(trial: Trial) -> None:
    for before in ("cd / && umask 022", "cd /proc/self && umask 077"):
        container = trial.new_id()
        value = request(State.CREATE, container, trial.conf)
        trial.same_answer(value, container, "in another directory", before=before)


@GROUP.must("at-once", "running-a-plugin", "Several runs at the same time are answered")
def _at_once(trial: Trial) -> None:
    trial.must_answer()
    if trial.at_once is not None:
        raise trial.at_once


@GROUP.must("leaves-nothing", "running-a-plugin", "No process runs on when the plugin has ended")
def _leaves_nothing(trial: Trial) -> None:
    trial.must_answer()
    for state in (State.CREATE, State.DELETE):
        if names := trial.runner.left_behind(encode(request(state, trial.new_id(), trial.conf))):
            raise BrokenRuleError("no process", f"{', '.join(names)}, running on after {state}")


def _must_fail(trial: Trial, stdout: int, why: str) -> None:
    trial.must_answer()
    reply = trial.invoke(request(State.CREATE, trial.new_id(), trial.conf), stdout=stdout)
    if reply.stopped or reply.status == 0:
        raise BrokenRuleError("an exit status that is not 0, best 1", f"{reply.ending}, where {why}")
