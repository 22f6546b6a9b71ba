"""nri build refuses what would be dead with one sentence, and an earlier result stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nri.version import install
from tests.integration.authoring.authored import SOURCE, build, plugin
from tests.integration.cli.running import COMMAND, inside
from tests.support.processes import command_lines
from tests.support.waiting import SOON, until

SCHEMA = 'conf_schema = {"properties": {"cpus": {"type": "string"}}}'


@pytest.mark.parametrize(
    ("text", "words", "status", "why"),
    [
        (
            "import nowhere",
            (),
            1,
            "exit status 1 (ModuleNotFoundError: No module named 'nowhere', File ",
        ),
        (
            plugin("a", more=SCHEMA),
            ("--conf", '{"cpus": 2}'),
            1,
            "the conf of a: conf.cpus: found the number 2",
        ),
        (
            plugin("a", more='conf_schema = "{}"'),
            (),
            1,
            "cannot be checked against the plugin's schema: it is no JSON",
        ),
        (plugin("a"), ("--conf", "{"), 2, "Invalid value for '--conf': it is not JSON: "),
        (
            plugin("a"),
            ("--name", "../x"),
            1,
            "--name: found '../x', expected a name such as 'batch'",
        ),
        (
            plugin("a"),
            ("plugin.py",),
            1,
            "{file}: its type 'a' is that of another plugin of this build",
        ),
        (
            plugin("plugin"),
            ("--output", "."),
            1,
            "plugin exists and is no result of nri build; move it away",
        ),
        (
            plugin("a"),
            ("--output", "/proc/nri"),
            1,
            "/proc/nri: No such file or directory; expected a folder in",
        ),
    ],
)
def test_refused_with_one_sentence(
    folder: Path, text: str, words: tuple[str, ...], status: int, why: str
) -> None:
    (folder / "plugin.py").write_text(text)
    (folder / "plugin").mkdir()
    ran = inside("build", "plugin.py", *words, cwd=folder, PYTHONPATH=SOURCE)
    assert (ran.status, ran.stdout) == (status, "")
    assert why.format(file=folder / "plugin.py") in ran.stderr.splitlines()[-1]
    assert sorted(os.listdir(folder)) == ["plugin", "plugin.py"]


def test_without_pyinstaller_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PyInstaller", None)
    ran = inside("build", "plugin.py")
    why = f"PyInstaller is not installed for {sys.executable}"
    assert (ran.status, ran.stderr) == (1, f"{why}: {install('binaries')}\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (plugin("a"), ""),
        (
            plugin("a", invoke="import nowhere"),
            "a invoke: ModuleNotFoundError: No module named 'nowhere': the executable lacks it; import it with an",
        ),
        (
            plugin("a", top="import os", invoke="os.stat(os.path.dirname(__file__) + '/a.py')"),
            "a: its source answers, the executable does not: FileNotFoundError: ",
        ),
        (
            plugin(
                "a",
                top="import sys\nif 'serve' in sys.argv: sys.exit('no licence')",
                more="resident = True",
            ),
            "a serve: found it ends while it is loaded: no licence, expected a resident that becomes ready; keep",
        ),
        (
            plugin(
                "a",
                more="resident = True; seen = []",
                invoke="self.seen.append(1); result.metadata['n'] = str(self.seen)",
            ),
            'found {"plugin":"a","version":"0.1","error":"","metadata":{"n":"[1, 1]"}} as answer 2 of a resident, to',
        ),
        (
            "from nri.v2 import stub\nstub.run(None)",
            "closed the connection; its last line: ",
        ),
    ],
    ids=["none", "missing module", "missing file", "resident", "state", "v2"],
)
def test_earlier_result_is_replaced_unless_the_trial_fails(
    folder: Path, text: str, why: str
) -> None:
    (folder / "a.py").write_text(text)
    (folder / "dist/a/_internal").mkdir(parents=True)
    (folder / "dist/a/_internal/base_library.zip").touch()
    ran = build(folder, "a.py")
    assert (ran.status, why in ran.stderr) == (int(why != ""), True), ran.stderr
    assert os.listdir(folder / "dist") == ["a"]
    assert sorted(os.listdir(folder / "dist/a")) == (["_internal"] if why else ["_internal", "a"])


def test_an_interrupted_build_leaves_no_file_and_no_process(folder: Path) -> None:
    (folder / "plugin.py").write_text(plugin("authored"))
    environment = {"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        [*COMMAND, "build", "plugin.py"], cwd=folder, env=environment, stderr=subprocess.PIPE
    ) as building:
        works = "dist/.nri-build-*/work"
        until(
            lambda: any(any(each.iterdir()) for each in folder.glob(works)), "PyInstaller at work"
        )
        building.send_signal(signal.SIGTERM)
        _, stderr = building.communicate(timeout=SOON)
    assert (building.returncode, b"Traceback" in stderr) == (128 + signal.SIGTERM, False)
    assert os.listdir(folder / "dist") == []
    until(
        lambda: not [line for _, line in command_lines() if str(folder).encode() in line],
        "their end",
    )
