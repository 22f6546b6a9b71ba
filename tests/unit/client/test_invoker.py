"""The invokers: where they look for a plugin, and who runs it."""

from pathlib import Path

import pytest

from nri.client import DirectInvoker, Invoker, PluginError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).write_text('#!/bin/sh\necho "{}"\n')
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_an_invoker_must_be_implemented() -> None:
    with pytest.raises(NotImplementedError):
        Invoker().find("a")
    with pytest.raises(NotImplementedError):
        Invoker().run("/a", "a", b"", 0.0, max_output=1, log=lambda _line: None)


def test_owners_are_checked_unless_the_option_says_otherwise(folder: Path) -> None:
    (folder / "b").chmod(0o777)
    strict, lax = (DirectInvoker([str(folder)], check_owner=check) for check in (True, False))
    assert strict.find("a") == lax.find("a") == f"{folder}/a"
    assert lax.find("b") == f"{folder}/b"
    with pytest.raises(PluginError, match="not run: "):
        strict.find("b")
