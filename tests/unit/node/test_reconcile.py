"""What each wish runs for a container, and what each kind of failure leaves on record."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from nri.client import Client, Invoker
from nri.config.entries import ConfigList, PluginEntry
from nri.node.compare import Wanted, compare, lacking
from nri.node.reconcile import LATE, MISSED_SETUP, NO_CONFIGURATION, Chain, reconcile
from nri.node.record import OFF, Facts, Outcome
from nri.process.conversation import Output
from nri.types.v1 import Request, Spec
from tests.unit.node.builders import facts, had, shown


class Plugins(Invoker):
    """Plugins that answer as a test says, and keep what they were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        self.suffices: set[str] = set()
        self.keeps: set[str] = set()

    def find(self, plugin: str) -> str:
        return f"/nonexistent/{plugin}"

    def create_suffices(self, plugin: str) -> bool:
        return plugin in self.suffices

    def releases(self, plugin: str) -> bool:
        return plugin not in self.keeps

    def run(self, path: str, plugin: str, request: bytes, *_: Any, **__: Any) -> Output:
        self.asked.append(json.loads(request) | {"of": plugin})
        output = Output()
        answer = {"plugin": plugin, "version": "0.1", "error": "", **self.answers.get(plugin, {})}
        output.stdout = json.dumps(answer).encode()
        output.stderr, output.stopped, output.status = "", "", 0
        return output


class Node:
    """A host with one container."""

    name = "default/web/app"
    digest = 7

    def __init__(self, about: Facts | None = None) -> None:
        self.facts = about or Facts(self.name)
        self.plugins = Plugins()
        self.entries: list[PluginEntry] = []
        self.lock = contextlib.nullcontext()
        self.refuses_starts = self.is_configured = True
        self.saved: list[list[tuple[str, dict[str, str]]]] = []
        self.notes: list[str] = []
        self.is_sandbox = False
        self.sends_setup = True

    def dropped(self, _container: Any, _client: Any) -> list[Any]:
        return []

    def expects_setup(self, _request: Request) -> bool:
        return self.sends_setup

    def configure(self, *types: str, **options: Any) -> None:
        self.entries += [PluginEntry(type=name, conf=1, **options) for name in types]

    def request(self, state: str) -> Request:
        sandbox = "c" if self.is_sandbox else "p"
        return Request(
            state=state, id="c", sandbox_id=sandbox, spec=Spec(resources={"cpu": {"shares": 2}})
        )

    def client(self, _container: Any, _state: str) -> Client:
        return Client(ConfigList(plugins=self.entries), self.plugins)

    def run(self, chain: Chain, on_step: Any) -> None:
        chain.client.invoke(
            chain.request,
            chain.request.state,
            on_step=on_step,
            previous=chain.previous,
            only=chain.only,
        )

    def save(self, _container: Any) -> None:
        self.saved.append(shown(self.facts))

    def note(self, line: str) -> None:
        self.notes.append(line)

    def wish(self, wish: str) -> Any:
        due = compare([Wanted(entry) for entry in self.entries], self.facts.entries, again=True)
        return reconcile(self, wish, self, due if wish == LATE else ())

    @property
    def steps(self) -> list[str]:
        return [f"{request['state']} {request['of']}" for request in self.plugins.asked]

    @property
    def lacks(self) -> list[tuple[str | None, str, str]]:
        return [(lack.plugin, lack.state, lack.cause) for lack in lacking(self.facts)]


@pytest.fixture
def node() -> Node:
    return Node()


FAILS = {"error": "no"}
REFUSES = {"error": "no", "refused": True}


def test_a_life_is_on_record_step_by_step(node: Node) -> None:
    node.configure("a", "b", states=["setup", "update"])
    for state in ("setup", "create", "update"):
        assert node.wish(state).error == ""
    done = {"setup": "done", "create": "done", "update": "done"}
    assert shown(node.facts) == [("a", done), ("b", done)]
    assert (node.facts.is_created, node.facts.seen) == (True, [7])
    # The first of two plugins was saved before the second one began.
    assert node.saved[0] == [("a", {"setup": "done"})]
    assert node.wish("delete").error == ""
    previous = [("prevResult" in request) for request in node.plugins.asked]
    assert previous == [False] * 4 + [True] * 4


def test_a_setup_that_is_left_out_for_its_condition_is_not_missed(node: Node) -> None:
    node.configure("a", states=["setup"], when={"annotations": {"x": {"present": True}}})
    assert node.wish("setup").error == ""
    assert shown(node.facts) == [("a", {"setup": "skipped"})]
    assert node.wish("create").error == ""


@pytest.mark.parametrize(
    ("state", "answer"), [("setup", FAILS), ("setup", REFUSES), ("resize", FAILS)]
)
def test_a_refused_change_is_not_noted(node: Node, state: str, answer: dict[str, Any]) -> None:
    node.configure("a", states=["setup", "resize"])
    node.plugins.answers["a"] = answer
    verdict = node.wish(state)
    assert verdict.error == "plugin a: no"
    assert verdict.is_refused == bool(answer.get("refused"))
    assert (node.lacks, shown(node.facts)) == ([], [])


@pytest.mark.parametrize("state", ["setup", "create", "resize"])
def test_an_ignored_failure_is_listed(node: Node, state: str) -> None:
    node.configure("a", states=["setup", "resize"], failure_policy="ignore")
    node.facts = facts(had("a", 1, "setup"))
    node.plugins.answers["a"] = FAILS
    assert node.wish(state).error == ""
    assert node.lacks == [("a", state, "ignored")]
    node.plugins.answers["a"] = {}
    assert node.wish(state).error == ""
    assert node.lacks == []


@pytest.mark.parametrize("answer", [FAILS, REFUSES])
def test_a_refused_start_leaves_what_has_succeeded_for_its_delete(
    node: Node, answer: dict[str, Any]
) -> None:
    node.configure("a", "b")
    node.plugins.answers["b"] = answer
    verdict = node.wish("create")
    assert (verdict.error, verdict.is_noted) == ("plugin b: no", False)
    assert (node.lacks, shown(node.facts), node.facts.is_created) == (
        [],
        [("a", {"create": "done"})],
        False,
    )
    node.wish("delete")
    assert ["prevResult" in request for request in node.plugins.asked[-2:]] == [True, False]


@pytest.mark.parametrize(("answer", "cause"), [(FAILS, "failed"), (REFUSES, "refused")])
def test_a_start_that_the_runtime_makes_all_the_same_is_noted(
    node: Node, answer: dict[str, Any], cause: str
) -> None:
    node.refuses_starts = False
    node.configure("a", "b", "c")
    node.plugins.answers["b"] = answer
    verdict = node.wish("create")
    assert (verdict.error, verdict.is_noted) == ("plugin b: no", True)
    assert node.lacks == [("b", "create", cause), ("c", "create", cause)]
    node.plugins.answers.clear()
    assert node.wish(LATE).error == ""
    assert node.steps == ["create a", "create b", "create b", "create c"]
    assert (node.lacks, node.facts.is_created) == ([], True)


def test_a_sandbox_is_refused_also_by_a_runtime_that_starts_containers_all_the_same(
    node: Node,
) -> None:
    node.refuses_starts, node.is_sandbox = False, True
    node.configure("a")
    node.plugins.answers["a"] = FAILS
    assert not node.wish("create").is_noted
    assert node.lacks == []


def test_a_start_without_a_configuration_is_listed(node: Node) -> None:
    node.is_configured = False
    assert node.wish("create").error == ""
    assert (node.lacks, node.facts.is_created) == ([(None, "create", "unconfigured")], False)
    assert node.facts.without is not None
    assert node.facts.without.why == NO_CONFIGURATION


def test_a_new_start_forgets_the_process_before(node: Node) -> None:
    node.configure("a")
    node.facts = facts(had("a", 1), had("b", 1))
    node.wish("create")
    assert shown(node.facts) == [("a", {"create": "done"})]


# A setup that was missed


@pytest.mark.parametrize("policy", ["fail", "ignore"])
@pytest.mark.parametrize("refuses", [True, False])
def test_a_missed_setup(node: Node, policy: str, refuses: bool) -> None:
    node.refuses_starts = refuses
    node.configure("a", states=["setup"], failure_policy=policy)
    verdict = node.wish("create")
    if policy == "fail":
        expected = f"create: plugin a: {MISSED_SETUP}; create the container again"
        assert node.notes == [f"nri v0.1: {expected}"]
        assert verdict.error == (expected if refuses else "")
    if policy == "fail" and refuses:
        assert (node.steps, node.lacks) == ([], [])
    else:
        assert (node.steps, node.lacks) == (["create a"], [("a", "setup", "missed")])


@pytest.mark.parametrize("why", ["it suffices", "a sandbox", "the host sends none"])
def test_a_setup_that_is_not_needed_is_not_missed(node: Node, why: str) -> None:
    node.configure("a", states=["setup"])
    if why == "it suffices":
        node.plugins.suffices.add("a")
    elif why == "a sandbox":
        node.is_sandbox = True
    else:
        node.sends_setup = False
    assert (node.wish("create").error, node.lacks) == ("", [])


# Late


def test_what_is_due_runs_once_and_no_more(node: Node) -> None:
    node.configure("a", "b")
    node.facts = facts(had("a", 0), had("b", 1), had("x", 1))
    assert node.wish(LATE).error == ""
    assert node.steps == ["delete x", "create a"]
    assert [request.get("release") for request in node.plugins.asked] == [True, None]
    assert node.plugins.asked[1]["late"] is True
    assert shown(node.facts) == [("b", {"create": "done"}), ("a", {"create": "done"})]
    assert node.wish(LATE).error == ""
    assert len(node.steps) == 2


@pytest.mark.parametrize(("types", "lacks"), [(["a"], [(None, "create", "off")]), (["a", "b"], [])])
def test_only_a_create_ends_that_one_is_lacking(
    node: Node, types: list[str], lacks: list[Any]
) -> None:
    """Where late creates are off, a changed entry may still be reapplied."""
    node.configure(*types)
    node.facts = facts(had("a", 0))
    node.facts.without = Outcome(OFF, "off")
    assert node.wish(LATE).error == ""
    assert node.lacks == lacks
    assert node.facts.is_created


def test_an_entry_that_has_nothing_to_give_back_is_forgotten(node: Node) -> None:
    node.plugins.keeps.add("x")
    node.facts = facts(had("x", 1))
    assert node.wish(LATE).error == ""
    assert (node.steps, shown(node.facts)) == ([], [])


@pytest.mark.parametrize(("answer", "is_refused"), [(FAILS, False), (REFUSES, True)])
def test_what_fails_late_leaves_what_it_had_in_force(
    node: Node, answer: dict[str, Any], is_refused: bool
) -> None:
    node.configure("a", "b", states=["update"])
    node.facts = facts(had("a", 0), had("x", 1))
    for name in "ax":
        node.plugins.answers[name] = answer
    for _ in range(2):
        verdict = node.wish(LATE)
        assert (verdict.error, verdict.is_refused) == ("plugin x: no", is_refused)
        cause = "refused" if is_refused else "failed"
        assert node.lacks == [
            ("a", "create", cause),
            ("x", "release", cause),
            ("b", "create", cause),
        ]
        assert [entry.type for entry in node.facts.entries.values() if entry.is_created] == [
            "a",
            "x",
        ]
    node.plugins.answers.clear()
    assert node.wish(LATE).error == ""
    assert (node.lacks, sorted(shown(node.facts))) == (
        [],
        [("a", {"create": "done"}), ("b", {"create": "done"})],
    )


def test_plugins_behind_the_one_that_fails_late_are_lacking_unless_they_have_run(
    node: Node,
) -> None:
    node.configure("a", "b", "c")
    node.facts = facts(had("b", 1))
    node.plugins.answers["a"] = FAILS
    assert node.wish(LATE).error == "plugin a: no"
    assert [(lack.plugin, lack.why) for lack in lacking(node.facts)] == [
        ("a", "the late create has failed: no"),
        ("c", "the late create has failed, of a plugin before it"),
    ]


def test_an_ignored_failure_reapplies_nothing(node: Node) -> None:
    node.configure("a", failure_policy="ignore")
    node.facts = facts(had("a", 0))
    node.plugins.answers["a"] = FAILS
    assert node.wish(LATE).error == "plugin a: no"
    assert node.lacks == [("a", "create", "ignored")]
    (entry,) = node.facts.entries.values()
    assert entry.is_created


def test_a_failure_of_an_entry_that_has_changed_is_over_with_the_success_of_the_new_one(
    node: Node,
) -> None:
    node.configure("a")
    node.facts = facts(had("a", 0, failed="failed"))
    assert node.wish(LATE).error == ""
    assert (node.lacks, shown(node.facts)) == ([], [("a", {"create": "done"})])


def test_success_of_one_entry_hides_no_failure_of_another_of_its_type(node: Node) -> None:
    node.entries = [PluginEntry(type="a", conf=conf) for conf in (0, 1)]
    node.facts = facts(had("a", 0, failed="failed"))
    node.entries[1:] = []
    node.configure("a")
    reconcile(node, LATE, node, compare([Wanted(node.entries[1])], node.facts.entries))
    assert node.lacks == [("a", "create", "failed")]


# Resources


def test_an_update_that_has_failed_is_made_up_for_late(node: Node) -> None:
    node.configure("a", states=["update"])
    node.wish("create")
    node.plugins.answers["a"] = FAILS
    assert node.wish("update").error == "plugin a: no"
    assert (node.facts.is_rewritten, node.lacks) == (True, [])
    assert node.wish(LATE).error == "plugin a: no"
    assert (node.facts.is_rewritten, node.lacks) == (True, [("a", "update", "failed")])
    node.plugins.answers.clear()
    assert node.wish(LATE).error == ""
    assert (node.facts.is_rewritten, node.lacks) == (False, [])


def test_a_late_update_goes_to_what_the_container_has_had(node: Node) -> None:
    node.configure("a", "b", states=["update"])
    node.facts = facts(had("b", 1), is_rewritten=True)
    assert node.wish(LATE).error == ""
    assert node.steps == ["create a", "update b"]


def test_new_resources_are_noted_as_they_are_in_force(node: Node) -> None:
    node.wish("create")
    assert (node.facts.seen, node.facts.resources) == ([7], None)
    node.digest = 8
    node.wish("update")
    assert (node.facts.seen, node.facts.resources) == ([7, 8], {"cpu": {"shares": 2}})
