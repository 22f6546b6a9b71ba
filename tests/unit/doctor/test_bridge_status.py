"""What the doctor says of the bridge's own status, and of a bridge that does not answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.doctor import FAULT, NOTE, UNSEEN, Node, NodeFinding, bridge_status
from nri.doctor.bridges import Bridges
from nri.doctor.engines import Engine
from nri.doctor.node import Process
from nri.doctor.settings import Settings
from nri.v1bridge import BridgeOptions
from tests.support import status_documents as documents
from tests.support.status_server import serving

CONTAINERD = Settings(Engine("containerd", "", (2, 1, 9), Process(1, ["containerd"], "", True)), "", True)
NRI = Process(812, ["/opt/nri/lib/nri", "bridge"], "", True)


def bridges(folder: Path, *launched: str, outside: bool = False, enabled: bool = False) -> Bridges:
    options = BridgeOptions(record_file=str(folder / "v1bridge.record"))
    return Bridges(list(launched), [NRI] if outside else [], enabled, options)


def look(of: Bridges) -> list[NodeFinding]:
    return bridge_status.look(Node(), of, [CONTAINERD])[1]


def asked(folder: Path, answer: Any) -> list[NodeFinding]:
    folder.chmod(0o700)
    with serving(folder / "v1bridge.sock", answer):
        return look(bridges(folder))


def of_level(findings: list[NodeFinding], level: str) -> list[str]:
    return [finding.code for finding in findings if finding.level == level]


def test_a_bridge_that_is_well_is_described(tmp_path: Path) -> None:
    findings = asked(tmp_path, documents.healthy())
    assert {finding.level for finding in findings} == {"ok"}
    assert findings[0].text == (
        "v1bridge 0.9.0 (commit 3f2c1ab), process 812, connected to containerd v2.1.9, NRI 0.8"
    )


def test_each_fault_of_a_bridge_is_one_without_the_texts_of_plugins(tmp_path: Path) -> None:
    document = documents.degraded()
    document["plugins"][0]["lastError"]["error"] = "hunter2"
    findings = asked(tmp_path, document)
    assert of_level(findings, FAULT) == ["configuration", "plugin-fails", "plugin-missing"]
    assert of_level(findings, NOTE) == ["not-resident", "late", "lost"]
    assert "hunter2" not in repr(findings)


def test_a_bridge_that_looks_for_its_runtime_is_a_fault(tmp_path: Path) -> None:
    assert of_level(asked(tmp_path, documents.connecting()), FAULT) == ["not-connected"]


@pytest.mark.parametrize("answer", [b"", b"hunter2", b'{"protocol": 9}', b'{"protocol": 1}', b"[" * 100_000])
def test_an_answer_that_cannot_be_used_is_unseen(tmp_path: Path, answer: bytes) -> None:
    findings = asked(tmp_path, answer)
    assert of_level(findings, UNSEEN) == ["not-answering"]
    assert of_level(findings, FAULT) == []


@pytest.mark.parametrize(
    ("launched", "outside", "enabled", "code", "mend"),
    [
        (["/opt/nri/plugins/10-v1bridge"], False, False, "not-running", "systemctl restart containerd"),
        ([], True, False, "not-connected", "journalctl -u nri-v1bridge.service says why"),
        ([], False, True, "not-running", "systemctl start nri-v1bridge.service"),
    ],
)
def test_a_bridge_that_should_run_and_does_not_is_a_fault(
    tmp_path: Path, launched: list[str], outside: bool, enabled: bool, code: str, mend: str
) -> None:
    (finding,) = look(bridges(tmp_path, *launched, outside=outside, enabled=enabled))
    assert (finding.level, finding.code, finding.mend) == (FAULT, code, mend)


def test_no_bridge_where_none_should_be_is_right(tmp_path: Path) -> None:
    (finding,) = look(bridges(tmp_path))
    assert finding == NodeFinding("status of the bridge", "ok", "none", "no bridge runs")


def test_the_file_that_a_bridge_logs_to_is_found(tmp_path: Path) -> None:
    document = documents.healthy(log={"to": "/var/log/x.log", "lost": 0})
    tmp_path.chmod(0o700)
    with serving(tmp_path / "v1bridge.sock", json.dumps(document).encode()):
        assert bridge_status.look(Node(), bridges(tmp_path), [])[0] == "/var/log/x.log"
