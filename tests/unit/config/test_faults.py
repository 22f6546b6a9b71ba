"""Faults of a configuration, as a person and as a program sees them."""

from __future__ import annotations

import pytest

from nri.config import ConfigError, Fault
from nri.config.faults import path_text
from nri.config.loading import InvalidFile


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "(document)"),
        (("a", 0, "b", 1, 2), "a[0].b[1][2]"),
        ((0,), "[0]"),
        (("$schema",), "$schema"),
        (("x-a", "b.c", "", "d\n"), "x-a['b.c'][''][" + repr("d\n") + "]"),
        (("k" * 1000,), "['" + "k" * 39 + "…" + "k" * 15 + "' (1002 characters)]"),
    ],
)
def test_a_path_reads_as_in_a_program(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


def test_a_fault_is_frozen_and_equal_by_value() -> None:
    error = ConfigError([Fault(file="a", message="b", path="c", line=2, column=3)])
    assert str(error) == "a:2:3: c: b"
    assert ConfigError(error.faults).faults == error.faults
    with pytest.raises(AttributeError):
        error.faults[0].line = 1
    with pytest.raises(AttributeError):
        del error.faults[0].line
    assert hash(error.faults[0]) == hash(Fault(file="a", message="b", path="c", line=2, column=3))
    assert error.faults[0] != Fault(file="a", message="b")


def test_two_invalid_files_are_equal_if_their_documents_are() -> None:
    first, second = InvalidFile(file="f", document=b"a"), InvalidFile(file="f", document=b"b")
    assert first == InvalidFile(file="f", document=b"a")
    assert first != second
    assert first != Fault(file="f", message=first.message)
    assert len({first, second, first}) == 2


def test_a_fault_equals_only_a_fault() -> None:
    fault = Fault(file="10.conf", message="unknown key")
    assert fault == Fault(file="10.conf", message="unknown key")
    assert fault != "10.conf: unknown key"
    assert repr(fault) == "Fault('10.conf:1:1: (document): unknown key')"
