"""The options in /etc/nri/runtime.json: strict, and never an exception."""

import json
from pathlib import Path

import jsonschema
import pytest

from nri.runc.options import WrapperOptions, load

ALL = {
    "runtime": "/usr/bin/crun",
    "confDir": "/a",
    "confFile": "/b",
    "binDirs": ["/c", "/d"],
    "failurePolicy": "ignore",
    "timeout": 2.5,
    "deadline": 3,
    "logFile": "/e",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path / "runtime.json"


def test_without_options_there_are_the_defaults(file: Path) -> None:
    for text in (
        None,
        "{}",
        '{"runtime": null}',
        '{"x-note": "hello"}',
        '{"$schema": "file:///a"}',
    ):
        if text is not None:
            file.write_text(text)
        options = load(str(file))
        assert (options.runtime, options.conf_dir, options.bin_dirs) == (
            "",
            "/etc/nri/resource.d",
            ("/opt/nri/bin",),
        )
        assert (options.failure_policy, options.timeout, options.deadline, options.fault) == (
            "fail",
            10,
            30,
            "",
        )


def test_every_option_is_read(file: Path) -> None:
    file.write_text(json.dumps(ALL))
    options = load(str(file))
    assert (options.runtime, options.conf_dir, options.conf_file) == ("/usr/bin/crun", "/a", "/b")
    assert options.bin_dirs == ("/c", "/d")
    assert (options.failure_policy, options.timeout, options.deadline, options.log_file) == (
        "ignore",
        2.5,
        3,
        "/e",
    )
    assert options.fault == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "found the end of the document"),
        ("", "is empty, expected a JSON object"),
        ("[]", "found an array, expected an object"),
        ('{"deadlin": 3}', "deadlin: unknown key, did you mean deadline?"),
        ('{"$schema": 5}', "$schema: found the number 5, expected a string"),
        (
            '{"deadline": 0}',
            "deadline: found the number 0, expected a number of seconds above 0, at most 3600",
        ),
        ('{"deadline": true}', "deadline: found the boolean true"),
        (
            '{"runtime": "../runc"}',
            "runtime: found the string '../runc', expected an absolute path, or the name",
        ),
        ('{"binDirs": []}', "binDirs: found 0 items, expected at least 1"),
        (
            '{"failurePolicy": "pass"}',
            "failurePolicy: found the string 'pass', expected one of fail, ignore",
        ),
        ('{"timeout": 1, "timeout": 2}', "'timeout' is given twice, expected it once"),
    ],
)
def test_a_fault_is_named_and_the_rest_is_read(file: Path, text: str, fault: str) -> None:
    file.write_text(text)
    options = load(str(file))
    assert options.fault.startswith(f"{file}: ")
    assert fault in options.fault
    file.write_text('{"runtime": "crun", "deadline": "long"}')
    options = load(str(file))
    assert (options.runtime, options.deadline) == ("crun", 30)


def test_untrusted_options_are_ignored(file: Path) -> None:
    file.write_text('{"runtime": "/bin/false"}')
    file.chmod(0o646)
    options = load(str(file))
    assert (options.runtime, "is writable by others (mode 0646" in options.fault) == ("", True)
    file.chmod(0o644)
    assert load(str(file)).runtime == "/bin/false"
    file.parent.chmod(0o777)
    options = load(str(file))
    assert (options.runtime, options.fault.startswith(f"{file.parent} is writable by others")) == (
        "",
        True,
    )


def test_the_schema_gives_the_same_verdict() -> None:
    validator = jsonschema.Draft202012Validator(WrapperOptions.schema())
    for value in (
        *({key: value} for key, value in ALL.items()),
        {"runtime": "."},
        {"runtime": "a/b"},
        {"runtime": "runc\n"},
    ):
        assert validator.is_valid(value) == WrapperOptions.table.accepts(value), value
