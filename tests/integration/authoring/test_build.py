"""nri build: what it makes of three plugins, each with imports of its own, in one folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nri.authoring.new import KINDS
from nri.authoring.packing import elf_files
from nri.client import build_mark
from nri.client.standing import about
from nri.config.entries import PluginEntry
from nri.doctor.trying import try_resident
from tests.integration.authoring.authored import Built, answer
from tests.integration.cli.running import command, inside
from tests.support.host import Host


def test_several_plugins_share_one_folder(built: Built) -> None:
    assert built.ran.stdout == "".join(
        f"built out/pair/{name}\n" for name in ("alpha", "beta", "20-gamma")
    )
    assert os.listdir(built.folder / "out") == ["pair"]
    assert sorted(os.listdir(built.result)) == ["20-gamma", "_internal", "alpha", "beta"]
    assert len(list(built.result.rglob("libpython*"))) == 1


def test_works_moved_in_an_empty_environment_with_late_imports(
    built: Built, tmp_path: Path
) -> None:
    shutil.copytree(built.result, tmp_path / "moved")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/alpha").symlink_to("../moved/alpha")
    assert answer(tmp_path / "bin/alpha")["metadata"] == {"mean": "2", "third": "of a package"}
    said = answer(built.result / "alpha", "version")
    assert (said["type"], said["version"], said["resident"]) == ("alpha", "1.2", 1)
    assert about(str(built.result / "alpha"), "alpha").state == "ready"


@pytest.mark.skipif(
    "_socket" in sys.builtin_module_names, reason="needs a Python whose _socket is a library"
)
def test_executable_that_lacks_a_module_of_residents_is_started(
    built: Built, tmp_path: Path
) -> None:
    shutil.copytree(built.result, tmp_path / "pair")
    (library,) = tmp_path.rglob("_socket.*.so")
    library.unlink()
    assert (
        try_resident(str(tmp_path / "pair/alpha"), "alpha")
        == "a module is missing in the executable: _socket"
    )
    assert answer(tmp_path / "pair/alpha")["plugin"] == "alpha"


def test_an_error_about_the_made_up_container_is_a_note(built: Built) -> None:
    assert "beta: create of a made-up container: ValueError: {'cpus': '2-3'}\n" in built.ran.stderr
    assert "beta: its resident was not tried to the end: it ends after setup\n" in built.ran.stderr


def test_simulate_asks_residents_as_a_bridge_does(built: Built) -> None:
    ran = inside(
        "simulate", "--cgroups", "node", "--conf", '{"cpus": "2-3"}', str(built.result / "alpha")
    )
    assert ran.status == 0
    words = ["simulate", "--cgroups", "node", str(built.result / "beta")]
    shown = subprocess.run(
        [sys.executable, "-m", "nri.cli.entry", *words], capture_output=True, text=True, check=False
    )
    assert "note: beta is started for each request: a request ends its process\n" in shown.stderr


def test_a_v2_plugin_is_started_as_a_runtime_does(built: Built, tmp_path: Path) -> None:
    (tmp_path / "gamma").symlink_to(built.result / "20-gamma")
    words = KINDS["v2"].check.split()[1:-1]
    for executable, options in (
        (built.result / "20-gamma", ["simulate"]),
        (tmp_path / "gamma", words),
    ):
        ran = inside(*options, str(executable), "--json")
        assert [row["output"] for row in ran.json if row["event"] == "RunPodSandbox"] == [["web-0"]]


def test_nri_check_finds_nothing_wrong_with_it(built: Built, host: Host) -> None:
    for name in ("alpha", "beta"):
        (host.bin / name).symlink_to(built.result / name)
    host.configure(PluginEntry(type="alpha"), PluginEntry(type="beta"))
    ran = command(host, "check", "--json")
    assert ran.status == 0
    assert [entry["note"] for entry in ran.json["plugins"]] == ["", ""]


def test_hosts_know_it_by_its_mark_and_ask_what_it_says_of_its_conf(built: Built) -> None:
    for name, module in (("alpha", "__main__"), ("beta", "__main__"), ("20-gamma", "")):
        assert build_mark.read(str(built.result / name))[2] == module
    said = {"type": "alpha", "checks": False, "faults": [], "notes": []}  # it has no conf_class
    assert answer(built.result / "alpha", "check") == said


def test_no_library_is_looked_up_outside_of_the_folder(built: Built) -> None:
    for path in elf_files(str(built.result)):
        text = subprocess.run(
            ["objdump", "-p", path], capture_output=True, text=True, check=True
        ).stdout
        assert re.findall(r"^ +(?:RPATH|RUNPATH) +(?!\$ORIGIN)(\S+)", text, re.MULTILINE) == []
