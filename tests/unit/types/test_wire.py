"""The types of the wire: what runtimes really sent, and the rules of Go's decoder."""

import json
import os

import pytest
from hypothesis import given

from nri.config.entries import ConfigList, PluginEntry
from nri.types import DecodeError, EncodeError
from nri.types.v1 import STATES, Request, Result, Spec, State
from tests.support.golden import recordings
from tests.unit.types.mutations import values

GOLDEN = recordings()
TYPES = [Request, Result, ConfigList]


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def test_there_are_golden_requests():
    assert len(GOLDEN) == 14


@pytest.mark.parametrize("path", GOLDEN, ids=os.path.basename)
def test_a_recorded_request_is_written_with_the_value_it_was_read_with(path):
    document = read_file(path)
    request = Request.from_json(document)
    assert json.loads(request.to_json()) == json.loads(document)
    assert Request.from_json(request.to_json()) == request


@pytest.mark.parametrize("path", GOLDEN, ids=os.path.basename)
def test_a_recorded_request_says_what_it_is_about(path):
    request = Request.from_json(read_file(path))
    name = os.path.basename(path)
    assert request.state in (State.CREATE, State.DELETE)
    assert request.state == ("create" if "create" in name else "delete")
    assert request.is_sandbox == (".pod-" in name)
    assert request.version == "0.1"


EMPTY = [
    (Request, {"version": "", "state": "", "id": "", "spec": None}),
    (Result, {"plugin": "", "version": "", "error": ""}),
    (ConfigList, {"version": "", "plugins": []}),
]


@pytest.mark.parametrize(("kind", "written"), EMPTY)
@pytest.mark.parametrize("document", ["{}", "null", '{"unknown":1}'])
def test_what_is_left_out_is_empty_and_what_may_be_is_left_out_again(kind, written, document):
    value = json.loads(kind.from_json(document).to_json())
    value.pop("unknown", None)  # a result keeps it
    assert value == written


@pytest.mark.parametrize("kind", TYPES)
def test_null_is_accepted_for_any_field(kind):
    nulls = json.dumps({field.key: None for field in kind.FIELDS})
    assert kind.from_json(nulls) == kind.from_json("{}")


@pytest.mark.parametrize("key", ["PID", "Pid", "pID"])
def test_keys_match_in_any_case(key):
    assert Request.from_json(f'{{"{key}":7}}').pid == 7


def test_keys_match_as_go_folds_them():
    assert Request.from_json('{"re\u017fult\u017f":[{"plugin":"a"}]}').results[0].plugin == "a"
    assert Result.from_json('{"\u212aey":1}').extra == {"\u212aey": 1}
    assert Request.from_json('{"p\u0131d":"ignored"}').pid == 0


def test_of_a_key_in_several_cases_the_last_counts():
    assert Request.from_json('{"ID":"a","id":"b","Id":"c"}').id == "c"


MISTAKES = [
    (Request, '{"labels":"x"}', "request.labels: found the string 'x', expected an object of strings"),
    (Request, '{"labels":{"a":1}}', "request.labels.a: found the number 1, expected a string"),
    (Request, '{"pid":1.0}', "request.pid: found the number 1.0, expected an integer"),
    (Request, '{"pid":true}', "request.pid: found the boolean true, expected an integer"),
    (Request, '{"pid":"1"}', "request.pid: found the string '1', expected an integer"),
    (Request, '{"pid":9223372036854775808}', "expected an integer of 64 bits"),
    (Request, '{"state":1}', "request.state: found the number 1, expected a string"),
    (Request, '{"spec":[]}', "request.spec: found an array, expected an object"),
    (
        Request,
        '{"spec":{"annotations":[]}}',
        "request.spec.annotations: found an array, expected an object of strings",
    ),
    (Request, '{"spec":{"cgroupsPath":{}}}', "request.spec.cgroupsPath: found an object, expected a string"),
    (Request, '{"results":{}}', "request.results: found an object, expected an array of results"),
    (Request, '{"results":[{},{"error":5}]}', "request.results[1].error: found the number 5, expected a string"),
    (Request, "[]", "request: found an array, expected an object"),
    (Result, '{"metadata":{"a":true}}', "result.metadata.a: found the boolean true, expected a string"),
    (Result, '"x"', "result: found the string 'x', expected an object"),
    (ConfigList, '{"plugins":"x"}', "configlist.plugins: found the string 'x', expected an array of plugins"),
    (ConfigList, '{"plugins":[7]}', "configlist.plugins[0]: found the number 7, expected an object"),
    (ConfigList, '{"plugins":[{"states":"x"}]}', "plugins[0].states: found the string 'x', expected an array of"),
    (ConfigList, '{"plugins":[{"states":[1]}]}', "plugins[0].states[0]: found the number 1, expected a string"),
    (ConfigList, '{"plugins":[{"timeout":"1s"}]}', "plugins[0].timeout: found the string '1s', expected a number"),
    (ConfigList, '{"plugins":[{"timeout":true}]}', "plugins[0].timeout: found the boolean true, expected a number"),
]


@pytest.mark.parametrize(("kind", "document", "message"), MISTAKES)
def test_a_value_of_another_kind_is_named_with_its_place(kind, document, message):
    with pytest.raises(DecodeError) as raised:
        kind.from_json(document)
    assert message in str(raised.value)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "document",
    [
        b"[" * 1_000_000,
        b'{"spec":' * 100_000,
        b'{"id":"' + b"x" * 10_000_000 + b'"}',
        b'{"id":' + b"9" * 100_000 + b"}",
        b'{"labels":{"' + b"k" * 10_000_000 + b'\\n":1}}',
        b'{"error":"\xff\xfe"}',
        b'{"error":"\\ud800","id":"\\udc00"}',
        b'{"pid":NaN}',
        b'{"pid":-Infinity}',
        b'{"conf":1e999}',
        b"\x00",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b"",
        b"{}{}",
    ],
    ids=lambda document: repr(document[:20]),
)
def test_a_hostile_document_is_a_value_or_a_short_decode_error(kind, document):
    try:
        message = kind.from_json(document)
    except DecodeError as error:
        assert len(str(error)) < 400
        assert str(error).isprintable()
    else:
        assert kind.from_json(message.to_json()) == message


@given(values)
def test_conf_and_resources_pass_through_unchanged(value):
    document = json.dumps({"id": "a", "conf": value, "spec": {"resources": value}})
    written = json.loads(Request.from_json(document).to_json())
    assert repr(written.get("conf")) == repr(value)
    assert repr(written["spec"]["resources"]) == repr(value)


@pytest.mark.parametrize("conf", [0, 0.0, False, "", [], {}])
def test_a_conf_that_is_empty_is_still_a_conf(conf):
    written = json.loads(Request(state="create", id="a", conf=conf).to_json())
    assert repr(written["conf"]) == repr(conf)
    entry = json.loads(ConfigList(plugins=[PluginEntry(type="a", conf=conf)]).to_json())["plugins"][0]
    assert repr(entry["conf"]) == repr(conf)


def test_keys_that_a_result_does_not_know_reach_the_next_plugin():
    document = '{"plugin":"a","version":"0.1","error":"","extra":{"x":1},"more":[null]}'
    result = Result.from_json(document)
    assert result.extra == {"extra": {"x": 1}, "more": [None]}
    request = Request(state="create", id="a", results=[result])
    assert json.loads(request.to_json())["results"] == [json.loads(document)]


def test_keys_beside_the_contracts_do_not_replace_what_the_contract_has():
    extra = {"error": "from aside", "plugin": "b", "metadata": {"a": "b"}, "mine": 1}
    written = json.loads(Result(plugin="a", error="no", extra=extra).to_json())
    assert written == {"plugin": "a", "version": "0.1", "error": "no", "metadata": {"a": "b"}, "mine": 1}


def test_null_results_and_plugins_are_passed_over():
    assert Request.from_json('{"results":[null,{"plugin":"a"}]}').results == (Result(plugin="a", version=""),)
    assert ConfigList.from_json('{"plugins":[null]}').plugins == ()


WRONG_RESULTS = [
    (Result(plugin="a").replace(error=5), "result.error: found the number 5, expected a string"),
    (Result(plugin="a", metadata={"a": 1}), "result.metadata.a: found the number 1, expected a string"),
    (Result(plugin="a", metadata={1: "a"}), "result.metadata: key: found the number 1, expected a string"),
    (Result(plugin="a").replace(metadata=[]), "result.metadata: found an array, expected an object of strings"),
    (Result(plugin="a").replace(extra=[]), "result.extra: found an array, expected an object"),
    (Result(plugin="a", extra={"a": float("nan")}), "cannot be written as JSON"),
    (Request(state="a", id="a", pid=2**63), "request.pid: found the number 9223372036854775808, expected an integer"),
    (Request(state="a", id="a", conf={"a": {1, 2}}), "cannot write a set as JSON"),
]


@pytest.mark.parametrize(("message", "said"), WRONG_RESULTS)
def test_a_message_that_holds_what_it_may_not_is_not_written(message, said):
    with pytest.raises(EncodeError) as raised:
        message.to_json()
    assert said in str(raised.value)


MESSAGES = [
    Spec(resources={"cpu": {}}, namespaces={"pid": ""}, cgroups_path="/a", annotations={"a": "b"}),
    Result(plugin="a", error="b", metadata={"c": "d"}, cgroups_path="e", extra={"f": 1}),
    Request(state="create", id="a", sandbox_id="b", pid=1, spec=Spec(), labels={"a": "b"}, conf=1, results=[]),
    PluginEntry(
        type="a",
        conf={},
        states=["setup"],
        failure_policy="fail",
        timeout=1.5,
        prefork="never",
        source="f",
        source_index=2,
    ),
    ConfigList(plugins=[PluginEntry(type="a")]),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
class TestMessage:
    def test_is_frozen(self, message):
        name = message.__slots__[0]
        with pytest.raises(AttributeError, match=r"replace\("):
            setattr(message, name, None)
        with pytest.raises(AttributeError):
            delattr(message, name)
        with pytest.raises(AttributeError):
            message.unheard_of = 1

    def test_is_replaced_attribute_by_attribute(self, message):
        for name in message.__slots__:
            changed = message.replace(**{name: "changed"})
            assert getattr(changed, name) == "changed"
            assert changed != message
            assert all(
                getattr(changed, other) == getattr(message, other) for other in message.__slots__ if other != name
            )
        assert message.replace() == message

    def test_refuses_to_replace_what_it_has_not(self, message):
        with pytest.raises(TypeError, match="no attribute 'unheard_of'"):
            message.replace(unheard_of=1)

    def test_is_equal_by_value_and_unhashable(self, message):
        assert message == message.replace()
        assert message != 1
        with pytest.raises(TypeError):
            hash(message)

    def test_shows_all_of_itself(self, message):
        for name in message.__slots__:
            assert f"{name}={getattr(message, name)!r}" in repr(message)

    def test_every_slot_has_a_field_or_is_not_of_the_document(self, message):
        fields = {field.attribute for field in message.FIELDS}
        assert set(message.__slots__) - fields <= {"extra", "source", "source_index"}


def test_a_state_is_a_string_that_compares_as_one():
    assert [str(state) for state in STATES] == ["setup", "create", "update", "pause", "resume", "delete"]
    assert State("create") == State.CREATE == "create"
    assert Request.from_json('{"state":"later"}').state == "later"


def test_a_plugin_always_wants_create_and_delete():
    assert [s for s in STATES if PluginEntry(type="a").wants(s)] == ["create", "delete"]
    assert [s for s in STATES if PluginEntry(type="a", states=["setup"]).wants(s)] == ["setup", "create", "delete"]


def test_a_new_result_is_of_the_requests_version():
    result = Request(state="create", id="a", version="0.9").new_result("b", metadata={"c": "d"}, error="e")
    assert result == Result(plugin="b", version="0.9", metadata={"c": "d"}, error="e")
