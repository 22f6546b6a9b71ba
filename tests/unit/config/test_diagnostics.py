"""What an operator is told about a configuration that is wrong."""

import json
from typing import Any

import pytest
from hypothesis import given, settings

from fuzz.documents import places
from fuzz.targets import host_config
from nri.config.diagnostics import SourcePositions, diagnose
from nri.config.faults import MAX_FAULTS
from nri.config.loading import parse
from nri.types.table_explained import nearest, path_text
from tests.unit.types.mutations import values


def plugin(entry: str) -> str:
    return '{"version":"0.1","plugins":[' + entry + "]}"


def when(condition: str) -> str:
    return plugin('{"type":"a","when":' + condition + "}")


def lines(document: str | bytes) -> list[str]:
    """The faults of a document, without the file's name."""
    document = document if isinstance(document, bytes) else document.encode()
    assert parse(document) is None
    return [str(fault).removeprefix("f:") for fault in diagnose("f", document)]


MINIMAL = '{"version": "0.1", "plugins": [{"type": "NAME"}]}'
TYPE_RULE = "a file name of letters, digits, '.', '_' and '-' that begins with a letter or a digit"
STATES = "setup, create, resize, update, pause, resume, delete"
FAULTS: list[tuple[str | bytes, list[Any]]] = [
    # not JSON
    (" \n\t", ["1:1: (document): found an empty file, expected at least " + MINIMAL]),
    ("{}\n{}", ["2:1: (document): found '{}' after the document, expected its end"]),
    (plugin('{"type":"a"} /* b */'), ["expecting ',' delimiter, found '/* b */]}'; JSON has no comments"]),
    ("# a\n{}", ["1:1: (document): found '# a\\n{}', expected a value; JSON has no comments, notes go under a key"]),
    (plugin('{"type":"a",}'), [("1:4", ": (document): ", " comma ")]),
    ("{'version'}", [("1:2: (document): expecting property name", '; JSON has strings in "double quotes" only')]),
    ('{"version":"0.1",\n "NaN":"1e999", "plugins":[NaN]}', ["2:28: (document): found NaN, which is not JSON"]),
    (plugin('{"type":"a","conf":[1e3, 1e999]}'), ["1:54: (document): the number 1e999 is out of range"]),
    (plugin('{"type":"a","conf":' + "9" * 5000 + "}"), ["1:48: (document): a number has too many digits"]),
    (plugin('{"type":"a","conf":' + "[" * 300 + "]" * 300 + "}"), ["1:301: (document): the document is nested too"]),
    (b'{"version":\n"\xff"}', ["2:2: (document): found the byte 0xff, which is not UTF-8, expected a file in UTF-8"]),
    (b"\xef\xbb\xbf" + plugin("").encode(), ["1:1: (document): found a byte order mark (U+FEFF) at the start"]),
    (b"\xef\xbb\xbf", ["found a byte order mark", "1:1: (document): found an empty file"]),
    # the document
    ("\n[]", ["2:1: (document): found an array, expected an object"]),
    ("{}", ['1:1: version: missing, expected "0.1"', "1:1: plugins: missing, expected an array"]),
    ('{"version":"0.2","plugins":[]}', ["1:12: version: found the string '0.2', expected \"0.1\""]),
    ('{"version":"0.1","plugin":[]}', ["1:18: plugin: unknown key, did you mean plugins?"]),
    ('{"version":"0.1","plugins":[],"zzz":1}',
     ["1:31: zzz: unknown key, expected one of $schema, version, plugins"]),
    # an entry
    (plugin("{}"), [f"1:29: plugins[0].type: missing, expected {TYPE_RULE}"]),
    (plugin('{"tpye":"a"}'), ["1:30: plugins[0].tpye: unknown key, did you mean type?"]),
    (plugin('{"type":"a","\\u0073tate":[]}'), ["1:41: plugins[0].state: unknown key, did you mean states?"]),
    (plugin('{"type":"a","ü b":1}'), ["1:41: plugins[0]['ü b']: unknown key, expected one of"]),
    (plugin('{"type":"a"},{"type":""}'), [f"1:50: plugins[1].type: found the string '', expected {TYPE_RULE}"]),
    (plugin('{"type":"../a"}'), ["found the string '../a', expected a file name"]),
    (plugin('{"type":"a\\n"}'), ["found the string 'a\\n', expected a file name"]),
    (plugin('{"type":"' + "a" * 256 + '"}'), ["plugins[0].type: found 256 characters, expected at most 255"]),
    (plugin('{"type":"a","timeout":0}'), ["found the number 0, expected a number of seconds above 0, at most 3600"]),
    (plugin('{"type":"a","failurePolicy":"Ignore"}'),
     ["found the string 'Ignore', expected one of fail, ignore; did you mean ignore?"]),
    (plugin('{"type":"a","states":["setup","creat",5]}'), [
        f"states[1]: found the string 'creat', expected one of {STATES}; did you mean create?",
        f"states[2]: found the number 5, expected one of {STATES}"]),
    (plugin('{"type":"a","states":["setup","setup"]}'), ["1:59: plugins[0].states[1]: found the string 'setup' a"]),
    # a condition
    (when("{}"), ["1:48: plugins[0].when: found 0 keys, expected at least 1"]),
    (when("null"), ["plugins[0].when: found null, expected an object"]),
    (when('{"x-note":1}'),
     ["unknown key, expected one of namespaces, labels, annotations, sandbox, runtimeHandler"]),
    (when('{"namespaces":[]}'), ["when.namespaces: found 0 items, expected at least 1"]),
    (when('{"namespaces":["a-*","^kube-.*$","","Kube","-a","a-","é",7]}'), [
        "namespaces[1]: found the string '^kube-.*$', expected a name of letters a-z, digits and '-', or",
        "namespaces[2]: found the string '', expected a name",
        "namespaces[3]: found the string 'Kube', expected a name",
        "namespaces[4]: found the string '-a', expected a name",
        "namespaces[5]: found the string 'a-', expected a name",
        "namespaces[6]: found the string 'é', expected a name",
        "namespaces[7]: found the number 7, expected a name"]),
    (when('{"labels":{}}'), ["when.labels: found 0 keys, expected at least 1"]),
    (when('{"labels":{"a b":{"present":true}}}'), ["labels: found the key 'a b', expected a key of ASCII"]),
    (when('{"labels":{"a":{"equals":[]}}}'), ["labels.a.equals: found 0 items, expected at least 1"]),
    (when('{"labels":{"a":{"equals":3}}}'), ["found the number 3, expected a string, or an array of at least one"]),
    (when('{"annotations":{"a":{"pattern":"web"}}}'),
     ["annotations.a.pattern: found the string 'web', expected a pattern with '*' for any characters"]),
    (when('{"annotations":{"a":{"pattern":"*' + "x" * 100_000 + '"}}}'),
     ["annotations.a.pattern: found 100001 characters, expected at most 4096"]),
    (when('{"sandbox":"yes"}'), ["found the string 'yes', expected true, false or both"]),
    (when('{"runtimeHandler":"runc"}'), ["runtimeHandler: found the string 'runc', expected an array"]),
    # keys that are given twice
    ('{"version":"0.1",\n"plugins":[],\n"version":"0.1"}',
     ["3:1: version: the key is given again, expected it once; it was given first at line 1 column 2"]),
    (plugin('{"type":"a","conf":{"b":[{"c":1,"\\u0063":1}]}}'), ["plugins[0].conf.b[0].c: the key is given again"]),
    (plugin('{"type":"a","timeout":1,\n"timeout":0}'),
     ["2:1: plugins[0].timeout: the key is given again", "2:11: plugins[0].timeout: found the number 0"]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), FAULTS, ids=lambda case: repr(case)[:50])
def test_fault_names_place_what_is_wrong_and_what_is_expected(
    document: str | bytes, expected: list[Any]
) -> None:
    found = lines(document)
    assert len(found) == len(expected)
    for line, texts in zip(found, expected, strict=True):
        for text in [texts] if isinstance(texts, str) else texts:
            assert text in line
    assert all(line.isprintable() and len(line) < 400 for line in found)
    host_config.check(document if isinstance(document, bytes) else document.encode())


def test_columns_count_characters() -> None:
    (line,) = lines('{"version":"0.1","plugins":[],"x-note":"é😀","oops":1}')
    assert line.startswith("1:45: oops: unknown key")


def test_deep_values_in_place_of_states_are_explained() -> None:
    deep = "[" * 240 + "]" * 240
    assert lines(plugin(f'{{"type":"a","states":[{deep},{deep}]}}'))


def test_only_wrong_entries_among_many_are_named() -> None:
    document = plugin(",".join(['{"type":"a"}'] * 2_000 + ["{}"] + ['{"type":"a"}'] * 2_000))
    (line,) = lines(document)
    assert line.startswith("1:26029: plugins[2000].type: missing, expected ")


def test_faults_of_each_kind_are_found_up_to_the_limit() -> None:
    document = plugin('{"type":1,"type":2}')[:-1] + ',"a":1,"b":2}'
    assert len(lines(document)) == 4
    for limit in (1, 3):
        assert len(diagnose("f", document.encode(), limit)) == limit


@pytest.mark.parametrize(
    "entries",
    [
        [{}] * 2000,
        [{"type": "a", "when": {"namespaces": ["A"] * 100_000}}],
        [{"type": "a", "when": {"labels": {"a": {"equals": [1] * 100_000}}}}],
        [{"type": "a", "when": {"labels": {f"a{number}": 1 for number in range(20_000)}}}],
    ],
    ids=lambda entries: str(entries)[:50],
)
def test_very_many_mistakes_are_listed_up_to_the_limit(entries: list[Any]) -> None:
    assert len(lines(json.dumps({"version": "0.1", "plugins": entries}))) == MAX_FAULTS


# A fault, for a person and for a program


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("a", 0, "b", 1, 2), "a[0].b[1][2]"),
        (("$schema",), "$schema"),
        (("x-a", "b.c", "", "d\n"), "x-a['b.c'][''][" + repr("d\n") + "]"),
        (("k" * 61,), "['" + "k" * 39 + "…" + "k" * 15 + "' (63 characters)]"),
    ],
)
def test_a_path_reads_as_in_a_program(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("tpye", "type"),
        ("failure_policy", "failurePolicy"),
        (5, None),
        ("timeout" * 20, None),
    ],
)
def test_a_misspelt_word_is_recognized(word: object, meant: str | None) -> None:
    assert nearest(word, ("type", "states", "failurePolicy", "timeout")) == meant


# Positions in a JSON text


@settings(max_examples=150, deadline=None)
@given(values)
def test_at_the_place_of_a_value_stands_the_value(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        for path in places(value):
            inner = value
            for part in path:
                inner = inner[part]
            line, column = SourcePositions(text).value(path)
            read, _ = json.JSONDecoder().raw_decode(
                "\n".join(text.split("\n")[line - 1 :])[column - 1 :]
            )
            assert repr(read) == repr(inner)


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("[" + "1," * 100_000 + "1]", (100_000,), (1, 200_002)),
        ("[" + ("[" * 250 + "]" * 250 + ",") * 400 + "7]", (400,), (1, 400 * 501 + 2)),
        ('["' + "\\\\" * 100_000 + '", 7]', (1,), (1, 200_006)),
    ],
    ids=["long", "deep", "escapes"],
)
def test_a_big_file_has_places(text: str, path: tuple[int, ...], place: tuple[int, int]) -> None:
    assert SourcePositions(text).value(path) == place
