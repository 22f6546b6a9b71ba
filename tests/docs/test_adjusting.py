"""The table of docs/adjusting.md is that of the code."""

import re
from pathlib import Path

from nri.adjust.fields import FIELDS, NEVER, Version

PAGE = (Path(__file__).parent.parent.parent / "docs/adjusting.md").read_text()


def shown(version: Version | None) -> str:
    return "never" if version in (None, NEVER) else ".".join(map(str, version))


def test_the_table_has_each_field_and_the_versions_that_apply_it() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| ([\d.]+|never) \| ([\d.]+|never) \|$", PAGE, re.MULTILINE)
    assert rows == [(field.name, shown(field.nri), shown(field.oci)) for field in FIELDS]
