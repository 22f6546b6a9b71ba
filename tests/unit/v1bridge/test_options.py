"""Bridge options: valid ones count, and each fault names its key, what was found, and what would be right."""

import json

import pytest

from nri.v1bridge import BridgeOptions

GOOD = [
    # key, value, attribute, what it is then
    ("confDir", "/etc/other.d", "conf_dir", "/etc/other.d"),
    ("confFile", "/etc/other.json", "conf_file", "/etc/other.json"),
    ("binDirs", ["/a", "/b c"], "bin_dirs", ("/a", "/b c")),
    ("failurePolicy", "ignore", "failure_policy", "ignore"),
    ("pluginTimeout", 3600, "timeout", 3600),
    ("resident", False, "resident", False),
    ("checkOwner", False, "check_owner", False),
    ("lateCreate", False, "late_create", False),
    ("nice", 0, "nice", 0),
    ("reapply", True, "reapply", True),
    ("recordDir", "/run/other", "record_dir", "/run/other"),
    ("logFile", "/var/log/nri.log", "log_file", "/var/log/nri.log"),
    ("logLevel", "debug", "log_level", "debug"),
]
PATH = "expected an absolute path"
SECONDS = "expected a number of seconds above 0, at most 3600"
DIRS = "expected an array of absolute paths, at least one"
BAD = [
    ("confDir", "etc", f"confDir: found the string 'etc', {PATH}"),
    ("confFile", ["/a"], f"confFile: found an array, {PATH}"),
    ("logFile", {}, f"logFile: found an object, {PATH}"),
    ("binDirs", "/a", f"binDirs: found the string '/a', {DIRS}"),
    (
        "failurePolicy",
        "Fail",
        "failurePolicy: found the string 'Fail', expected one of fail, ignore",
    ),
    ("pluginTimeout", 0, f"pluginTimeout: found the number 0, {SECONDS}"),
    ("pluginTimeout", 10**400, "pluginTimeout: found the number 1000"),
    ("resident", 1, "resident: found the number 1, expected true or false"),
    ("checkOwner", 0, "checkOwner: found the number 0, expected true or false"),
    ("reapply", 1, "reapply: found the number 1, expected true or false"),
    ("lateCreate", "true", "lateCreate: found the string 'true', expected true or false"),
    ("recordDir", "run/nri", f"recordDir: found the string 'run/nri', {PATH}"),
    ("nice", -21, "nice: found the number -21, expected an integer, -20 to 19"),
    (
        "logLevel",
        "trace",
        "logLevel: found the string 'trace', expected one of debug, info, warning, error",
    ),
]


def test_options_that_say_nothing_are_the_defaults() -> None:
    nothing = json.dumps(dict.fromkeys(BridgeOptions.attributes))
    for text in (
        "",
        "\n\t ",
        nothing,
        '{"$schema": "file:///a", "x-note": {"any": [1, null]}, "x-": 1}',
    ):
        assert BridgeOptions.of_text(text) == (BridgeOptions(), [])


def test_each_key_is_taken_and_nothing_else_changes() -> None:
    assert {row[0] for row in GOOD} == {row[0] for row in BAD} == BridgeOptions.attributes.keys()
    for key, value, attribute, expected in GOOD:
        options, faults = BridgeOptions.of_text(json.dumps({key: value}))
        assert faults == []
        assert getattr(options, attribute) == expected
        others = [name for name in BridgeOptions.attributes.values() if name != attribute]
        assert [getattr(options, name) for name in others] == [
            getattr(BridgeOptions(), name) for name in others
        ]


@pytest.mark.parametrize(("key", "value", "fault"), BAD, ids=range(len(BAD)))
def test_a_wrong_value_is_reported_and_the_default_stays(
    key: str, value: object, fault: str
) -> None:
    options, faults = BridgeOptions.of_text(json.dumps({key: value}))
    assert options == BridgeOptions()
    assert len(faults) == 1
    assert faults[0].startswith(fault)
    assert len(faults[0]) < 200


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("confdir", "confdir: unknown key, did you mean confDir?"),
        (
            "a\nb\x1b[2J\u202e",
            r"['a\nb\x1b[2J\u202e']: unknown key, expected one of pluginTimeout, ",
        ),
        ("k" * 1_000_000, "['kkkkk"),
    ],
    ids=["a typo", "unprintable", "a megabyte"],
)
def test_an_unknown_key_is_named_with_what_may_be_meant(key: str, hint: str) -> None:
    (fault,) = BridgeOptions.of_text(json.dumps({key: 1}))[1]
    assert fault.startswith(hint)
    assert fault.isprintable()
    assert len(fault) < 300


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON: "),
        ('{"pluginTimeout": NaN}', "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        ("\ufeff{}", "is not JSON: "),
        ("null", "found null, expected an object"),
        ("[{}]", "found an array, expected an object"),
    ],
    ids=range(6),
)
def test_a_document_that_is_not_an_object_is_one_fault(text: str, fault: str) -> None:
    options, faults = BridgeOptions.of_text(text)
    assert options == BridgeOptions()
    assert [each[: len(fault)] for each in faults] == [fault]


def test_valid_options_count_beside_wrong_ones() -> None:
    text = '{"logLevel": "x", "logLevle": "info", "pluginTimeout": 1, "pluginTimeout": 2, "resident": false}'
    options, faults = BridgeOptions.of_text(text)
    assert options == BridgeOptions(resident=False)
    assert faults == [
        "logLevle: unknown key, did you mean logLevel?",
        "logLevel: found the string 'x', expected one of debug, info, warning, error",
        "'pluginTimeout' is given twice, expected it once",
    ]
