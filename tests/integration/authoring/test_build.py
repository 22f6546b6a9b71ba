"""nri build: what it makes of two plugins, each with imports of its own, in one folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from nri.authoring.rpaths import elf_files
from nri.client.resident import Residents, about
from nri.config.entries import PluginEntry
from tests.integration.authoring.authored import REQUEST, answer, build, plugin
from tests.integration.cli.running import command
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.authoring.authored import Built
    from tests.support.host import Host


def test_several_plugins_share_one_folder_and_nothing_else_is_left(built: Built) -> None:
    assert os.listdir(built.folder / "out") == ["pair"]
    assert sorted(os.listdir(built.result)) == ["_internal", "alpha", "beta"]
    assert len(list(built.result.rglob("libpython*"))) == 1
    assert not {path.parent.name for path in built.folder.rglob("__pycache__")} - {"packages"}


def test_it_works_in_an_empty_environment_with_all_late_imports(built: Built) -> None:
    expected = {"mean": "2", "third": "of a package", "editable": "of an editable package"}
    assert answer(built.result / "alpha")["metadata"] == expected
    assert answer(built.result / "beta")["error"] == ""


def test_it_can_be_moved(built: Built, tmp_path: Path) -> None:
    shutil.copytree(built.result, tmp_path / "moved")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/alpha").symlink_to("../moved/alpha")
    assert answer(tmp_path / "bin/alpha")["metadata"]["mean"] == "2"


def test_it_says_type_version_and_the_build_that_it_is_from(built: Built) -> None:
    said = answer(built.result / "alpha", "version")
    assert (said["type"], said["version"], said["resident"]) == ("alpha", "1.2", 1)
    assert f"alpha: built with nri {said['build']}\n" in built.ran.stderr


def test_it_is_a_resident_if_it_opts_in(built: Built) -> None:
    assert about(str(built.result / "alpha"), "alpha").state == "ready"
    residents = Residents([str(built.result)])
    try:
        residents.keep([("alpha", True)])
        residents.prepare(SOON)
        assert residents.standing(str(built.result / "alpha")).state == "ready"
        until_ = time.monotonic() + SOON
        output = residents.run(
            residents.find("alpha"), "alpha", REQUEST.encode(), until_, max_output=1 << 20, log=lambda _line: None
        )
        assert b'"mean":"2"' in output.stdout
    finally:
        residents.close()


def test_nri_check_finds_nothing_wrong_with_it(built: Built, host: Host) -> None:
    for name in ("alpha", "beta"):
        (host.bin / name).symlink_to(built.result / name)
    host.configure(PluginEntry(type="alpha"), PluginEntry(type="beta"))
    ran = command(host, "check", "--json")
    assert ran.status == 0
    assert [entry["note"] for entry in ran.json["plugins"]] == ["", ""]


def test_only_what_neither_source_nor_run_needs_is_left_out(built: Built) -> None:
    left_out = dict(re.findall(r"^(\w+): left out: (.*)$", built.ran.stderr, re.MULTILINE))
    for name in ("ssl", "logging", "subprocess", "_hashlib", "nri.client"):
        assert name in left_out["beta"].split(", ")
    assert "statistics" not in left_out["alpha"].split(", ")  # a late import of a module beside it
    assert "statistics" in left_out["beta"].split(", ")
    assert list(built.result.rglob("*ssl*")) == []
    assert "PyInstaller" not in {path.name for path in built.result.rglob("*")}


def test_no_library_is_looked_up_outside_of_the_folder(built: Built) -> None:
    for path in elf_files(str(built.result)):
        text = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
        assert re.findall(r"^ +(?:RPATH|RUNPATH) +(?!\$ORIGIN)(\S+)", text, re.MULTILINE) == []


def test_the_table_has_size_and_start_of_each_and_of_something_to_compare_with(built: Built) -> None:
    header, alpha, beta, *others = built.ran.stdout.splitlines()
    assert header.split("  ")[0] == "EXECUTABLE"
    for line, name in ((alpha, "alpha"), (beta, "beta")):
        assert re.fullmatch(rf"out/pair/{name} +\d+\.\d MB +(unknown|\d+\.\d ms) +\d+\.\d ms", line)
    assert re.match(r"a bare interpreter |/opt/nri/bin/clearcfs ", others[0])


def test_it_says_where_the_result_runs_and_which_file_demands_it(built: Built) -> None:
    *_, needs, runs, _ = built.ran.stdout.splitlines()
    assert re.fullmatch(r"needs glibc \d\.\d+ or later, because of \S+", needs)
    assert runs.startswith("runs on ")


def test_a_second_build_replaces_the_first_and_hints_at_what_is_slow(folder: Path) -> None:
    (folder / "slow.py").write_text(plugin("slow", top="import dataclasses, logging"))
    assert build(folder).status == 0
    before = (folder / "dist/slow").stat().st_ino
    (folder / "slow.py").write_text(plugin("slow", more="version = '2'", top="import dataclasses, logging"))
    ran = build(folder, ".", "--request", "/dev/null")
    assert (ran.status, (folder / "dist/slow").stat().st_ino) == (1, before)
    ran = build(folder)
    assert ran.status == 0
    assert re.search(r"^hint: slow imports at its start: dataclasses \d+\.\d ms, logging \d+\.\d ms;", ran.stderr)
    assert answer(folder / "dist/slow/slow", "version")["version"] == "2"
    assert os.listdir(folder / "dist") == ["slow"]
