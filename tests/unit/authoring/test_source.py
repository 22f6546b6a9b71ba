"""A plugin's source file: found, asked what it is, with the entry beside it; or one sentence."""

from pathlib import Path

import pytest

from nri.authoring import source
from nri.authoring.new import make, module_name
from nri.authoring.source import SourceError, about, entry_beside, find, is_v2_source
from nri.config import ConfigError
from nri.config.entries import PluginEntry

PLUGIN = """from nri import skel
class P(skel.Plugin):
    type = %r
    def invoke(self, request): pass
skel.main(P())"""


@pytest.mark.parametrize(
    ("path", "files", "why"),
    [
        ("nowhere.py", {}, "nowhere.py: can't be read: No such file or directory"),
        (
            "/dev/zero",
            {},
            "/dev/zero: can't be read: found a character device, expected a regular file",
        ),
        (
            "a.py",
            {"a.py": " " * (source.MAX_FILE + 1)},
            f"a.py: can't be read: found more than {source.MAX_FILE} bytes",
        ),
        (".", {}, "found no module, expected one module that calls skel.main"),
        (
            ".",
            {"a.py": "import nri", "test_a.py": PLUGIN},
            "found a.py, expected one module that calls",
        ),
        (
            ".",
            {"a.py": PLUGIN, "b.py": PLUGIN},
            r"found 2 plugins \(a.py, b.py\), expected one; name the file",
        ),
    ],
)
def test_a_path_without_one_plugin_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, files: dict[str, str], why: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=why):
        find(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(:", r"a.py version: found exit status 1 \(SyntaxError: "),
        (
            "import nowhere",
            r"exit status 1 \(ModuleNotFoundError: No module named 'nowhere', File .*a.py\", line 1, in",
        ),
        (
            "import nri.skel",
            r"a.py version: found no JSON, expected what skel.main\(\) prints: is it called\?",
        ),
        ("print('{}')", "a.py version: found an object, expected what nri.skel answers"),
        (
            PLUGIN.replace("P())", "P)") % "a",
            r"exit status 2 \(a: found the class P, expected an object of it: skel.main\(P\(\)\)\), expected",
        ),
        (PLUGIN % "../a", r"its type: found the string '\.\./a', expected a name such as 'batch'"),
        (
            "import time; time.sleep(60)",
            r"a.py version: killed: no answer within 0.5 s; work belongs into invoke\(\)",
        ),
    ],
)
def test_a_file_that_is_not_a_plugin_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setattr(source, "ANSWER_WITHIN", 0.5 if "sleep" in text else 30)
    (tmp_path / "a.py").write_text(text)
    with pytest.raises(SourceError, match=why):
        about(str(tmp_path / "a.py"))


def test_plugin_of_a_folder_and_its_first_entry_are_found(tmp_path: Path) -> None:
    entry = '{"version": "0.1", "plugins": [{"type": "other"}, {"type": "pinner", "conf": %d}]}'
    for name, text in {
        "pinner.py": PLUGIN % "pinner",
        "helper.py": "import nri",
        "05.conf.sample": entry % 0,
        "06.conf": "server { listen 80; }",
        "10.conf": entry % 1,
        "20.conf": entry % 2,
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "07.conf").mkdir()
    script = find(str(tmp_path))
    pinner = PluginEntry(type=about(script)["type"])
    another = PluginEntry(type="another")
    assert entry_beside(script, pinner).conf == 1
    assert entry_beside(script, another) is another
    (tmp_path / "09.conf").write_text(
        '{"version": "0.1", "plugins": [{"type": "pinner", "cnf": 1}]}'
    )
    with pytest.raises(ConfigError, match="cnf"):
        entry_beside(script, pinner)


@pytest.mark.parametrize("name", ["setup-cpus", "setup", "test", "test-x", "conftest", "class"])
def test_plugin_of_nri_new_is_found_whatever_its_name(tmp_path: Path, name: str) -> None:
    make(name, "bare", str(tmp_path))
    assert Path(find(str(tmp_path / name))).name == f"{module_name(name)}.py"


@pytest.mark.parametrize(
    ("text", "is_v2"),
    [
        ("from nri.v2 import stub", True),
        ("import nri.v2.api as api", True),
        ("if True:\n    from nri import skel, v2", True),
        ("# a daemon of nri.v2 would be another way\nfrom nri import skel", False),
        ("from nri import (\n    errors,\n    v2,\n)", True),
        ("import os, nri.v2", True),
        ("from nri import (\n    errors,\n)\nv2 = 1", False),
        ("from nri import skel\nNAME = 'nri.v2'", False),
    ],
)
def test_plugin_is_for_v2_if_it_imports_that(text: str, is_v2: bool) -> None:
    assert is_v2_source(text.encode()) == is_v2
