"""docs/cgroups.md has the knobs of the table and the files of statistics, as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

from nri.cgroups import hugetlb, keyed
from nri.cgroups.knob_row import Knob
from nri.cgroups.knob_table import TABLE, find
from nri.cgroups.unit_properties import PROPERTIES

TEXT = (Path(__file__).parent.parent.parent / "docs/cgroups.md").read_text()


def table(header: str) -> list[str]:
    (body,) = re.findall(rf"^{re.escape(header)}\n\|[ |-]+\n((?:\|.*\n)*)", TEXT, re.MULTILINE)
    return list(body.splitlines())


def row(knob: Knob, name: str) -> str:
    v1 = ", ".join(f"`{file}`" for file in knob.forms[1].files()) if 1 in knob.forms else "none"
    properties = [f"{PROPERTIES[version][name]} (v{version})" for version in (2, 1) if name in PROPERTIES[version]]
    if len({each.partition(" ")[0] for each in properties}) == 1 and len(properties) == 2:
        properties = [properties[0].partition(" ")[0]]
    kind = knob.kind.expected if knob.can_be_written else f"only read: {knob.kind.expected.partition(' from ')[0]}"
    source = knob.source if not knob.source.startswith("https") else f"[Alibaba]({knob.source})"
    cells = [f"`{name}`", kind, v1.replace("2MB", "SIZE"), ", ".join(properties) or "none", knob.level]
    return f"| {' | '.join([*cells, knob.needs.replace('2MB', 'SIZE'), source])} |"


def test_the_page_has_the_knobs_as_the_code_has_them() -> None:
    expected = [row(knob, name) for name, knob in TABLE.items()]
    expected += [row(find(name.replace("SIZE", "2MB")), name) for name in hugetlb.NAMES]
    assert table("| name | value | files of v1 | property of a unit | crun's child | needs | source |") == expected


def test_the_page_has_the_statistics_as_the_code_has_them() -> None:
    expected = [
        f"| `{name}` | {' | '.join(f'`{files[version]}`' if version in files else 'none' for version in (2, 1))} |"
        for name, files in keyed.FILES.items()
    ]
    assert table("| name | file of v2 | file of v1 |") == expected
