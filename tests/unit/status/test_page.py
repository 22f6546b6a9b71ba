"""The pages for people: what they say, in 80 columns, and nothing that a terminal would act on."""

from __future__ import annotations

from typing import Any

import pytest

from nri.cli.output import WIDTH, duration, number, quantile, table
from nri.cli.status import MAX_FAULTS, page, pod_page
from nri.errors import escape
from tests.support import status_documents as documents

EVIL = "a\x1b[2J\r\n\u202e\udcff\tb"


def lines_of(document: dict[str, Any]) -> list[str]:
    lines = page(document)
    fits(lines)
    return lines


def fits(lines: list[str]) -> None:
    for line in lines:
        assert len(line) <= WIDTH, line
        assert line.isprintable(), line
        assert line == line.rstrip()


def test_the_page_of_one_that_is_not_begins_with_the_reasons() -> None:
    lines = lines_of(documents.degraded())
    assert lines[:7] == [
        "degraded",
        "- the configuration is not valid, the last valid one is in use:",
        "  /etc/nri/resource.d/10-clearcfs.conf:4:7: plugins[0].type: missing",
        "- clearcfs: create has failed since 2025-11-22 08:55:00 UTC, last of",
        "  default/web/app: /sys/fs/cgroup/kubepods/cpu.max: Permission denied",
        "- absent: not found in /opt/nri/bin",
        "- pods and containers without clearcfs: 1",
    ]
    assert "note: konfine is started for each request: it holds a thread" in lines
    at = lines.index("last errors and refusals")
    assert (
        lines[at + 1]
        == "- 2025-11-22 08:59:50 UTC konfine: create of default/db/db refused, 6 times:"
    )
    assert "configuration  NOT VALID since 2025-11-22 08:50:00 UTC (10 min ago)" in lines
    assert "absent         off    0      0        0        0        -        -" in lines
    assert lines_of(documents.healthy())[:2] == [
        "well: connected to containerd v2.1.9, 2 plugins",
        "",
    ]


def test_a_bridge_that_looks_for_its_runtime() -> None:
    assert "runtime        none yet: the bridge looks for one" in lines_of(documents.connecting())
    again = documents.healthy()
    again["bridge"]["state"] = "connecting"
    again["runtime"]["connections"] = 3
    lines = lines_of(again)
    assert "               NOT CONNECTED; the last time since 2025-11-22 08:00:02 UTC (59" in lines
    assert "               3 connections since the bridge started" in lines


def test_a_refused_set_is_on_the_page_beside_what_is_in_use() -> None:
    value = documents.healthy()
    refused = {
        "source": "/etc/nri/sets/new",
        "since": 1763798400.0,
        "faults": ["10-a.conf:1:1: no"],
    }
    value["configuration"] |= {"files": [], "refused": refused}
    lines = lines_of(value)
    at = lines.index("               use: /etc/nri/sets/new")
    assert "REFUSED since 2025-11-22 08:00:00 UTC" in lines[at - 1]
    assert lines[at + 1] == "               - 10-a.conf:1:1: no"
    assert "               no files" in lines


def test_many_faults_and_files_are_counted() -> None:
    value = documents.degraded()
    value["configuration"] |= {
        "faults": [f"f{i}" for i in range(99)],
        "files": [f"/{i}.conf" for i in range(99)],
    }
    lines = lines_of(value)
    assert f"               - and {99 - MAX_FAULTS} more: nri check" in lines
    assert "               and 94 more files" in lines


def with_text_everywhere(value: Any, text: str) -> Any:
    """The document with this text for every string, but for the words that select something."""
    if isinstance(value, dict):
        return {
            key: each if key in ("state", "last") else with_text_everywhere(each, text)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [with_text_everywhere(each, text) for each in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("text", [EVIL, EVIL * 50, "x" * 500, "long " * 100, "", "-"], ids=range(6))
def test_no_text_breaks_a_page(text: str) -> None:
    for document in (documents.healthy(), documents.degraded()):
        shown = "".join("".join(lines_of(with_text_everywhere(document, text))).split())
        assert escape(text).replace(" ", "") in shown
    fits(pod_page(with_text_everywhere(documents.pod(documents.container()), text)))


@pytest.mark.parametrize(
    ("state", "shown"), [("\ud800", r"\ud800"), ("\x1b[2J", r"\x1b[2J"), ("\n" * 3000, r"\n" * 6)]
)
def test_a_state_of_a_resident_that_is_not_known_fits_its_column(state: str, shown: str) -> None:
    plugin = documents.plugin("clearcfs", resident={"state": state, "reason": None})
    (row,) = [
        line
        for line in lines_of(documents.healthy(plugins=[plugin]))
        if line.startswith("clearcfs ")
    ]
    assert row.split()[1] == shown


def test_a_text_of_megabytes_is_cut() -> None:
    text = "\x1b" * 3_000_000
    lines = lines_of(with_text_everywhere(documents.degraded(), text))
    lines += pod_page(with_text_everywhere(documents.pod(documents.container()), text))
    assert sum(len(line) for line in lines) < 1_000_000
    assert "(3000000 characters)" in " ".join(" ".join(lines).split())


def test_a_name_that_is_too_long_for_its_column_has_a_line_of_its_own() -> None:
    lines = table(("NAME", "COUNT"), [["x" * 100, "1"], ["y", "2"]])
    assert lines == ["NAME  COUNT", "x" * 80, "  " + "x" * 20, "          1", "y         2"]


@pytest.mark.parametrize(
    ("counts", "share", "shown"),
    [
        ([0, 0, 0], 0.5, "-"),
        ([1, 1, 0], 0.5, "<= 1 ms"),
        ([1, 2, 0], 0.5, "<= 2.5 s"),
        ([98, 1, 1], 0.99, "<= 2.5 s"),
        ([0, 0, 1], 0.5, "> 2.5 s"),
    ],
)
def test_a_quantile_is_the_bound_that_it_does_not_exceed(
    counts: list[int], share: float, shown: str
) -> None:
    assert quantile({"bounds": [0.001, 2.5], "counts": counts, "sum": 0.0}, share) == shown
    assert quantile({"bounds": [], "counts": [sum(counts)], "sum": 0.0}, share) == "-"


def test_counts_have_at_most_seven_characters_and_durations_their_largest_unit() -> None:
    assert [number(count) for count in (0, 9_999_999, 10_000_000, 2**62)] == [
        "0",
        "9999999",
        "1.0e+07",
        "4.6e+18",
    ]
    seconds = (0.4, 119, 120, 7200, 172800)
    assert [duration(each) for each in seconds] == ["0 s", "119 s", "2 min", "2 h", "2 d"]


def test_the_page_of_a_pod() -> None:
    lines = pod_page(
        documents.pod(
            documents.container(None, plugins=[], due=[], without=[]), documents.container()
        )
    )
    fits(lines)
    assert lines == [
        "default/web: done",
        "  id 0123456789ab",
        "default/web/app: done",
        "  id 0123456789ab",
        "  clearcfs: create",
        '    result {"plugin":"clearcfs","version":"0.1","metadata":{"class":"ls","quota"',
        '      :"cleared"}}',
        "  konfine: create, update, its create has failed",
        "  konfine: create is due",
        "  without konfine since 2025-11-22 08:59:00 UTC: create: no CPU",
    ]
    assert pod_page(documents.pod()) == ["default/web: nothing is known of it"]
