"""The pictures of terminals in docs/images show what is printed today."""

from __future__ import annotations

import json
import os
import re
import runpy
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from harness.node import BINARIES, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [
    pytest.mark.skipif(
        not (BINARIES / "v1bridge").exists(), reason="needs dist/nri: make binaries"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="the pictures are root's: others make no device"),
]

MADE = runpy.run_path(str(ROOT / "tools/recordings"))
SAME_EVERYWHERE = ("events", "hooks", "devices", "policy")
"""Chapters whose texts do not depend on the machine."""


def plain(texts: Iterable[str]) -> str:
    """Texts without what differs from run to run: times, processes, folders, and where lines are broken."""
    text = " ".join(" ".join(texts).split())
    for pattern in (
        r"[0-9.]+ m?s( ago)?|started [0-9: -]+|since [0-9: -]+",
        r"/tmp/nri-demo-\w+|pid\"?:? [0-9]+|0\.1\.0 \([0-9-]+\)|0\.1\.0\S*",
        r"hash [0-9a-f]+|sets/1-[0-9a-f]+|conf:1:[0-9]+:|\bready\b|\bstarting\b",
    ):
        text = re.sub(pattern, "...", text)
    return text


def drawn(name: str) -> list[str]:
    """The lines of a picture."""
    texts = ElementTree.parse(ROOT / "docs/images" / name).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(text.itertext()) for text in texts]


def printed(lines: Iterable[Any]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


@pytest.mark.parametrize("chapter", SAME_EVERYWHERE)
def test_demonstration_is_as_recorded(chapter: str) -> None:
    now = plain(printed(line for page in MADE["pages"]([chapter]) for line in page))
    assert "inside: /dev/nri-null cannot" in now or now in plain(drawn("demo.svg")), (
        "run tools/recordings"
    )


@pytest.mark.parametrize("name", ["cpus", "status"])
def test_output_is_as_drawn(name: str) -> None:
    assert plain(printed(MADE[f"of_{name}"]())) == plain(drawn(f"{name}.svg")), (
        "run tools/recordings"
    )


def test_picture_of_the_dashboard_has_its_panels_with_data() -> None:
    text = (ROOT / "docs/images/dashboard.svg").read_text()
    drawn_words = " ".join("".join(each.itertext()) for each in ElementTree.fromstring(text))
    rows = json.loads((ROOT / "deploy/monitoring/nri.dashboard.json").read_text())["panels"]
    titles = [panel["title"] for panel in rows]
    assert [
        title
        for title in titles[: titles.index("Configuration, late creates, log")]
        if title not in drawn_words
    ] == []
    assert ">none<" not in text
    assert text.count("<path ") > 20


def test_pictures_are_small_and_need_no_other_file() -> None:
    for name in ("demo", "cpus", "status", "dashboard"):
        text = (ROOT / f"docs/images/{name}.svg").read_text()
        assert len(text) < 200_000
        assert "href" not in text
        assert "<script" not in text
