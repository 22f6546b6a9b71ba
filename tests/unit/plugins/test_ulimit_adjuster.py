"""ulimit-adjuster: the limits that pods get by annotation, and what is refused."""

from typing import Any

from nri.plugins.ulimit_adjuster import LIMITS, UlimitAdjuster
from tests.unit.plugins.asking import error, run

PLUGIN = UlimitAdjuster()
OPEN = {"allow": {"ulimits": ["shop"]}}
KEY, OLD = "ulimits.noderesource.dev/container.web", "ulimits.nri.containerd.io/container.web"


def limits(value: str, key: str = KEY) -> Any:
    result = run(PLUGIN, {key: value}, OPEN)
    assert (result.error, result.pod_asked) == ("", result.adjust is not None)
    found = None if result.adjust is None else result.adjust["rlimits"]
    return found and {each["type"]: (each["soft"], each["hard"]) for each in found}


def test_limits_of_an_annotation() -> None:
    for key in (KEY, OLD):
        value = "- type: memlock\n  hard: 987654\n  soft: 645321\n- type: RLIMIT_NOFILE\n  hard: 4096\n  soft: 1024\n"
        assert limits(value, key) == {
            "RLIMIT_MEMLOCK": (645321, 987654),
            "RLIMIT_NOFILE": (1024, 4096),
        }


def test_all_limits_of_the_kernel_are_known_in_any_spelling() -> None:
    for name in LIMITS:
        for spelling in (
            name,
            name.lower(),
            name.title(),
            f"RLIMIT_{name}",
            f"rlimit_{name.lower()}",
        ):
            assert limits(f"- type: {spelling}\n  hard: 18446744073709551615") == {
                f"RLIMIT_{name}": (0, 2**64 - 1)
            }
    assert limits("- TYPE: core") == {"RLIMIT_CORE": (0, 0)}  # as in NRI's plugin


def test_the_new_key_counts_and_only_for_a_container() -> None:
    said = {KEY: "- type: core", OLD: "- type: cpu"}
    assert run(PLUGIN, said, OPEN).metadata == {"ulimits": "RLIMIT_CORE=0:0"}
    for key in (
        "ulimits.noderesource.dev",
        "ulimits.noderesource.dev/pod",
        "ulimits.noderesource.dev/container.other",
    ):
        assert limits("- type: core", key) is None
    assert limits("") is None
    assert limits("[]") is None


def test_pod_that_is_not_allowed_gets_no_limits() -> None:
    result = run(PLUGIN, {KEY: "]["})
    assert (result.error, result.adjust) == ("", None)
    assert result.metadata == {"ignored": f"{KEY}: allow.ulimits is for no pod"}


def test_bad_annotation_is_refused_with_its_place() -> None:
    wrong_type = "[0].type: found the string "
    for value, message in (
        (
            "- type: ULIMIT_NOFILE",
            f"{wrong_type}'ULIMIT_NOFILE', expected the name of a resource limit",
        ),
        ("- type: RLIMIT_RLIMIT_CPU", wrong_type),
        ("- type: \u017ftack", wrong_type),
        ("- hard: 1", "[0].type: missing, expected"),
        (
            "- {type: cpu, hard: 1, soft: 2}",
            "[0].soft: found 2, expected at most the hard limit, 1",
        ),
        ("- {type: cpu, hard: -1}", "[0].hard: found the number -1, expected an integer from 0"),
        (
            "- {type: cpu, hard: unlimited}",
            "[0].hard: found the string 'unlimited', expected an integer",
        ),
        (f"- {{type: cpu, hard: {2**64}}}", f"[0].hard: found the number {2**64}, expected"),
        (
            "- {type: cpu}\n- {type: RLIMIT_CPU}",
            "[1].type: found 'RLIMIT_CPU' again, expected it once",
        ),
        ("- {type: cpu, max: 1}", "[0].max: unknown key, expected one of type, hard, soft"),
        ("type: cpu", ": found an object, expected an array"),
        ("x" * 70_000, ": found 70000 characters, expected at most 65536"),
    ):
        assert error(PLUGIN, {KEY: value}, OPEN).startswith(KEY + message)
