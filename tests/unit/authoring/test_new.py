"""`nri new`: a folder whose plugin works as it is, or one clear sentence and nothing that is half made."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nri.authoring.scaffold import KINDS, Kind, NewPluginError, class_name, make, module_name
from tests.integration.cli.running import Ran, process
from tests.support.linters import run_module

V01 = [kind for kind in KINDS if kind.template != "v2"]


def new(folder: Path, *words: str) -> Ran:
    return process("new", *words, cwd=folder)


@pytest.mark.parametrize("kind", V01, ids=lambda kind: kind.template)
def test_what_it_makes_passes_its_own_tests_and_the_usual_checks(tmp_path: Path, kind: Kind) -> None:
    option = kind.option.split() if kind.option else []
    ran = new(tmp_path, "pinner", *option)
    assert (ran.status, ran.stdout) == (0, "made pinner: 10-pinner.conf, README.md, pinner.py, test_pinner.py\n")
    folder = tmp_path / "pinner"
    assert re.search(
        r"^\d+ passed", run_module(folder, "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"), re.M
    )
    run_module(folder, "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "pinner.py", "test_pinner.py")
    run_module(folder, "ruff", "check", "--isolated", "--no-cache", ".")
    lines = (folder / "README.md").read_text().splitlines()
    assert len(lines) <= 11
    shown = run_module(folder, "nri.cli.entry", "run", "pinner.py")
    assert "the conf is that of 10-pinner.conf" in shown


@pytest.mark.parametrize("name", ["a", "cpu-pinner", "a-name-that-is-longer-than-most"])
def test_it_has_the_format_of_ruff_whatever_its_name(tmp_path: Path, name: str) -> None:
    for kind in V01:
        (tmp_path / kind.template).mkdir()
        make(name, kind, str(tmp_path / kind.template))
    run_module(tmp_path, "ruff", "format", "--check", "--isolated", "--no-cache", ".")


def test_a_name_that_is_taken_makes_a_module_of_another_name(tmp_path: Path) -> None:
    assert new(tmp_path, "json").status == 0
    assert sorted(os.listdir(tmp_path / "json")) == [
        "10-json.conf",
        "README.md",
        "json_plugin.py",
        "test_json_plugin.py",
    ]
    run_module(tmp_path / "json", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize(
    ("name", "module", "class_"),
    [
        ("pinner", "pinner", "Pinner"),
        ("cpu-pinner", "cpu_pinner", "CpuPinner"),
        ("CPU.pinner", "cpu_pinner", "CPUPinner"),
        ("9p", "plugin_9p", "Plugin9p"),
        ("class", "class_plugin", "Class"),
        ("none", "none", "PluginNone"),
        ("nri", "nri_plugin", "Nri"),
        ("test-it", "test_it_plugin", "TestIt"),
        ("a-", "a_", "A"),
    ],
)
def test_a_name_becomes_names_that_python_takes(name: str, module: str, class_: str) -> None:
    assert (module_name(name), class_name(name)) == (module, class_)
    assert module.isidentifier()
    assert class_.isidentifier()


def test_the_kinds_are_listed() -> None:
    lines = new(Path("/"), "--list").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["KIND", *[kind.option or "(none)" for kind in KINDS]]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("../up",), 1, "'../up' cannot be a plugin's name: expected letters, digits and . _ -, beginning with"),
        (("-x",), 2, "No such option"),
        (("",), 1, "'' cannot be a plugin's name"),
        (("a" * 300,), 1, "cannot be a plugin's name"),
        (("\u0663",), 1, "cannot be a plugin's name"),
        (("there",), 1, "./there exists: expected a name for which there is no file or folder yet"),
        (("a", "--dir", "nowhere"), 1, "nowhere/a cannot be made: No such file or directory; expected a folder to"),
        (("a", "--v2", "--reads", "annotations"), 2, "expected one of --reads, --writes, --adjusts and --v2"),
        ((), 2, "expected the NAME of the new plugin"),
    ],
)
def test_what_cannot_be_made_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    (tmp_path / "there").touch()
    ran = new(tmp_path, *words)
    assert (ran.status, ran.stdout) == (status, "")
    assert said in ran.stderr
    assert os.listdir(tmp_path) == ["there"]


def test_a_folder_that_cannot_be_finished_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(NewPluginError, match="a cannot be made: No space left on device; expected"):
        make("a", KINDS[0], str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_the_folder_has_the_modes_of_any_other(tmp_path: Path) -> None:
    make("a", KINDS[0], str(tmp_path))
    (tmp_path / "b").mkdir()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
