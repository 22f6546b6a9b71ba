"""The entries of a host configuration, each with its plugin: what ``nri check`` and ``nri doctor`` report."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from nri.client import Invoker, PluginError
from nri.client.standing import HARMLESS, is_answer
from nri.client.unstartable import NOT_RUN, WINDOWS, explain, has_windows_ends
from nri.client.verbs import ANSWER_WITHIN, ask, why_killed
from nri.config import ConfigError, Fault
from nri.config.conf_verdict import conf_verdict
from nri.config.entries import PluginEntry
from nri.config.plugin_conf import check_conf, fault_at, openness_note, unlisted_states
from nri.config.site import Site
from nri.config.when import SKIP
from nri.doctor import engines
from nri.doctor.node import Node
from nri.doctor.trying import try_resident, try_waiting
from nri.process.conversation import Output
from nri.types import gojson
from nri.types.table_explained import nearest
from nri.types.v1 import State

TRACEBACK = "Traceback (most recent call last):"
"""The first line that Python writes for an exception."""

_OF_PODS = ("labels", "annotations")
_UNKNOWN_TO_HOOKS = {"labels": "labels", "runtimeHandler": "runtime handlers"}


def notes_on_condition(plugin: PluginEntry, containerds_file: str) -> list[str]:
    """Return notes on an entry's ``when``: what is allowed, and probably not what is meant.

    :param containerds_file: the file that containerd reads itself.
    """
    when = plugin.when.value
    where = f"{plugin.place}.when"
    notes = []
    if when and plugin.source == containerds_file:
        notes.append(
            f"{where}: containerd runs the plugins of this file itself, for all containers (1.6) "
            "or all sandboxes (2.x)"
        )
    asked = [key for key in when if key in _OF_PODS]
    if asked and when.keys() <= {*_OF_PODS, "sandbox", "unknown"}:
        means = "so the author of a pod decides whether the plugin runs"
        notes.append(f"{where}: depends on {' and '.join(asked)} alone, {means}")
    unknown = []
    for key, fact in _UNKNOWN_TO_HOOKS.items():
        if key in when:
            unknown.append(fact)
    if unknown:
        names = " and ".join(unknown)
        if when.get("unknown") == SKIP:
            means = "keeps it away"
        else:
            means = "keeps no plugin away that restricts"
        unknown_to = f"nri hook and nri-runc do not know {names}"
        notes.append(f"{where}: {unknown_to}; what is not known {means}")
    return notes


class Checked:
    """One entry of the configuration with its faults, which must be fixed, and notes for the operator."""

    def __init__(self, plugin: PluginEntry) -> None:
        self.plugin = plugin
        self.binary: str | None = None
        self.place = ""  # the executable, for the table, or "not found", or "not run"
        self.version: str | None = None
        self.conf = "not checked"
        self.faults: tuple[Fault, ...] = ()
        self.notes: list[str] = []

    def check(self, invoker: Invoker, containerds_file: str) -> None:
        """Find the plugin, and compare what it says of itself with its entry."""
        plugin = self.plugin
        self.notes += notes_on_condition(plugin, containerds_file)
        self._note_policy()
        try:
            binary = invoker.find(plugin.type)
        except PluginError as error:
            self._fault(f"{error}{_meant(plugin.type, invoker.bin_dirs)}")
            self.place = error.reason.partition(":")[0]
            return
        self.binary = self.place = binary
        about = self._about(binary)
        self._check_processes(binary)
        if about is None:
            return  # no schema to check its conf against
        self._check_about(binary, about)
        schema, _ = self._ask(binary, "schema", self._harmless(), [])
        self._check_conf(binary, schema, is_quiet=bool(_states_of(about)))
        if self.conf == "right":
            self.notes += filter(None, [openness_note(plugin, schema)])

    def _note_policy(self) -> None:
        """Note what a failure means that is ignored, and a state that hooks do not send."""
        plugin = self.plugin
        if plugin.failure_policy == "ignore":
            self.notes.append(
                f"{plugin.type} has the failurePolicy ignore: a container runs without it if it fails or takes too "
                "long, which the author of a pod may bring about"
            )
        if plugin.wants(State.SETUP):
            for file in engines.hook_files(Node(), engines.HOOKS)[:1]:
                self.notes.append(
                    f"{plugin.type} wants setup, which `nri hook` never sends: {file} runs it here"
                )

    def _check_processes(self, binary: str) -> None:
        """Note why the bridge starts a process for each request, if the plugin or its entry wants it otherwise."""
        plugin = self.plugin
        if plugin.resident is not False:
            reason = try_resident(binary, plugin.type)
            if reason:
                self.notes.append(f"{binary} is started for each request: {reason}")
        if plugin.waiting:
            reason = try_waiting(binary, plugin.type)
            if reason:
                self.notes.append(f"{binary} should not wait for requests: {reason}")

    def _check_about(self, binary: str, about: dict[str, Any]) -> None:
        """Compare what the plugin says of itself with its entry."""
        plugin = self.plugin
        self.version = gojson.shorten(str(about.get("version") or "(none)"))
        if about["type"] != plugin.type:
            shown = gojson.describe(about["type"])
            self._fault(f"{binary} version: type: found {shown}, expected {plugin.type!r}")
        states = _states_of(about)
        names = [gojson.shorten(str(state)) for state in states]
        if names and not any(map(plugin.wants, names)):
            named = ", ".join(names)
            self._fault(
                f'it acts on {named} alone, expected one of these states in its entry\'s "states"'
            )
            return
        suffices = about.get("createSuffices") is True
        note = unlisted_states(plugin, states, create_suffices=suffices)
        self.notes += filter(None, [note])

    def _check_conf(self, binary: str, schema: object, *, is_quiet: bool) -> None:
        """Have the plugin judge its conf; one that cannot is judged by its schema.

        :param is_quiet: it names the states that it acts on, so it does not act on a harmless one.
        """
        answer, _ = self._ask(binary, "check", gojson.dumps(self.plugin.conf), [])
        verdict = conf_verdict(answer)
        if verdict is not None:
            self.notes += verdict.notes
            wrong = verdict.faults(self.plugin)
        elif schema is True:
            self.conf = "any"
            return
        else:
            wrong = check_conf(self.plugin, schema)
            if not wrong and is_quiet:  # no schema has all of its rules
                result, _ = self._ask(binary, "invoke", self._harmless(), [])
                if isinstance(result, dict) and result.get("error"):
                    refusal = (
                        f"{self.plugin.type} refuses it: "
                        f"{gojson.shorten(str(result['error']), 300)}"
                    )
                    wrong = (fault_at(self.plugin, "conf", refusal),)
        self.faults += wrong
        self.conf = "wrong" if wrong else "right"

    def _about(self, binary: str) -> dict[str, Any] | None:
        """Return the plugin's answer to 'version'; None if it has none.

        A plugin that was built with nri.skel answers. Another need not, but it answers a request, or cannot run.
        """
        about, ran = self._ask(binary, "version", self._harmless(), [])
        if isinstance(about, dict):
            return about if is_answer(about) else None
        if ran is not None:
            self._check_answer(binary)
        return None

    def _check_answer(self, binary: str) -> None:
        """Have a plugin that does not say what it is answer a request."""
        stderr: list[str] = []
        result, ran = self._ask(binary, "invoke", self._harmless(), stderr)
        if ran is None:
            return
        if not isinstance(result, dict):
            self._fault(_no_answer(binary, ran, stderr))
            return
        answer = ""
        if result.get("error"):
            error = f"; it answers an unknown state with the error {result['error']!r}"
            answer = gojson.shorten(error, 300)
        self.notes.append(f"{binary} does not answer 'version': its conf is not checked{answer}")

    def _fault(self, message: str) -> None:
        self.faults += (fault_at(self.plugin, "type", message),)

    def _harmless(self) -> bytes:
        return HARMLESS.replace(conf=self.plugin.conf).to_json()

    def _ask(
        self, binary: str, verb: str, stdin: bytes, stderr: list[str]
    ) -> tuple[object, Output | None]:
        """Run ``TYPE VERB``; return the JSON that it wrote (or None), and its output. Add its lines to ``stderr``.

        The output is None, and there is a fault, if it cannot be started or has to be killed.
        """
        try:
            argv = [self.plugin.type, verb]
            answer, ran = ask(binary, argv, stdin, within=ANSWER_WITHIN, log=stderr.append)
        except OSError as error:
            self._fault(explain(binary, error))
            return None, None
        killed = why_killed(ran, ANSWER_WITHIN)
        if killed:
            self._fault(f"{binary} {verb}: {killed}")
            return None, None
        return answer, ran

    def to_value(self) -> dict[str, Any]:
        """Return the entry as ``--json`` prints it."""
        faults = list(map(fault_value, self.faults))
        value = {"binary": self.binary, "version": self.version, "conf": self.conf}
        entry = {
            "type": self.plugin.type,
            "states": self.plugin.wanted_states,
            "source": self.plugin.source,
        }
        return entry | value | {"faults": faults, "note": "; ".join(self.notes)}


def _states_of(about: dict[str, Any]) -> list[object]:
    """Return the states that a plugin says it acts on; [] if it names none."""
    states = about.get("states")
    return states if isinstance(states, list) else []


def _no_answer(binary: str, ran: Output, stderr: list[str]) -> str:
    """Return that a plugin has not answered a request, with what it has written."""
    problem = f"{binary} does not answer a request ({ran.ending or 'exit status 0'}"
    if ran.stdout:
        problem += f"; it wrote {gojson.shorten(repr(ran.stdout.decode(errors='replace')))}"
    problem += ")"
    end = ran.stderr
    if TRACEBACK in stderr:  # its last line is the error
        end = list(filter(str.strip, stderr))[-1]
    if end:
        problem += f"; the end of its stderr: {end}"
    if ran.status in NOT_RUN and has_windows_ends(binary):
        problem += f"; {WINDOWS}"
    return problem


def _meant(type_: str, bin_dirs: Iterable[str]) -> str:
    """Return the plugin that is there and has nearly this name, as the end of a sentence; "" without one."""
    names: list[str] = []
    for directory in bin_dirs:
        with suppress(OSError):
            names += os.listdir(directory)
    near = nearest(type_, {*names} - {type_})
    return f"; did you mean {near}?" if near else ""


def check_host(site: Site) -> tuple[list[Checked], tuple[Fault, ...]]:
    """Return the entries of a host configuration, and its faults with theirs; no entry if it is not valid."""
    invoker = Invoker(site.bin_dirs, check_owner=site.check_owner)
    try:
        plugins = site.load().plugins
    except ConfigError as error:
        return [], error.faults
    entries = []
    faults: tuple[Fault, ...] = ()
    for plugin in plugins:
        entry = Checked(plugin)
        entry.check(invoker, site.conf_file)
        entries.append(entry)
        faults += entry.faults
    return entries, faults


def fault_value(fault: Fault) -> dict[str, Any]:
    """Return a fault as ``--json`` prints it."""
    return {name: getattr(fault, name) for name in ("file", "line", "column", "path", "message")}
