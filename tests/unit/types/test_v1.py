"""The types of the contract: requests that runtimes sent, and documents that no runtime sends."""

import json
from typing import Any

import pytest
from hypothesis import given

from nri.config.entries import ConfigList, PluginEntry
from nri.testing import recorded, recordings
from nri.types import DecodeError
from nri.types.jsonobject import JSONObject
from nri.types.v1 import STATES, Request, Result, State
from tests.unit.types.mutations import values

GOLDEN = recordings()
KUBERNETES = recordings("kubernetes/*")
TYPES: list[type[JSONObject]] = [Request, Result, ConfigList]


def test_recorded_request_is_written_as_it_was_read() -> None:
    assert (len(GOLDEN), len(KUBERNETES)) == (14, 46)
    for name in GOLDEN + KUBERNETES:
        document = json.dumps(recorded(name))
        request = Request.from_json(document)
        assert json.loads(request.to_json()) == json.loads(document), name
        assert Request.from_json(request.to_json()) == request, name
    for name in GOLDEN:
        request = Request.from_value(recorded(name), "request")
        assert request.state == (State.CREATE if "create" in name else State.DELETE), name
        assert (request.is_sandbox, request.version) == (".pod-" in name, "0.1"), name


HOSTILE = [
    *(b"[" * 1_000_000, b'{"spec":' * 100_000, b'{"id":"' + b"x" * 1_000_000 + b'"}'),
    *(b'{"id":' + b"9" * 100_000 + b"}", b'{"labels":{"' + b"k" * 1_000_000 + b'\\n":1}}'),
    *(b'{"error":"\xff\xfe"}', b'{"error":"\\ud800","id":"\\udc00"}', b'{"pid":NaN}', b'{"pid":-Infinity}'),
    *(b'{"conf":1e999}', b"\x00", b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"", b"{}{}"),
]


@pytest.mark.parametrize("document", HOSTILE, ids=lambda document: repr(document[:20]))
def test_a_hostile_document_is_a_value_or_a_short_decode_error(document: Any) -> None:
    for kind in TYPES:
        try:
            message = kind.from_json(document)
        except DecodeError as error:
            assert len(str(error)) < 400
            assert str(error).isprintable()
        else:
            assert kind.from_json(message.to_json()) == message


@given(values)
def test_conf_and_resources_pass_through_unchanged(value: object) -> None:
    document = json.dumps({"id": "a", "conf": value, "spec": {"resources": value}})
    written = json.loads(Request.from_json(document).to_json())
    assert repr(written.get("conf")) == repr(value)
    assert repr(written["spec"]["resources"]) == repr(value)


def test_keys_that_a_result_does_not_know_reach_the_next_plugin() -> None:
    document = '{"plugin":"a","version":"0.1","error":"","extra":{"x":1},"more":[null]}'
    result = Result.from_json(document)
    assert result.extra == {"extra": {"x": 1}, "more": [None]}
    request = Request(state="create", id="a", results=[result])
    assert json.loads(request.to_json())["results"] == [json.loads(document)]
    extra = {"error": "from aside", "plugin": "b", "metadata": {"a": "b"}, "mine": 1}  # none replaces a known key
    written = json.loads(Result(plugin="a", error="no", extra=extra).to_json())
    assert written == {"plugin": "a", "version": "0.1", "error": "no", "metadata": {"a": "b"}, "mine": 1}


def test_late_is_written_only_if_it_is() -> None:
    request = Request(state="create", id="a")
    assert request.late is False
    assert b"late" not in request.to_json()
    late = request.replace(late=True)
    assert json.loads(late.to_json())["late"] is True
    assert Request.from_json(late.to_json()) == late
    assert Request.from_json('{"LATE": null}').late is False


def test_null_results_and_plugins_are_ignored() -> None:
    assert Request.from_json('{"results":[null,{"plugin":"a"}]}').results == (Result(plugin="a", version=""),)
    assert ConfigList.from_json('{"plugins":[null]}').plugins == ()


def test_a_state_is_a_string_that_compares_as_one() -> None:
    assert [str(state) for state in STATES] == ["setup", "create", "resize", "update", "pause", "resume", "delete"]
    assert State("create") == State.CREATE == "create"
    assert Request.from_json('{"state":"later"}').state == "later"


def test_a_plugin_always_wants_create_and_delete() -> None:
    assert PluginEntry(type="a").wanted_states == ["create", "delete"]
    wanted = PluginEntry(type="a", states=["resize", "setup", "x"]).wanted_states
    assert wanted == ["setup", "create", "resize", "delete"]


def test_a_new_result_is_of_the_requests_version() -> None:
    result = Request(state="create", id="a", version="0.9").new_result("b", metadata={"c": "d"}, error="e")
    assert result == Result(plugin="b", version="0.9", metadata={"c": "d"}, error="e")
