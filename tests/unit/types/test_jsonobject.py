"""The base class of the wire's types: the rules of Go's decoder, and frozen objects that are compared by value."""

import json
from typing import Any

import pytest

from nri.config.entries import ConfigList, PluginEntry
from nri.types import DecodeError, EncodeError
from nri.types.jsonobject import JSONObject
from nri.types.v1 import Request, Result, Spec

TYPES: list[type[JSONObject]] = [Request, Result, ConfigList]


def test_missing_key_is_empty_and_written_only_if_required() -> None:
    empty: list[tuple[type[JSONObject], dict[str, Any]]] = [
        (Request, {"version": "", "state": "", "id": "", "spec": None}),
        (Result, {"plugin": "", "version": "", "error": ""}),
        (ConfigList, {"version": "", "plugins": []}),
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
    (Request, '{"labels":"x"}', "request.labels: found the string 'x', expected an object of strings"),
    (Request, '{"labels":{"a":1}}', "request.labels.a: found the number 1, expected a string"),
    (Request, '{"pid":1.0}', "request.pid: found the number 1.0, expected an integer"),
    (Request, '{"pid":true}', "request.pid: found the boolean true, expected an integer"),
    (Request, '{"pid":"1"}', "request.pid: found the string '1', expected an integer"),
    (Request, '{"pid":9223372036854775808}', "expected an integer of 64 bits"),
    (Request, '{"spec":[]}', "request.spec: found an array, expected an object"),
    (Request, '{"late":"true"}', "request.late: found the string 'true', expected true or false"),
    (Request, '{"results":{}}', "request.results: found an object, expected an array of results"),
    (Request, '{"results":[{},{"error":5}]}', "request.results[1].error: found the number 5, expected a string"),
    (Request, "[]", "request: found an array, expected an object"),
    (ConfigList, '{"plugins":[7]}', "configlist.plugins[0]: found the number 7, expected an object"),
    (ConfigList, '{"plugins":[{"states":"x"}]}', "plugins[0].states: found the string 'x', expected an array of"),
    (ConfigList, '{"plugins":[{"states":[1]}]}', "plugins[0].states[0]: found the number 1, expected a string"),
    (ConfigList, '{"plugins":[{"timeout":"1s"}]}', "plugins[0].timeout: found the string '1s', expected a number"),
]


def test_a_value_of_another_kind_is_named_with_its_place() -> None:
    for kind, document, message in MISTAKES:
        with pytest.raises(DecodeError) as raised:
            kind.from_json(document)
        assert message in str(raised.value)


WRONG_RESULTS = [
    (Result(plugin="a").replace(error=5), "result.error: found the number 5, expected a string"),
    (Result(plugin="a").replace(metadata={"a": 1}), "result.metadata.a: found the number 1, expected a string"),
    (Result(plugin="a").replace(metadata={1: "a"}), "result.metadata: key: found the number 1, expected a string"),
    (Result(plugin="a").replace(extra=[]), "result.extra: found an array, expected an object"),
    (Result(plugin="a", extra={"a": float("nan")}), "cannot be written as JSON"),
    (Request(state="a", id="a", pid=2**63), "request.pid: found the number 9223372036854775808, expected an integer"),
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
    Request(state="create", id="a", sandbox_id="b", pid=1, spec=Spec(), labels={"a": "b"}, conf=1, results=[]),
    PluginEntry(type="a", conf={}, states=["setup"], failure_policy="fail", timeout=1.5, source="f", source_index=2),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_frozen_replaced_by_attributes_and_equal_by_value(message: Any) -> None:
    names = message.__slots__
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
        assert all(getattr(changed, other) == getattr(message, other) for other in names if other != name)
    assert message == message.replace()
    assert message != 1
    with pytest.raises(TypeError):
        hash(message)
