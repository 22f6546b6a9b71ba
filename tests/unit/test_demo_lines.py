"""The demonstrations fit 80 columns with any names."""

import pytest

from demo import lines

LONG = "x" * 200
WIDTH = 80


@pytest.mark.parametrize(
    "shown",
    [
        lines.described("pods", LONG, "a " * 100),
        lines.plugin("clearcfs", {"classes": [LONG, LONG], LONG: 1}, f"conf/resource.d/{LONG}.conf"),
        lines.event("PostUpdateContainer", "batch", 12345.6, f"the process exists, and waits for {LONG}"),
        lines.run("create", "device-injector", 12345.6, {LONG: 1, "cleared": f"/sys/fs/cgroup/{LONG}"}),
    ],
)
def test_a_line_has_at_most_80_columns(shown: list[str]) -> None:
    assert max(map(len, shown)) <= WIDTH
    assert "".join("".join(shown).split()).count("x") >= 200


def test_short_lines_are_aligned() -> None:
    assert lines.event("StartContainer", "web", 4.9, "") == ["StartContainer       web      4.9 ms"]
    assert lines.run("create", "konfine", 1.4, {"cpus": "1"}) == ["    create  konfine      1.4 ms   cpus=1"]
    assert lines.run("delete", "konfine", 1.4, {}) == ["    delete  konfine      1.4 ms   nothing to do"]
