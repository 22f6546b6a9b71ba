"""The tables of docs/adjusting.md are those of the code."""

import re
from pathlib import Path

from nri.adjust.fields import FIELDS, NEVER
from nri.api.runtimes import RELEASES

PAGE = (Path(__file__).parent.parent.parent / "docs/adjusting.md").read_text()


def shown(version: tuple[int, ...] | None) -> str:
    return "never" if version in (None, NEVER) else ".".join(map(str, version))


def test_the_table_has_each_field_and_the_versions_that_apply_it() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| ([\d.]+|never) \| ([\d.]+|never) \|$", PAGE, re.MULTILINE)
    assert rows == [(field.name, shown(field.nri), shown(field.oci)) for field in FIELDS]


def test_the_table_of_releases_has_the_nri_of_each() -> None:
    rows = re.findall(r"^\| (containerd|cri-o) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    releases = [(name, first, nri) for name, listed in RELEASES.items() for first, nri in listed]
    assert rows == [(name, shown(first), shown(nri)) for name, first, nri in releases]
