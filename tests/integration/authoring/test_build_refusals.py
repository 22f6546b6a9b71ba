"""nri build refuses what would be dead or slow with one sentence, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.integration.authoring.authored import SOURCE, build, plugin
from tests.integration.cli.running import inside
from tests.support.processes import command_lines
from tests.support.waiting import SOON, until

if TYPE_CHECKING:
    from pathlib import Path


class Case(NamedTuple):
    text: str | bytes
    why: str
    words: tuple[str, ...] = ()


LIST_SCHEMA = 'conf_schema = {"properties": {"cpus": {"type": "string"}}}'
CASES = {
    "a syntax error": Case("x = 1\ndef f(:\n", "{file}:2: SyntaxError: invalid syntax"),
    "binary": Case(b"\x7fELF\0\0", "{file}: SyntaxError: source code string cannot contain null bytes"),
    "another encoding": Case(b"x = '\xff'", "{file}:1: SyntaxError: (unicode error) 'utf-8' codec can't decode"),
    "nested too deep": Case("(" * 500 + ")" * 500, "{file}:1: SyntaxError: too many nested parentheses"),
    "another program": Case("print('{}')", "{file}: no plugin: it ends without skel.main(PLUGIN())"),
    "a program that exits": Case(
        "raise SystemExit(3)", "{file}: no plugin: asked for 'version', it gave exit status 3"
    ),
    "one that hides how it ends": Case(
        "import os; os._exit(0)", "{file}: no plugin: asked for 'version', it gave other"
    ),
    "it fails": Case("x = 1\n1 / 0", "{file}:2: it can't be loaded: ZeroDivisionError: division by zero"),
    "a package is missing": Case("import nowhere", "{file}:1: it imports nowhere, which is not there; install it"),
    "a package is missing late": Case(
        plugin("authored", invoke="import nowhere.deep"), "{file}:11: it imports nowhere.deep, which is not there"
    ),
    "a missing module by its name": Case(
        plugin("authored", invoke="__import__(''.join('nowhere'))"), "authored invoke: ModuleNotFoundError: No module"
    ),
    "no invoke": Case("from nri import skel\nskel.main(skel.Plugin())", "{file}: no plugin: asked for 'version'"),
    "a type that is a path": Case(plugin("../authored"), "{file}: its type: found '../authored', expected a name"),
    "a schema that is none": Case(
        plugin("authored", more="conf_schema = {'type': 7}"),
        "authored schema: no JSON Schema: at /type: 7 is not valid",
    ),
    "a conf that it does not take": Case(
        plugin("authored", more=LIST_SCHEMA),
        "the conf of authored: conf.cpus: found the number 2",
        ("--conf", '{"cpus": 2}'),
    ),
    "a name that is a path": Case(plugin("authored"), "--name: found '../x', expected a name", ("--name", "../x")),
    "two of one type": Case(plugin("authored"), "its type 'authored' is that of another plugin", ("plugin.py",)),
    "no request": Case(plugin("authored"), "/dev/null: the document is empty", ("--request", "/dev/null")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plugin_is_refused_with_one_sentence(folder: Path, name: str) -> None:
    case = CASES[name]
    file = folder / "plugin.py"
    file.write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    ran = inside("build", "plugin.py", *case.words, cwd=folder, PYTHONPATH=SOURCE)
    assert ran.status == 1
    (line,) = ran.stderr.splitlines()
    shown = "plugin.py" if "SyntaxError" in case.why else str(file)
    assert case.why.format(file=shown) in line
    assert ran.stdout == ""
    assert os.listdir(folder) == ["plugin.py"]


def refusal(*words: str) -> str:
    """What the command says in this process, as it refuses."""
    ran = inside("build", *words)
    assert (ran.status, ran.stdout) == (1, "")
    return ran.stderr


PATHS = {
    "nowhere.py": "can't be read: No such file or directory",
    "/dev/zero": "found a character device, expected a plugin's source file or its folder",
    "fifo.py": "found a FIFO, expected a plugin's source file",
    "empty": "found no module, expected one module that calls skel.main()",
    "others": "found one.py, two.py, expected one module that calls skel.main()",
    "two": "found 2 plugins (a.py, b.py), expected one; name the file",
}


def test_a_path_without_a_plugin_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "fifo.py")
    for each in ("empty", "others", "two"):
        (folder / each).mkdir()
    (folder / "others/one.py").write_text("from nri import skel\n")
    (folder / "others/two.py").write_text("def main(): pass\nmain()\n")
    (folder / "others/test_one.py").write_text("garbage (")
    for each in ("a", "b"):
        (folder / f"two/{each}.py").write_text(plugin(each))
    monkeypatch.chdir(folder)
    for path, why in PATHS.items():
        assert f"{path}: {why}" in refusal(path)
    assert not (folder / "dist").exists()


def test_a_folder_where_nothing_can_be_written_is_named(folder: Path) -> None:
    (folder / "plugin.py").write_text(plugin("authored"))
    ran = build(folder, "plugin.py", "--output", "/proc/nri")
    assert (ran.status, ran.stderr.partition(";")[0]) == (1, "/proc/nri: can't be written: No such file or directory")


def test_a_conf_that_is_no_json_is_a_wrong_command_line(folder: Path) -> None:
    ran = inside("build", "plugin.py", "--conf", "{", cwd=folder)
    assert ran.status == 2
    assert "Invalid value for '--conf': it is not JSON: " in ran.stderr


def test_an_executable_without_python_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    why = "this nri is an executable without a Python to build with: pip install 'nri[binaries]'\n"
    assert refusal("plugin.py") == why


def test_without_pyinstaller_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PyInstaller", None)
    why = f"PyInstaller is not installed for {sys.executable}: pip install 'nri[binaries]'\n"
    assert refusal("plugin.py") == why


def test_without_binutils_it_says_what_to_install(folder: Path) -> None:
    ran = build(folder, "plugin.py", programs=str(folder))
    assert (ran.status, ran.stderr.partition(";")[0]) == (1, "objdump not found, which PyInstaller runs")


def test_what_only_the_executable_lacks_is_found_when_it_is_tried(folder: Path) -> None:
    top = "import sys\nif getattr(sys, 'frozen', False): __import__(''.join(('frac', 'tions')))"
    (folder / "plugin.py").write_text(plugin("authored", top=top))
    ran = build(folder, "plugin.py", "--name", "kept")
    assert ran.status == 1
    why = (
        "authored version: ModuleNotFoundError: No module named 'fractions': the executable lacks it; import it with"
    )
    assert ran.stderr.startswith(why)
    assert os.listdir(folder) == ["plugin.py"]


def test_a_file_beside_the_plugin_that_is_not_packed_is_found_when_it_is_tried(folder: Path) -> None:
    (folder / "table").touch()
    (folder / "plugin.py").write_text(
        plugin("authored", top="import os", invoke="os.stat(os.path.dirname(__file__) + '/table')")
    )
    ran = build(folder, "plugin.py")
    assert ran.status == 1
    why = "authored: its source answers the request, the executable fails: FileNotFoundError: "
    assert ran.stderr.splitlines()[-1].startswith(why)
    assert sorted(os.listdir(folder)) == ["plugin.py", "table"]


def test_a_resident_that_does_not_become_ready_is_refused(folder: Path) -> None:
    top = "import sys\nif 'serve' in sys.argv: sys.exit('no licence')"
    (folder / "plugin.py").write_text(plugin("authored", top=top, more="resident = True"))
    ran = build(folder, "plugin.py")
    assert ran.status == 1
    assert ran.stderr.startswith("authored serve: it ends while it is loaded: no licence; change what it does when")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_build_leaves_no_file_and_no_process(folder: Path, number: signal.Signals) -> None:
    (folder / "plugin.py").write_text(plugin("authored"))
    work = os.path.join("dist", ".nri-build-*", "work", "*")
    command = [sys.executable, "-m", "nri.cli.entry", "build", "plugin.py"]
    building = subprocess.Popen(
        command, cwd=folder, env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]}, stderr=subprocess.PIPE
    )
    with building:
        until(lambda: list(folder.glob(work)), "PyInstaller at work", SOON)
        building.send_signal(number)
        _, stderr = building.communicate(timeout=SOON)
    assert building.returncode != 0
    assert b"Traceback" not in stderr
    assert os.listdir(folder) == ["plugin.py"]
    until(lambda: not [line for _, line in command_lines() if str(folder).encode() in line], "their end", SOON)
