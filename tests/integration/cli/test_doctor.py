"""`nri doctor` as a command: the page, JSON, the exit status, and that it runs nothing of another root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.running import inside, process
from tests.support.scratch_node import CONFIG, MAINTAINED, NRI, ScratchNode


@pytest.fixture
def node(tmp_path: Path) -> ScratchNode:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    return ScratchNode(root)


def test_a_node_that_is_well_has_exit_status_0(node: ScratchNode) -> None:
    ran = process("doctor", "--root", str(node.well().root))
    assert (ran.status, ran.stderr) == (0, "")
    assert "\nnothing is wrong\n" in ran.stdout
    assert "FAULT" not in ran.stdout


def test_a_fault_has_exit_status_1_a_line_for_people_and_a_code_for_programs(node: ScratchNode) -> None:
    node.well().write(CONFIG, MAINTAINED.replace("false", "true"))
    ran = inside("doctor", "--root", str(node.root))
    assert (ran.status, ran.stderr) == (1, "")
    assert "\n1 thing is wrong\n" in ran.stdout
    shown = " ".join(ran.stdout.split())
    assert "FAULT containerd: NRI is off, so the bridge can't serve it" in shown
    assert f"-> set disable = false in {NRI} of {CONFIG}, then systemctl restart containerd" in shown
    ran = inside("doctor", "--root", str(node.root), "--json")
    assert (ran.status, ran.stderr) == (1, "")
    assert (ran.json["ok"], ran.json["root"]) == (False, str(node.root))
    assert [finding["code"] for finding in ran.json["findings"] if finding["level"] == "fault"] == ["nri-off"]
    assert all(set(finding) == {"subject", "level", "code", "text", "mend"} for finding in ran.json["findings"])


def test_the_page_has_80_columns_with_any_name(node: ScratchNode) -> None:
    name = "x" * 120
    node.well().plugins(f"{name[:60]}", path=f"/etc/nri/resource.d/{name}.conf")
    node.write(f"/opt/nri/plugins/{name}", "", 0o755)
    node.write("/var/log/syslog", f"Nov 22 node1 nri-v1bridge: error failed pod={name * 3} plugin={name}\n")
    ran = inside("doctor", "--root", str(node.root))
    assert ran.status == 1
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert name[:20] in ran.stdout


def test_control_characters_of_a_node_do_not_reach_the_terminal(node: ScratchNode) -> None:
    node.well().write("/etc/os-release", "PRETTY_NAME=\x1b[31mred\x07\n")
    node.write("/opt/nri/plugins/\x1b[31mred", "", 0o755)
    node.write("/var/log/syslog", "Nov 22 node1 nri-v1bridge: \x1b]0;title\x07\n")
    ran = inside("doctor", "--root", str(node.root))
    assert "\x1b" not in ran.stdout
    assert "\x07" not in ran.stdout


def test_programs_of_another_root_are_not_run(node: ScratchNode, tmp_path: Path) -> None:
    node.well()
    for program in ("/usr/bin/containerd", "/usr/bin/journalctl", "/opt/nri/bin/clearcfs"):
        node.write(program, f"#!/bin/sh\ntouch '{tmp_path}/ran'\n", 0o755)
    assert inside("doctor", "--root", str(node.root)).status == 0
    assert not (tmp_path / "ran").exists()


def test_any_machine_can_be_examined() -> None:
    ran = inside("doctor", "--json")
    assert ran.status in (0, 1)
    codes = {finding["code"] for finding in ran.json["findings"]}
    assert "kernel" in codes
    assert not codes & {"failed", "hangs"}
