"""On which distributions a version of glibc is there: the first release that has it, the last that does not."""

from __future__ import annotations

import pytest

from nri.authoring.distributions import RELEASES, distributions, number


@pytest.mark.parametrize("name", RELEASES)
def test_the_releases_are_in_the_order_of_their_glibc(name: str) -> None:
    versions = [number(version) for version in RELEASES[name].values()]
    assert versions == sorted(versions)
    assert len(set(versions)) == len(versions)


CASES = {
    "2.17": ({"Debian 10", "Ubuntu 18.04", "RHEL 8", "Amazon Linux 2", "SLES 15 SP2"}, set()),
    "2.34": (
        {"Debian 12", "Ubuntu 22.04", "RHEL 9", "Amazon Linux 2023", "SLES 15 SP6"},
        {"Debian 11 (2.31)", "Ubuntu 20.04 (2.31)", "RHEL 8 (2.28)", "Amazon Linux 2 (2.26)", "SLES 15 SP3 (2.31)"},
    ),
    "2.41": (
        {"Debian 13"},
        {
            "Debian 12 (2.36)",
            "Ubuntu 24.04 (2.39)",
            "RHEL 10 (2.39)",
            "Amazon Linux 2023 (2.34)",
            "SLES 15 SP6 (2.38)",
        },
    ),
}


@pytest.mark.parametrize("version", CASES)
def test_first_and_last_releases(version: str) -> None:
    runs, does_not = distributions(version)
    assert (set(runs), set(does_not)) == CASES[version]


def test_versions_are_compared_as_numbers() -> None:
    assert number("2.9") < number("2.31")
    assert distributions("2.9", ("Debian",)) == (["Debian 10"], [])
