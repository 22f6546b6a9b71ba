"""What others get of this project: the wheel, and the tree that `make install` lays out."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nri import __version__

ROOT = Path(__file__).parent.parent.parent
REQUEST = json.dumps({"version": "0.1", "state": "delete", "id": "a", "spec": None})
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def run(*command: str | Path, stdin: str = "", cwd: Path = ROOT) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def patiently(*command: str | Path, cwd: Path) -> str:
    """As run(), for what downloads: tried again, as a registry may be busy."""
    for pause in (2, 5, 15):
        try:
            return run(*command, cwd=cwd)
        except AssertionError:
            time.sleep(pause)
    return run(*command, cwd=cwd)


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "nri", source / "nri", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    patiently(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("nri-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty/bin/python"
    patiently(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)

    assert run(tmp_path / "empty/bin/nri", "--version", cwd=tmp_path).startswith(f"nri {__version__}")
    assert run(tmp_path / "empty/bin/nri", "check", "--conf-dir", tmp_path / "none", cwd=tmp_path)
    answer = run(python, "-m", "nri.plugins.clearcfs", "invoke", stdin=REQUEST, cwd=tmp_path)
    assert json.loads(answer) == {"plugin": "clearcfs", "version": "0.1", "error": ""}
    where = "import nri, nri.types; from pathlib import Path; print(Path(nri.__file__).parent)"
    package = Path(run(python, "-c", where, cwd=tmp_path).strip())
    assert (package / "py.typed").exists()
    assert {path.name for path in (package / "types/schemas").iterdir()} >= {
        "request.schema.json",
        "result.schema.json",
        "host-config.schema.json",
    }


@pytest.fixture(scope="module")
def destination(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run("tools/binaries")
    destination = tmp_path_factory.mktemp("installed")
    run("tools/install", destination)
    return destination


def test_the_installed_plugins_are_ordinary_executables(destination: Path) -> None:
    for plugin in ("clearcfs", "konfine"):
        binary = destination / "opt/nri/bin" / plugin
        assert os.access(binary, os.X_OK)
        assert json.loads(run(binary, "invoke", stdin=REQUEST))["plugin"] == plugin
    assert run(destination / "usr/local/bin/nri", "--version").startswith(f"nri {__version__}")


def test_the_installed_tree_may_be_moved(destination: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(destination, moved, symlinks=True)

    checked = run(
        moved / "usr/local/bin/nri",
        "check",
        "--json",
        f"--conf-dir={moved}/etc/nri/resource.d",
        f"--bin-dir={moved}/opt/nri/bin",
    )
    assert [(p["type"], p["version"], p["conf"]) for p in json.loads(checked)["plugins"]] == [
        ("konfine", __version__, "right"),
        ("clearcfs", __version__, "right"),
    ]
    links = [path for path in moved.rglob("*") if path.is_symlink()]
    assert links
    assert all(path.resolve().is_relative_to(moved) for path in links)


def test_installing_again_keeps_the_configuration_and_makes_no_second_folder(destination: Path) -> None:
    conf = destination / "etc/nri/resource.d/10-konfine.conf"
    conf.write_text("mine")
    lib = destination / "opt/nri/lib"
    before = lib.resolve()

    said = run("tools/install", destination)

    assert conf.read_text() == "mine"
    assert f"kept      {conf}" in said
    assert lib.resolve() == before
    assert before.name.startswith(f"lib.{__version__}-")
    assert len(list((destination / "opt/nri").glob("lib.*"))) == 1
    assert json.loads(run(before / "clearcfs", "invoke", stdin=REQUEST))["plugin"] == "clearcfs"


def test_a_binary_says_what_is_wrong_with_its_input_without_a_traceback(destination: Path) -> None:
    for stdin, expected in (("", "is empty"), ('{"pid":"x"}', "request.pid"), ('{"a', "line 1 column 2")):
        done = subprocess.run(
            [destination / "opt/nri/bin/konfine", "invoke"],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert expected in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
