"""Checks of the JSON on stdin: what a reader accepts, and what it refuses with exit status 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError
from nri.testing.conformance.requests import encode, request
from nri.types.gojson import shorten
from nri.types.v1 import State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("The request's JSON")

_DEPTH = 200  # levels; 256 are allowed


@GROUP.must("white-space", "json", "White space around and inside of the request does not matter")
def _white_space(trial: Trial) -> None:
    container = trial.new_id()
    text = json.dumps(request(State.CREATE, container, trial.conf), indent=2).replace("\n", "\r\n\t")
    trial.same_answer(f" \n{text}\n\n".encode(), container, "in compact JSON")


@GROUP.must("empty-stdin", "exit-status", "An empty stdin is reported on stderr, and the exit status is 1")
def _empty_stdin(trial: Trial) -> None:
    _refused(trial, b"", "an empty stdin")


@GROUP.must("not-json", "exit-status", "Text that is not JSON is reported on stderr, and the exit status is 1")
def _not_json(trial: Trial) -> None:
    for text in (b"nonsense\n", b"\x00\xff\x00", b'{"state": create}'):
        _refused(trial, text, f"{text!r} on stdin")


@GROUP.must("truncated", "exit-status", "A request that is cut off is reported on stderr, and the exit status is 1")
def _truncated(trial: Trial) -> None:
    whole = encode(request(State.CREATE, trial.new_id(), trial.conf))
    for size in (1, len(whole) // 2, len(whole) - 1):
        _refused(trial, whole[:size], f"the first {size} bytes of a request")


@GROUP.should("not-an-object", "json", "JSON that is not an object is refused with exit status 1")
def _not_an_object(trial: Trial) -> None:
    for text in (b"[]", b'"create"', b"1"):
        _refused(trial, text, f"{text.decode()} on stdin")


@GROUP.should("text-after", "json", "Text after the request is refused with exit status 1")
def _text_after(trial: Trial) -> None:
    _refused(trial, encode(request(State.CREATE, trial.new_id(), trial.conf)) * 2, "two requests")


@GROUP.should("wrong-types", "json", "A value of another type than the key's is refused with exit status 1")
def _wrong_types(trial: Trial) -> None:
    wrong: list[dict[str, Any]] = [
        *({"pid": "1234"}, {"state": 1}, {"id": True}, {"spec": "x"}, {"labels": ["x"]}, {"results": {}}),
        *({"spec": {"annotations": "x"}}, {"labels": {"x": 1}}),
    ]
    for changes in wrong:
        value = request(State.CREATE, trial.new_id(), trial.conf) | changes
        _refused(trial, encode(value), f"a request with {json.dumps(changes)}")


@GROUP.should("whole-pid", "json", "A `pid` with a fraction or an exponent is refused with exit status 1")
def _whole_pid(trial: Trial) -> None:
    for pid in ("0.0", "1e0"):
        whole = encode(request(State.CREATE, trial.new_id(), trial.conf) | {"pid": 0})
        _refused(trial, whole.replace(b'"pid":0', f'"pid":{pid}'.encode()), f"a request with the pid {pid}")


@GROUP.should("key-case", "json", "A key matches in any case")
def _key_case(trial: Trial) -> None:
    container = trial.new_id()
    value = request(State.CREATE, container, trial.conf)
    value["SPEC"] = {key.upper(): item for key, item in value.pop("spec").items()}
    other = {key if key in ("conf", "SPEC") else key.upper(): item for key, item in value.items()}
    trial.same_answer(other, container, "with the keys in their own case")
    _refused(trial, encode(other | {"PID": "1234"}), 'a request with {"PID": "1234"}')


@GROUP.should("last-key", "json", "Of a key that is given several times the last one counts")
def _last_key(trial: Trial) -> None:
    container = trial.new_id()
    text = encode(request(State.CREATE, container, trial.conf))
    trial.same_answer(b'{"version":"9","state":"other","id":"other",' + text[1:], container, "with each key once")


@GROUP.should("not-utf-8", "json", "Invalid UTF-8 and lone surrogates are read as U+FFFD")
def _not_utf_8(trial: Trial) -> None:
    whole = encode(request(State.CREATE, trial.new_id(), trial.conf) | {"labels": {"app": "MARK"}})
    for text in (b"\xff\xfe", b"\\ud800", b"\xed\xa0\x80"):
        trial.answer(whole.replace(b"MARK", text))


@GROUP.should("deep", "json", "Objects and arrays may be nested 200 deep")
def _deep(trial: Trial) -> None:
    value: Any = 1
    for _ in range(_DEPTH // 2):
        value = {"a": [value]}
    trial.answer(request(State.CREATE, trial.new_id(), trial.conf) | {"nriConformance": value})


def _refused(trial: Trial, stdin: bytes, what: str) -> None:
    trial.must_read()
    reply = trial.invoke(stdin)
    found = f"{reply.ending}, for {what}"
    if reply.stopped or reply.status != 1 or not reply.stderr:
        if reply.status == 0 and reply.stdout:
            found += f"; stdout: {shorten(reply.stdout.decode(errors='replace'))!r}"
        raise BrokenRuleError("exit status 1, and the reason on stderr", found)
