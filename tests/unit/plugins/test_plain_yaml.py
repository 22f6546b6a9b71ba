"""YAML of strangers: what it means, and what is refused before anything is made of it."""

import pytest
import yaml

from nri.plugins import plain_yaml
from nri.types import DecodeError


@pytest.fixture(autouse=True, params=["CSafeLoader", "SafeLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with PyYAML's parser in C, and with the one in Python."""
    if not hasattr(yaml, request.param):
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(plain_yaml, "LOADER", getattr(yaml, request.param))


def test_a_document_means_what_it_means_to_go() -> None:
    for text, value in (
        ("", None),
        ("# nothing\n", None),
        ("---\n...\n", None),
        ("- path: /dev/a\n  major: 1\n", [{"path": "/dev/a", "major": 1}]),
        ("|+\n  a\n", "a\n"),
        ("{a: [b, 1, ~], 'c': \"1\"}", {"a": ["b", 1, None], "c": "1"}),
        ("[0644, 0o644, 0x1A4, 0b110100100, 420, +420, 4_2_0]", [420] * 7),
        ("[-1, 0, -0x10]", [-1, 0, -16]),
        ("[1.5, .5, 1e3, 1.]", [1.5, 0.5, 1000.0, 1.0]),
        (
            "[0-3, '1', 1:30, 2001-01-01, 0899x, .inf, .nan, 1e999, 0o8]",
            ["0-3", "1", "1:30", "2001-01-01", "0899x", ".inf", ".nan", "1e999", "0o8"],
        ),
        ("[yes, No, on, OFF, true, False, y]", [True, False, True, False, True, False, True]),
        ("{1: a, yes: b, ~: c}", {"1": "a", "yes": "b", "~": "c"}),
        ("9" * 4000, "9" * 4000),
        ("é: ü", {"é": "ü"}),
    ):
        assert plain_yaml.load(text) == value


def test_a_wrong_value_is_named_with_its_place() -> None:
    for text, message in (
        (
            "- &a x\n- *a",
            "line 1 column 3: found an anchor or alias (& or *), expected the value itself",
        ),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "line 1 column 4: found an anchor"),  # a bomb
        ("a: *b", "line 1 column 4: found an anchor or alias"),
        ("&a {b: c}", "line 1 column 1: found an anchor or alias"),
        ("&k a: b", "line 1 column 1: found an anchor or alias"),
        (
            "!!python/object/apply:os.system [id]",
            "line 1 column 1: found the tag 'tag:yaml.org,2002:python/object/apply",
        ),
        ("!!str 1", "line 1 column 1: found the tag"),
        ("a: 1\nb: 2\na: 3", "line 3 column 1: found the key 'a' again, expected it once"),
        ("? [a]\n: b", "line 1 column 3: found a list or mapping as a key, expected a word"),
        ("[" * 100, "line 1 column 17: nested too deep; expected at most 16 levels"),
        ("a:\n b:\n" + "".join(" " * depth + "c:\n" for depth in range(2, 60)), "nested too deep"),
        ("--- 1\n--- 2", "line 2 column 1: found a second document, expected one"),
        ("a: b: c", "line 1 column 5: is not YAML: mapping values are not allowed"),
        ("'a", "is not YAML: "),
        ("a: \x07", "is not YAML: "),
        ("%YAML 9.9\n---\na", "is not YAML: found incompatible YAML document"),
    ):
        with pytest.raises(DecodeError) as caught:
            plain_yaml.load(text)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 250
        assert str(caught.value).isprintable()


def test_64_kib_of_anything_are_read_or_refused() -> None:
    for text in (
        "[",
        "{a: ",
        "? ",
        "- ",
        "a:",
        "*a ",
        "a, ",
        "\n",
        " ",
        "k: 1\n",
        "!a ",
        '"',
        "|",
        "\u2028",
    ):
        try:
            plain_yaml.load((text * 65536)[:65536])
        except DecodeError as error:
            assert len(str(error)) < 250
