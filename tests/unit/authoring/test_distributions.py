"""The distributions that have a version of glibc, and the marks of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri import build_mark
from nri.authoring.distributions import RELEASES, distributions, number
from nri.authoring.marking import mark_build

if TYPE_CHECKING:
    from pathlib import Path


def test_releases_are_in_the_order_of_their_glibc() -> None:
    for releases in RELEASES.values():
        versions = [number(version) for version in releases.values()]
        assert versions == sorted(set(versions))
    assert number("2.9") < number("2.31")


CASES = {
    "2.17": ({"Debian 10", "Ubuntu 18.04", "RHEL 8", "Amazon Linux 2", "SLES 15 SP2"}, set()),
    "2.34": (
        {"Debian 12", "Ubuntu 22.04", "RHEL 9", "Amazon Linux 2023", "SLES 15 SP6"},
        {"Debian 11 (2.31)", "Ubuntu 20.04 (2.31)", "RHEL 8 (2.28)", "Amazon Linux 2 (2.26)", "SLES 15 SP3 (2.31)"},
    ),
    "2.41": (
        {"Debian 13"},
        {
            *("Debian 12 (2.36)", "Ubuntu 24.04 (2.39)", "RHEL 10 (2.39)", "Amazon Linux 2023 (2.34)"),
            "SLES 15 SP6 (2.38)",
        },
    ),
}


def test_first_release_with_a_glibc_and_last_without() -> None:
    for version, expected in CASES.items():
        runs, does_not = distributions(version)
        assert (set(runs), set(does_not)) == expected
    assert distributions("2.9", ("Debian",)) == (["Debian 10"], [])


def marks(folder: Path, **programs: bytes) -> dict[str, tuple[str, str]]:
    folder.mkdir()
    for name, program in programs.items():
        (folder / name).write_bytes(program)
    mark_build(str(folder), {"a": "nri.a", "b": "nri.b"})
    assert all((folder / name).read_bytes().startswith(program) for name, program in programs.items())
    return {name: build_mark.decode((folder / name).read_bytes()[-build_mark.SIZE :]) for name in programs}


def test_executables_of_a_build_share_its_mark_and_other_builds_differ(tmp_path: Path) -> None:
    first = marks(tmp_path / "x", a=b"1", b=b"2")
    assert first["a"][0] == first["b"][0] != ""
    assert (first["a"][1], first["b"][1]) == ("nri.a", "nri.b")
    assert marks(tmp_path / "y", a=b"1", b=b"2") == first
    assert marks(tmp_path / "z", a=b"1", b=b"3")["a"] != first["a"]
    assert marks(tmp_path / "swapped", a=b"2", b=b"1")["a"] != first["a"]
