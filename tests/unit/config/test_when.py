"""Conditions: which parts hold for which facts, what is not known, and what a person is told of them."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.config import PluginEntry
from nri.config.when import Condition, Facts, matches
from nri.doctor.checking import notes_on_condition
from nri.types import DecodeError

POD: dict[str, Any] = {
    "namespace": "shop",
    "labels": {"app": "web", "empty": ""},
    "annotations": {"team": "a*b", "qos.class": "ls"},
    "is_sandbox": False,
    "runtime_handler": "",
}
SANDBOX = {"is_sandbox": True}
NOTHING_KNOWN: dict[str, Any] = dict.fromkeys(POD)

CASES: list[tuple[dict[str, Any], dict[str, Any], bool, str]] = [
    # the condition, how the facts differ from those above, the verdict, the reason
    ({"namespaces": ["a", "sh*"]}, {}, True, ""),
    ({"namespaces": ["kube-system"]}, {}, False, 'namespace "shop", expected kube-system'),
    ({"namespaces": ["kube-*", "a"]}, {}, False, 'namespace "shop", expected one of kube-*, a'),
    ({"namespaces": ["*"]}, {"namespace": None}, True, "namespace not known"),
    ({"namespaces": ["*"], "unknown": "run"}, {"namespace": None}, True, ""),
    ({"namespaces": ["*"], "unknown": "skip"}, {"namespace": None}, False, "namespace not known"),
    ({"namespaces": ["*"], "unknown": "skip"}, {}, True, ""),
    ({"sandbox": True}, {}, False, "a container, expected a sandbox"),
    ({"sandbox": True}, SANDBOX, True, ""),
    ({"sandbox": False}, SANDBOX, False, "a sandbox, expected a container"),
    ({"sandbox": True}, {"is_sandbox": None}, True, "not known if it is a sandbox"),
    ({"sandbox": "both"}, {"is_sandbox": None}, True, ""),
    ({"runtimeHandler": [""]}, {}, True, ""),
    ({"runtimeHandler": ["kata*", ""]}, {"runtime_handler": "runc"}, False, '"runc", expected one of kata*, ""'),
    ({"runtimeHandler": ["kata*"]}, {"runtime_handler": None}, True, "runtime handler not known"),
    ({"labels": {"app": {"equals": ["db", "web"]}}}, {}, True, ""),
    ({"labels": {"app": {"equals": "db"}}}, {}, False, 'label "app": found "web", expected db'),
    ({"labels": {"none": {"equals": ""}}}, {}, False, 'label "none": missing, expected ""'),
    ({"labels": {"empty": {"equals": ""}}}, {}, True, ""),
    ({"labels": {"none": {"present": False}}}, {}, True, ""),
    ({"labels": {"app": {"equals": "db"}}}, {"labels": None}, True, 'label "app" not known'),
    ({"labels": {"app": {"equals": "web"}, "b": {"present": True}}}, {}, False, 'label "b": missing, expected it'),
    ({"labels": {"app": {"present": False}}}, {}, False, 'label "app": found "web", expected none'),
    ({"annotations": {"team": {"equals": "a*b"}}}, {"annotations": {"team": "axb"}}, False, '"axb", expected a*b'),
    ({"annotations": {"team": {"pattern": "*x*"}}}, {}, False, 'annotation "team": found "a*b", expected *x*'),
    ({"annotations": {"team": {"pattern": "*a*a*"}}}, {}, False, 'annotation "team": found "a*b", expected *a*a*'),
    ({"annotations": {"team": {"pattern": ["x*", "a*"], "present": True}}}, {}, True, ""),
    ({"annotations": {"none": {"pattern": "*", "present": False}}}, {}, False, "missing, expected * and none"),
    ({"annotations": {"team": {"present": True}}}, {"annotations": None}, True, 'annotation "team" not known'),
    ({"annotations": {"b": {"present": True}}}, {"has_all_annotations": False}, True, 'annotation "b" not known'),
    ({"annotations": {"none": {"present": False}}}, {"has_all_annotations": False}, True, '"none" not known'),
    ({"annotations": {"team": {"present": False}}}, {"has_all_annotations": False}, False, '"a*b", expected none'),
    # all parts must hold, and one that does not hold decides, whatever is not known
    ({"namespaces": ["shop"], "sandbox": True}, {}, False, "a container, expected a sandbox"),
    ({"namespaces": ["x"], "sandbox": True}, {}, False, '"shop", expected x; a container, expected a sandbox'),
    ({"namespaces": ["x"], "sandbox": True}, {"namespace": None}, False, "a container, expected a sandbox"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("when", "changes", "runs", "reason"), CASES, ids=lambda case: str(case)[:60]
)
def test_a_condition_is_judged_and_explained(
    when: dict[str, Any], changes: dict[str, Any], runs: bool, reason: str
) -> None:
    condition, facts = Condition(when), Facts(**{**POD, **changes})
    assert condition.judge(facts)[0] == runs
    _, said = condition.judge(facts)
    assert said.endswith(reason) if reason else said == ""
    if reason[:1].islower() and "not known" in reason:
        assert said == reason
    runs_unknown = when.get("unknown") != "skip"
    for unknown in (Facts(**NOTHING_KNOWN), Facts()):
        assert condition.judge(unknown)[0] == runs_unknown


texts = st.text("ab*.\n", max_size=12)


@settings(max_examples=400, deadline=None)
@given(texts, texts)
def test_a_pattern_matches_as_the_regular_expression_would(pattern: str, text: str) -> None:
    if "*" in pattern:
        expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)
        assert matches(pattern, text) == (expected is not None), (pattern, text)


def test_the_ends_of_a_pattern_do_not_overlap() -> None:
    assert not matches("aba*ba", "aba")
    assert matches("aba*ba", "ababa")


def test_text_that_makes_regular_expressions_hang_is_matched() -> None:
    pattern = "*" + "a*" * 2000 + "b"
    assert not matches(pattern, "a" * 1_000_000)
    assert matches(pattern, "a" * 1_000_000 + "b")


def test_ten_thousand_namespaces_are_judged() -> None:
    condition = Condition({"namespaces": [f"ns-{number}" for number in range(10_000)] + ["team-*"]})
    assert condition.judge(Facts(namespace="ns-9999")) == condition.judge(Facts(namespace="team-a"))
    facts = Facts(namespace="ns-10000")
    assert not condition.judge(facts)[0]
    assert len(condition.judge(facts)[1]) < 300


def test_values_of_a_pod_are_cut_and_quoted_in_a_reason() -> None:
    condition = Condition({"labels": {"app": {"equals": "web"}}})
    _, said = condition.judge(Facts(labels={"app": "\x1b[2J\n\u202e" + "x" * 100_000}))
    assert said.isprintable()
    assert said.isascii() or "…" in said
    assert len(said) < 250


@pytest.mark.parametrize(
    "value",
    ["x", {"namespace": ["x"]}, {"labels": {"a": {}}}, {"sandbox": 1}],
    ids=str,
)
def test_a_wrong_condition_is_refused(value: Any) -> None:
    with pytest.raises(DecodeError, match=r"^when"):
        Condition(value)


def test_condition_without_keys_holds_for_all() -> None:
    condition = Condition({})
    assert condition.judge(Facts()) == (True, "")
    assert condition.contradiction(Facts()) == ""


# Notes of nri check about conditions that are valid and probably not meant

NOTES: list[tuple[dict[str, Any], list[str]]] = [
    ({"namespaces": ["a"], "annotations": {"b": {"pattern": "web-*"}}}, []),
    (
        {"labels": {"b": {"equals": "c"}}, "annotations": {"b": {"present": True}}},
        [
            "depends on labels and annotations alone",
            "nri hook and nri-runc do not know labels; what is",
        ],
    ),
    (
        {"namespaces": ["a"], "runtimeHandler": ["x"]},
        ["do not know runtime handlers; what is not known keeps no plugin away that restricts"],
    ),
    (
        {"namespaces": ["a"], "runtimeHandler": ["x"], "unknown": "skip"},
        ["do not know runtime handlers; what is not known keeps it away"],
    ),
]


@pytest.mark.parametrize(("when", "expected"), NOTES, ids=str)
def test_a_condition_has_its_notes(when: dict[str, Any], expected: list[str]) -> None:
    entry = PluginEntry(type="a", when=when, source="/etc/nri/resource.d/10.conf", source_index=3)
    found = notes_on_condition(entry, "/etc/nri/conf.json")
    assert len(found) == len(expected)
    for line, text in zip(found, expected, strict=True):
        assert line.startswith("/etc/nri/resource.d/10.conf: plugins[3].when")
        assert text in line
