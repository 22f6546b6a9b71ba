"""`nri doctor` as a command: the page, JSON, the exit status. tests/unit/doctor has the states of a node."""

from __future__ import annotations

import pytest

from nri.cli import doctor
from nri.doctor.node import FAULT, NOTE, OK, Findings
from tests.integration.cli.running import inside, process


def found(*levels: str) -> Findings:
    findings = Findings()
    findings.subject = "bridge"
    for level in levels:
        findings.add(
            level,
            f"code-{level}",
            f"{level} \x1b[31m{'x' * 200}",
            "fix it" if level == FAULT else "",
        )
    return findings


@pytest.mark.parametrize(("levels", "status"), [((OK, NOTE), 0), ((OK, FAULT), 1)])
def test_page_json_and_status_agree(
    monkeypatch: pytest.MonkeyPatch, levels: tuple[str, ...], status: int
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: found(*levels))
    page = inside("doctor")
    assert (page.status, page.stderr) == (status, "")
    assert ("1 fault" if status else "nothing is wrong") in page.stdout
    assert ("-> fix it" in page.stdout) == bool(status)
    assert "\x1b" not in page.stdout
    assert max(map(len, page.stdout.splitlines())) <= 80
    document = inside("doctor", "--json")
    assert (document.status, document.json["ok"]) == (status, not status)
    assert [finding["level"] for finding in document.json["findings"]] == list(levels)
    assert set(document.json["findings"][0]) == {"subject", "level", "code", "text", "fix"}


def test_any_machine_can_be_examined() -> None:
    ran = process("doctor", "--json")
    assert ran.status in (0, 1)
    codes = {finding["code"] for finding in ran.json["findings"]}
    assert "kernel" in codes
    assert "failed" not in codes
