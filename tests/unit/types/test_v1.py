"""The types of the contract: requests that runtimes sent, and documents that no runtime sends."""

import json
from typing import Any

import pytest
from hypothesis import given

from nri.config.entries import PluginEntry
from nri.testing import recorded, recordings
from nri.types import DecodeError, EncodeError
from nri.types.jsonobject import JSONObject
from nri.types.v1 import STATES, Request, Result, Spec, State
from tests.unit.types.mutations import values

GOLDEN = recordings()
KUBERNETES = recordings("kubernetes/*")
TYPES: list[type[JSONObject]] = [Request, Result]


def test_recorded_request_is_written_as_it_was_read() -> None:
    assert (len(GOLDEN), len(KUBERNETES)) == (21, 46)
    for name in GOLDEN + KUBERNETES:
        document = json.dumps(recorded(name))
        request = Request.from_json(document)
        assert json.loads(request.to_json()) == json.loads(document), name
        assert Request.from_json(request.to_json()) == request, name
    for name in GOLDEN:
        request = Request.from_value(recorded(name), "request")
        assert request.state == name.rpartition("-")[2], name
        assert (request.is_sandbox, request.version) == (".pod-" in name, "0.1"), name


HOSTILE = [
    *(b"[" * 1_000_000, b'{"spec":' * 100_000, b'{"id":"' + b"x" * 1_000_000 + b'"}'),
    *(b'{"id":' + b"9" * 100_000 + b"}", b'{"labels":{"' + b"k" * 1_000_000 + b'\\n":1}}'),
    *(
        b'{"error":"\xff\xfe"}',
        b'{"error":"\\ud800","id":"\\udc00"}',
        b'{"pid":NaN}',
        b'{"pid":-Infinity}',
    ),
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
    # None replaces a known key.
    extra = {"error": "from aside", "plugin": "b", "metadata": {"a": "b"}, "mine": 1}
    written = json.loads(Result(plugin="a", error="no", extra=extra).to_json())
    assert written == {
        "plugin": "a",
        "version": "0.1",
        "error": "no",
        "metadata": {"a": "b"},
        "mine": 1,
    }


def test_null_results_are_ignored() -> None:
    assert Request.from_json('{"results":[null,{"plugin":"a"}]}').results == (
        Result(plugin="a", version=""),
    )


def test_a_state_is_a_string_that_compares_as_one() -> None:
    assert [str(state) for state in STATES] == [
        "setup",
        "create",
        "resize",
        "update",
        "pause",
        "resume",
        "delete",
    ]
    assert State("create") == State.CREATE == "create"
    assert Request.from_json('{"state":"later"}').state == "later"


def test_a_plugin_always_wants_create_and_delete() -> None:
    assert PluginEntry(type="a").wanted_states == ["create", "delete"]
    wanted = PluginEntry(type="a", states=["resize", "setup", "x"]).wanted_states
    assert wanted == ["setup", "create", "resize", "delete"]


# Go's rules for what is read and written


def test_missing_key_is_empty_and_written_only_if_required() -> None:
    empty: list[tuple[type[JSONObject], dict[str, Any]]] = [
        (Request, {"version": "", "state": "", "id": "", "spec": None}),
        (Result, {"plugin": "", "version": "", "error": ""}),
    ]
    for kind, written in empty:
        for document in ("{}", "null", '{"unknown":1}'):
            value = json.loads(kind.from_json(document).to_json())
            value.pop("unknown", None)  # a result keeps it
            assert value == written


def test_null_is_accepted_for_any_field() -> None:
    for kind in TYPES:
        nulls = json.dumps({field.key: None for field in kind.FIELDS})
        assert kind.from_json(nulls) == kind.from_json("{}")


def test_keys_match_as_go_folds_them_and_the_last_counts() -> None:
    for key in ("PID", "Pid", "pID"):
        assert Request.from_json(f'{{"{key}":7}}').pid == 7
    assert Request.from_json('{"re\u017fult\u017f":[{"plugin":"a"}]}').results[0].plugin == "a"
    assert Result.from_json('{"\u212aey":1}').extra == {"\u212aey": 1}
    assert Request.from_json('{"p\u0131d":"ignored"}').pid == 0
    assert Request.from_json('{"ID":"a","id":"b","Id":"c"}').id == "c"


MISTAKES: list[tuple[type[JSONObject], str, str]] = [
    (
        Request,
        '{"labels":"x"}',
        "request.labels: found the string 'x', expected an object of strings",
    ),
    (Request, '{"labels":{"a":1}}', "request.labels.a: found the number 1, expected a string"),
    (Request, '{"pid":1.0}', "request.pid: found the number 1.0, expected an integer"),
    (Request, '{"pid":true}', "request.pid: found the boolean true, expected an integer"),
    (Request, '{"pid":"1"}', "request.pid: found the string '1', expected an integer"),
    (Request, '{"pid":9223372036854775808}', "expected an integer of 64 bits"),
    (Request, '{"spec":[]}', "request.spec: found an array, expected an object"),
    (Request, '{"late":"true"}', "request.late: found the string 'true', expected true or false"),
    (Request, '{"results":{}}', "request.results: found an object, expected an array of results"),
    (
        Request,
        '{"results":[{},{"error":5}]}',
        "request.results[1].error: found the number 5, expected a string",
    ),
    (Request, "[]", "request: found an array, expected an object"),
]


def test_a_value_of_another_kind_is_named_with_its_place() -> None:
    for kind, document, message in MISTAKES:
        with pytest.raises(DecodeError) as raised:
            kind.from_json(document)
        assert message in str(raised.value)


WRONG_RESULTS = [
    (Result(plugin="a").replace(error=5), "result.error: found the number 5, expected a string"),
    (
        Result(plugin="a").replace(metadata={"a": 1}),
        "result.metadata.a: found the number 1, expected a string",
    ),
    (
        Result(plugin="a").replace(metadata={1: "a"}),
        "result.metadata: key: found the number 1, expected a string",
    ),
    (Result(plugin="a").replace(extra=[]), "result.extra: found an array, expected an object"),
    (Result(plugin="a", extra={"a": float("nan")}), "cannot be written as JSON"),
    (
        Request(state="a", id="a", pid=2**63),
        "request.pid: found the number 9223372036854775808, expected an integer",
    ),
    (Request(state="a", id="a", conf={"a": {1, 2}}), "cannot write a set as JSON"),
]


def test_a_message_that_holds_what_it_may_not_is_not_written() -> None:
    for message, said in WRONG_RESULTS:
        with pytest.raises(EncodeError) as raised:
            message.to_json()
        assert said in str(raised.value)


MESSAGES: list[Any] = [
    Spec(resources={"cpu": {}}, namespaces={"pid": ""}, cgroups_path="/a", annotations={"a": "b"}),
    Result(plugin="a", error="b", metadata={"c": "d"}, cgroups_path="e", extra={"f": 1}),
    Request(
        state="create",
        id="a",
        sandbox_id="b",
        pid=1,
        spec=Spec(),
        labels={"a": "b"},
        conf=1,
        results=[],
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_frozen_replaced_by_attributes_and_equal_by_value(message: Any) -> None:
    names = [name for name in message.__slots__ if not name.startswith("_")]
    with pytest.raises(AttributeError, match=r"replace\("):
        setattr(message, names[0], None)
    with pytest.raises(AttributeError):
        delattr(message, names[0])
    with pytest.raises(AttributeError):
        message.unheard_of = 1
    with pytest.raises(TypeError, match="no attribute 'unheard_of'"):
        message.replace(unheard_of=1)
    for name in names:
        assert f"{name}={getattr(message, name)!r}" in repr(message)
        changed = message.replace(**{name: "changed"})
        assert getattr(changed, name) == "changed"
        assert changed != message
        assert all(
            getattr(changed, other) == getattr(message, other) for other in names if other != name
        )
    assert message == message.replace()
    assert message != 1
    with pytest.raises(TypeError):
        hash(message)


def test_lone_surrogates_are_passed_on_in_what_is_not_looked_into() -> None:
    """As by Go's json.RawMessage."""
    document = (
        b'{"version":"0.1","state":"create","id":"\\udc00","spec":{"resources":{"\\ud800":"\\udfff"},'
        b'"annotations":{"\\ud800":"x\\udc00"}},"conf":["\\ud800x"]}'
    )
    request = Request.from_json(document)
    assert (request.id, request.conf) == ("\ufffd", ["\ud800x"])
    assert request.annotations == {"\ufffd": "x\ufffd"}
    written = request.to_json()
    assert b'"resources":{"\\ud800":"\\udfff"}' in written
    assert b'"conf":["\\ud800x"]' in written
