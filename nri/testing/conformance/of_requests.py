"""Checks of a request's keys: missing, null, unknown, and values that a plugin must not trip over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.requests import encode, request
from nri.types.v1 import VERSION, State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("The request")

_LARGE = 768 * 1024  # bytes of a request that is larger than a pipe, an argument and a line may be


@GROUP.must("missing-keys", "the-request", "A missing key is its empty value")
def _missing_keys(trial: Trial) -> None:
    container = trial.new_id()
    least: dict[str, Any] = {"version": VERSION, "state": "create", "id": container}
    requests: tuple[dict[str, Any], ...] = ({}, least, least | {"spec": {}})
    for value in requests:
        trial.answer(value)


@GROUP.must("null-keys", "json", "Null is equal to a missing key, for every key")
def _null_keys(trial: Trial) -> None:
    keys = ("conf", "version", "state", "id", "sandboxID", "pid", "spec", "labels", "results", "late", "extensions")
    trial.answer(dict.fromkeys(keys))
    container = trial.new_id()
    value = _create(trial, container)
    for key in ("conf", "pid", "results", "late", "extensions"):
        value.setdefault(key)
    trial.same_answer(value, container, "without the keys that are null")
    spec = {"resources": None, "namespaces": None, "cgroupsPath": None, "annotations": None}
    trial.answer(_create(trial, trial.new_id()) | {"spec": spec})


@GROUP.must("no-process", "the-request", "A `pid` of 0 is a missing one")
def _no_process(trial: Trial) -> None:  # not -1: a faulty plugin might signal every process
    container = trial.new_id()
    trial.same_answer(_create(trial, container) | {"pid": 0}, container, "without a pid")


@GROUP.must("unknown-keys", "the-request", "Unknown keys are ignored")
def _unknown_keys(trial: Trial) -> None:
    container = trial.new_id()
    value = _create(trial, container)
    for place in (value, value["spec"]):
        place["nriConformance"] = {"unknown": [1, None, "x"]}
    trial.same_answer(value, container, "without the unknown keys")


@GROUP.must("previous-results", "the-request", "Results of the plugins before, with unknown keys, are read over")
def _previous_results(trial: Trial) -> None:
    results: list[Any] = [
        {"plugin": "first", "version": VERSION, "error": "", "metadata": {"cpus": "2-3"}},
        {"plugin": "second", "version": VERSION, "error": "", "nriConformance": {"unknown": [1]}, "state": 5},
        None,
    ]
    trial.answer(_create(trial, trial.new_id()) | {"results": results})


@GROUP.must("any-resources", "the-request", "`spec.resources` may hold any JSON")
def _any_resources(trial: Trial) -> None:
    odd = {"numbers": [2**70, -1, 0.5, 1e300], "unified": {"memory.high": "max"}, "none": None, "": [True, [[]], {}]}
    kinds: tuple[Any, ...] = (odd, [], "text", 1.5)
    for resources in kinds:
        value = _create(trial, trial.new_id())
        value["spec"]["resources"] = resources
        trial.answer(value)


@GROUP.must("any-conf", "the-result", "A `conf` of any type is answered by a result, whose error may refuse it")
def _any_conf(trial: Trial) -> None:
    kinds: tuple[Any, ...] = ("text", 1.5, True, [], {"nriConformance": [1]})
    for conf in kinds:
        trial.answer(_create(trial, trial.new_id()) | {"conf": conf})


@GROUP.must("text", "json", "Texts may have any characters, escaped or as UTF-8")
def _text(trial: Trial) -> None:
    text = 'grüße 世界 \U0001f600 \u2028 "quoted" \\ \x01\x1b[31m\n\t\x7f'
    value = _create(trial, trial.new_id())
    value["labels"] = {text: text}
    value["spec"]["annotations"] = {text: text, "empty": "", "": "empty"}
    trial.answer(encode(value))
    trial.answer(json.dumps(value, ensure_ascii=False).encode())


@GROUP.must("large", "running-a-plugin", "A request of several 100 KiB is answered")
def _large(trial: Trial) -> None:
    value = _create(trial, trial.new_id())
    value["spec"]["annotations"]["large"] = "x" * (_LARGE // 2)
    value["spec"]["annotations"] |= {f"annotation-{number:05}": "y" * 40 for number in range(_LARGE // 2 // 64)}
    trial.answer(value)


def _create(trial: Trial, container: str) -> dict[str, Any]:
    return request(State.CREATE, container, trial.conf)
