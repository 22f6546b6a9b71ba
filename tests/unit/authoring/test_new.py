"""`nri new`: a folder with a plugin, or one clear sentence and nothing that is half made."""

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from nri.authoring.new import KINDS, class_name, make, module_name
from nri.authoring.source import SourceError
from tests.integration.cli.running import inside
from tests.support.linters import run_module
from tests.support.v2_template import ROOT


def test_options_choose_the_kind_and_the_files_are_named(tmp_path: Path) -> None:
    for template, kind in KINDS.items():
        (tmp_path / template).mkdir()
        made = inside("new", "pinner", *kind.option.split(), "--dir", template, cwd=tmp_path)
        folder = tmp_path / template / "pinner"
        files = sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
        )
        assert {"README.md", "pinner.py", "test_pinner.py"} < set(files)
        assert (made.status, made.stdout) == (
            0,
            f"made {template}/pinner: {', '.join(files)}\n",
        )
        assert not [name for name in files if re.search(r"@\w+@", (folder / name).read_text())]
        assert len((folder / "README.md").read_text().splitlines()) <= 12
        assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "pinner"
        steps = yaml.safe_load((folder / ".github/workflows/test.yml").read_text())["jobs"]["test"][
            "steps"
        ]
        assert any(step.get("run", "").startswith("nri build") for step in steps)
    texts = {(tmp_path / kind / "pinner/pinner.py").read_text() for kind in KINDS}
    assert len(texts) == len(KINDS)
    made = inside("new", "a-b", cwd=tmp_path)
    assert ", 10-a-b.conf, README.md, a_b.py, pyproject.toml, test_a_b.py\n" in made.stdout


def test_a_class_hides_no_name_of_its_template(tmp_path: Path) -> None:
    for name, template in (
        ("state", "annotations"),
        ("KEY", "annotations"),
        ("pod", "annotations"),
        ("any", "container"),
    ):
        make(name, template, str(tmp_path))
        (text,) = [
            path.read_text()
            for path in (tmp_path / name).glob("*.py")
            if not path.name.startswith("test_")
        ]
        assert f"class {class_name(name)}Plugin(" in text


def test_files_have_the_format_of_ruff_for_any_name(tmp_path: Path) -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    for kind in KINDS:
        for name in ("a", "cpu-pinner", "a-name-that-is-longer-than-most"):
            folder = tmp_path / ("v2" if kind == "v2" else "v01") / kind
            folder.mkdir(parents=True, exist_ok=True)
            make(name, kind, str(folder))
    check = ("ruff", "format", "--check", "--isolated", "--no-cache")
    run_module(tmp_path, *check, "v01")
    options = ("--line-length=118", f"--target-version={rules['target-version']}")
    run_module(tmp_path, *check, *options, "v2")


@pytest.mark.parametrize(
    ("name", "module", "class_"),
    [
        ("CPU.pinner", "cpu_pinner", "CPUPinner"),
        ("9p", "plugin_9p", "Plugin9p"),
        ("class", "plugin_class", "Class"),
        ("json", "plugin_json", "Json"),
        ("none", "none", "PluginNone"),
        ("nri", "plugin_nri", "Nri"),
        ("test-it", "plugin_test_it", "TestIt"),
        ("a-", "a_", "A"),
    ],
)
def test_a_name_becomes_names_that_python_takes(name: str, module: str, class_: str) -> None:
    assert (module_name(name), class_name(name)) == (module, class_)
    assert module.isidentifier()
    assert class_.isidentifier()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ("../up",),
            1,
            "'../up' cannot be a plugin's name: expected letters, digits and . _ -, beginning with",
        ),
        (("-x",), 2, "No such option"),
        (("",), 1, "'' cannot be a plugin's name"),
        (("a" * 300,), 1, "cannot be a plugin's name"),
        (("\u0663",), 1, "cannot be a plugin's name"),
        (("there",), 1, "./there exists: expected a name for which there is no file or folder yet"),
        (
            ("a", "--dir", "nowhere"),
            1,
            "nowhere/a cannot be made: No such file or directory; expected a folder to",
        ),
        (
            ("a", "--v2", "--reads", "annotations"),
            2,
            "a plugin starts from one kind: expected one of --reads annotations, ",
        ),
    ],
)
def test_a_wrong_command_prints_one_sentence_and_leaves_nothing(
    tmp_path: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    (tmp_path / "there").touch()
    ran = inside("new", *words, cwd=tmp_path)
    assert (ran.status, ran.stdout) == (status, "")
    assert said in ran.stderr
    assert os.listdir(tmp_path) == ["there"]


def test_a_folder_that_cannot_be_finished_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(SourceError, match="a cannot be made: No space left on device; expected"):
        make("a", "bare", str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_the_folder_has_the_modes_of_any_other(tmp_path: Path) -> None:
    make("a", "bare", str(tmp_path))
    (tmp_path / "b").mkdir()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
