from __future__ import annotations

import pytest

from nri.cgroups import CpuListError, parse_cpus, render_cpus
from nri.cgroups.cpulist import MAX_CPU, MAX_TEXT

GOOD = {
    "": set(),
    "\n": set(),
    "0\n": {0},
    "5-5": {5},
    "007": {7},
    "8191": {8191},
    "3,1,1-2": {1, 2, 3},
}
GOOD |= {"0-3,8": {0, 1, 2, 3, 8}, " 0-1 , 3\n": {0, 1, 3}}
NO_RANGE = ["-1", "1-", "-", "1--2", ",", "a", "0x1", "1 2", "+1", "1_0", "all", "²", "\0", "٣"]
BAD = {
    **dict.fromkeys(NO_RANGE, "is no CPU and no range"),
    "0,,1": "'' is no CPU and no range",
    "0,": "'' is no CPU and no range",
    "0-9:1/2": "'9:1/2'|'0-9:1/2' is no CPU",
    "3-1": "reversed, '1-3' would be right",
    "8192": "no CPU '8192', the greatest is 8191",
    "0-4294967295": "no CPU '4294967295'",
    "9" * 5000: "the greatest is 8191",
}


def test_list_of_cpus_is_parsed() -> None:
    assert {text: parse_cpus(text) for text in GOOD} == GOOD
    # Each range counts once.
    assert len(parse_cpus(",".join(["0-8191"] * (MAX_TEXT // 7)))) == MAX_CPU + 1


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=range(len(BAD)))
def test_other_text_is_refused_with_a_short_reason(text: str, message: str) -> None:
    with pytest.raises(CpuListError, match=message) as caught:
        parse_cpus(text)
    assert len(str(caught.value)) < 500


def test_a_text_that_is_too_long_is_refused_unread() -> None:
    assert parse_cpus("0" * MAX_TEXT) == {0}
    with pytest.raises(CpuListError, match="too long"):
        parse_cpus("0" * (MAX_TEXT + 1))
    assert len(",".join(map(str, range(MAX_CPU + 1)))) <= MAX_TEXT  # all CPUs of the largest kernel


def test_a_set_is_rendered_canonically() -> None:
    for cpus, text in (
        ([], ""),
        ([8, 0, 1, 2, 3], "0-3,8"),
        ([1, 1, 2], "1-2"),
        ([0, 2, 4], "0,2,4"),
    ):
        assert render_cpus(cpus) == text
    for cpu in (-1, MAX_CPU + 1):
        with pytest.raises(CpuListError, match=f"{cpu} is outside of 0-8191"):
            render_cpus([0, cpu])
