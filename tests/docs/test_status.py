"""docs/status.md: the pages that it shows are those of the documents that it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nri.status.judging import THRESHOLDS, judge
from nri.status.page import page
from nri.status.pod_page import pod_page

TEXT = (Path(__file__).parent.parent.parent / "docs/status.md").read_text()


def shown(name: str) -> str:
    (text,) = re.findall(rf"^```text {name}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return str(text)


def document(key: str) -> dict[str, Any]:
    values = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)]
    (value,) = [value for value in values if key in value]
    return dict(value)


def test_the_page_is_that_of_the_status() -> None:
    status = document("bridge")
    assert shown("status-page").splitlines() == page(status, judge(status))


def test_the_exchanges_are_those_of_the_answer() -> None:
    assert shown("pod-page").splitlines() == pod_page(document("exchanges"))


@pytest.mark.parametrize("name", THRESHOLDS)
def test_every_threshold_has_a_row(name: str) -> None:
    assert f"| `--{name.replace('_', '-')} {THRESHOLDS[name][0]}` |" in TEXT
