"""Faults of a configuration, as a person and as a program sees them."""

import pytest

from nri.config import ConfigError, Fault
from nri.config.loading import InvalidFile
from nri.types.table_explained import nearest, path_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("a", 0, "b", 1, 2), "a[0].b[1][2]"),
        (("x-a", "b.c", "", "d\n"), "x-a['b.c'][''][" + repr("d\n") + "]"),
        (("k" * 61,), "['" + "k" * 39 + "…" + "k" * 15 + "' (63 characters)]"),
    ],
)
def test_a_path_reads_as_in_a_program(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


def test_a_fault_is_frozen_and_equal_by_value() -> None:
    error = ConfigError([Fault(file="a", message="b", path="c", line=2, column=3)])
    assert str(error) == "a:2:3: c: b"
    (fault,) = error.faults
    with pytest.raises(AttributeError):
        fault.line = 1
    with pytest.raises(AttributeError):
        del fault.line
    same = Fault(file="a", message="b", path="c", line=2, column=3)
    assert (fault, hash(fault), repr(fault)) == (same, hash(same), "Fault('a:2:3: c: b')")
    assert fault != Fault(file="a", message="b")
    assert fault != "a:2:3: c: b"


def test_two_invalid_files_are_equal_if_their_documents_are() -> None:
    first, second = InvalidFile(file="f", document=b"a"), InvalidFile(file="f", document=b"b")
    assert first == InvalidFile(file="f", document=b"a")
    assert first != second
    assert first != Fault(file="f", message=first.message)
    assert len({first, second, first}) == 2


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
