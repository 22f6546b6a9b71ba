"""The condition of an entry, ``when``: its rules; made ready when the configuration is read, judged for each request.

A condition has up to five parts. A part holds, does not hold, or cannot be judged if the host does not know the
fact that it asks for. A part that does not hold keeps the plugin from running. If a part cannot be judged, the
plugin runs, unless the entry has ``"unknown": "skip"`` (docs/decisions.md, 32). Patterns have one special character,
``*``, which stands for any characters or none. The time of a match is linear in the length of the text, whatever
the pattern.
"""

from __future__ import annotations

from nri.types import gojson
from nri.types.demanding import demand
from nri.types.gojson import shorten
from nri.types.table import FLAG, Key, Map, Rule, Table, array, either, text, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Protocol

    class Part(Protocol):
        """One part of a condition."""

        fact: str
        """The name of the one of ``Facts`` that it asks for."""

        def judge(self, facts: Facts) -> tuple[bool | None, str]:
            """Return whether it holds, with what was found and is expected; or None, with what is not known."""


MAX_NAMESPACE = 63
"""Characters; the limit that Kubernetes sets for the name of a namespace."""

MAX_KEY = 317
"""Characters of a label's or annotation's key; the limit of Kubernetes: a domain of 253, a slash, a name of 63."""

MAX_VALUE = 4096
"""Characters of a value or pattern in a condition."""

BOTH = "both"
"""The value of ``sandbox`` for sandboxes and for containers."""

RUN = "run"
SKIP = "skip"
"""The values of ``unknown``."""


def is_namespace(name: str) -> bool:
    """Return whether *name* can be the name of a namespace, or a pattern of such names."""
    has_right_letters = name.replace("*", "0").replace("-", "0").isalnum()
    return has_right_letters and name.isascii() and name == name.lower().strip("-")


def is_key(name: str) -> bool:
    """Return whether *name* can be the key of a label or annotation."""
    return name.isascii() and name.isprintable() and name.split() == [name]


def is_pattern(value: str) -> bool:
    """Return whether *value* is a pattern rather than a plain text."""
    return "*" in value


def _one_or_more(one: Rule) -> Rule:
    return either(one, array(one, 1), expected=f"{one.expected}, or an array of at least one")


_NAMESPACE = text(
    0,
    MAX_NAMESPACE,
    matches=is_namespace,
    pattern=r"^[a-z0-9*]([a-z0-9*-]*[a-z0-9*])?(?!\n)$",
    expected="a name of letters a-z, digits and '-', or a pattern of such names with '*' for any "
    "characters",
)
_KEY = text(
    0,
    MAX_KEY,
    matches=is_key,
    pattern=r"^[!-~]+(?!\n)$",
    expected="a key of ASCII characters without white space",
)
_PATTERN = text(
    0,
    MAX_VALUE,
    matches=is_pattern,
    pattern=r"\*",
    expected="a pattern with '*' for any characters, as in 'web-*'",
)

RULE = Table(
    Key(
        "equals",
        _one_or_more(text(0, MAX_VALUE)),
        description="The value, or several of which one is right; case counts.",
    ),
    Key(
        "pattern",
        _one_or_more(_PATTERN),
        description="A pattern, or several of which one is right: '*' stands for any characters, or none, every "
        "other character for itself, and case counts.",
    ),
    Key("present", FLAG, title="Whether the key exists"),
    least=1,
    description="All that is given must hold. A key that is missing equals nothing and matches no "
    "pattern.",
)
"""The rule for one key of labels or annotations."""

WHEN = Table(
    Key(
        "namespaces",
        array(_NAMESPACE, 1),
        description="Namespaces of pods, or patterns in which '*' stands for any characters; one must match.",
    ),
    Key(
        "labels",
        Map(RULE, _KEY, least=1),
        description="Labels of the pod, each with a rule; all must hold.",
    ),
    Key(
        "annotations",
        Map(RULE, _KEY, least=1),
        description="Annotations of the container, which override those of its pod, each with a rule; all "
        "must hold.",
    ),
    Key(
        "sandbox",
        Rule(
            object,
            lambda value: value is True or value is False or value == BOTH,
            "true, false or both",
            {"enum": [True, False, BOTH]},
        ),
        description="Whether it runs for pod sandboxes (true) or for other containers (false); by default for both.",
    ),
    Key(
        "runtimeHandler",
        array(text(0, MAX_VALUE), 1),
        description="Runtime handlers of pods, or patterns in which '*' stands for any characters; one must match. "
        "An empty string stands for pods that name none, which have the runtime's default.",
    ),
    Key(
        "unknown",
        words(RUN, SKIP),
        description="Whether the plugin runs where the host does not know what a key asks for. Without it the plugin "
        "runs, but does nothing if it grants something.",
    ),
    least=1,
    description="The containers that the plugin runs for; all keys must hold.",
)
"""``when`` of an entry."""


class Facts:
    """The facts that a host knows of a container. None stands for an unknown fact.

    :param namespace: the pod's.
    :param labels: the pod's.
    :param annotations: the container's, which include its pod's.
    :param has_all_annotations: whether an annotation that is not among these does not exist.
    :param is_sandbox: whether it is a pod sandbox.
    :param runtime_handler: the one that the pod names; "" for the runtime's default.
    :param contradictions: what contradicts itself, by the names of these parameters, which are then None.
    """

    __slots__ = (
        "annotations",
        "contradictions",
        "has_all_annotations",
        "is_sandbox",
        "labels",
        "namespace",
        "runtime_handler",
    )

    def __init__(
        self,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        has_all_annotations: bool = True,
        is_sandbox: bool | None = None,
        runtime_handler: str | None = None,
        contradictions: Mapping[str, str] | None = None,
    ) -> None:
        self.namespace = namespace
        self.labels = labels
        self.annotations = annotations
        self.has_all_annotations = has_all_annotations
        self.is_sandbox = is_sandbox
        self.runtime_handler = runtime_handler
        self.contradictions = contradictions or {}


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern, in which ``*`` stands for any characters or none, matches the whole of a text.

    Its fixed parts are searched for from left to right, each once, so that matching never goes back.
    """
    start, *middle, last = pattern.split("*")
    at = len(start)
    end = len(text) - len(last)
    if at > end or not text.startswith(start) or not text.endswith(last):
        return False
    for part in middle:
        index = text.find(part, at, end)
        if index < 0:
            return False
        at = index + len(part)
    return True


class Texts:
    """Texts and patterns of which one must match.

    :param literal: whether all are texts, also those with a ``*``.
    """

    __slots__ = ("_given", "_patterns", "_texts")

    def __init__(self, given: Sequence[str], *, literal: bool = False) -> None:
        self._given = given
        self._texts = frozenset([text for text in given if literal or not is_pattern(text)])
        self._patterns = [text for text in given if text not in self._texts]

    def match(self, text: str) -> bool:
        """Return whether one of them matches the whole of *text*."""
        return text in self._texts or any(matches(pattern, text) for pattern in self._patterns)

    def __str__(self) -> str:
        given = shorten(", ".join([text or '""' for text in self._given]), 200)
        return f"one of {given}" if len(self._given) > 1 else given


class _Name:
    """``namespaces`` or ``runtimeHandler``: a name that is one of several."""

    __slots__ = ("_subject", "_texts", "fact")

    def __init__(self, subject: str, fact: str, given: Sequence[str]) -> None:
        self._subject = subject
        self.fact = fact
        self._texts = Texts(given)

    def judge(self, facts: Facts) -> tuple[bool | None, str]:
        name = getattr(facts, self.fact)
        if name is None:
            return None, f"{self._subject} not known"
        return self._texts.match(name), f"{self._subject} {_quoted(name)}, expected {self._texts}"


class _Sandbox:
    """``sandbox``, if it is not ``both``."""

    __slots__ = ("_wanted",)

    fact = "is_sandbox"

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def judge(self, facts: Facts) -> tuple[bool | None, str]:
        if facts.is_sandbox is None:
            return None, "not known if it is a sandbox"
        said = "a container, expected a sandbox"
        if facts.is_sandbox:
            said = "a sandbox, expected a container"
        return facts.is_sandbox == self._wanted, said


class _Value:
    """The rule for one key of ``labels`` or ``annotations``."""

    __slots__ = ("_allowed", "_key", "_kind", "_may_be_there")

    fact = ""  # no two places have the same label or annotation

    def __init__(self, kind: str, key: str, rule: Mapping[str, Any]) -> None:
        self._kind = kind
        self._key = key
        self._may_be_there: bool = rule.get("present", True)
        self._allowed = []
        if "equals" in rule:
            self._allowed.append(Texts(_listed(rule["equals"]), literal=True))
        if "pattern" in rule:
            self._allowed.append(Texts(_listed(rule["pattern"])))

    def judge(self, facts: Facts) -> tuple[bool | None, str]:
        is_label = self._kind == "label"
        where = f"{self._kind} {_quoted(self._key)}"
        values = facts.labels if is_label else facts.annotations
        value = None if values is None else values.get(self._key)
        rules = [*map(str, self._allowed)]
        if not self._may_be_there:
            rules.append("none")
        expected = " and ".join(rules) or "it"
        if value is not None:
            holds = self._may_be_there and all(texts.match(value) for texts in self._allowed)
            return holds, f"{where}: found {_quoted(value)}, expected {expected}"
        is_known = values is not None and (is_label or facts.has_all_annotations)
        if not is_known:
            return None, f"{where} not known"
        holds = not self._may_be_there and not self._allowed
        return holds, f"{where}: missing, expected {expected}"


class Condition:
    """``when`` of an entry: the containers that its plugin runs for.

    :param value: the JSON value; {} for all containers, as of an entry without ``when``.
    :raises DecodeError: if the value is not valid.
    """

    __slots__ = ("_parts", "_skips", "value")

    def __init__(self, value: dict[str, Any]) -> None:
        if value:
            demand(WHEN, value, "when")
        parts: list[Part] = []
        if "namespaces" in value:
            parts.append(_Name("namespace", "namespace", value["namespaces"]))
        if value.get("sandbox", BOTH) != BOTH:
            parts.append(_Sandbox(value["sandbox"]))
        if "runtimeHandler" in value:
            parts.append(_Name("runtime handler", "runtime_handler", value["runtimeHandler"]))
        for kind in ("label", "annotation"):
            for key, rule in value.get(f"{kind}s", {}).items():
                parts.append(_Value(kind, key, rule))
        self.value = value
        self._parts = parts
        self._skips = value.get("unknown") == SKIP

    def judge(self, facts: Facts) -> tuple[bool, str]:
        """Return whether the plugin runs; and the facts that are asked for and not known, or why it does not run.

        It does not if a part does not hold, or is not known and the entry says skip. The facts are "" for an entry
        that decides for unknown ones.
        """
        return self._judge(self._parts, facts)

    def _judge(self, parts: list[Part], facts: Facts) -> tuple[bool, str]:
        failing = []
        unknown = []
        for part in parts:
            holds, said = part.judge(facts)
            if holds is None:
                unknown.append(said)
            elif not holds:
                failing.append(said)
        if failing:
            return False, "; ".join(failing)
        if unknown and self._skips:
            return False, "; ".join(unknown)
        if "unknown" in self.value:
            return True, ""
        return True, "; ".join(unknown)

    def contradiction(self, facts: Facts) -> str:
        """Return what a part asks for, and the container contradicts itself in.

        It is "" for none, or if another part keeps the plugin away. ``unknown`` does not: a pod would choose it.
        """
        found = []
        others = []
        for part in self._parts:
            if part.fact in facts.contradictions:
                found.append(facts.contradictions[part.fact])
            else:
                others.append(part)
        runs, _ = self._judge(others, facts)
        return found[0] if found and runs else ""

    def __repr__(self) -> str:
        return f"Condition({self.value!r})"


def _listed(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _quoted(text: str) -> str:
    return shorten(gojson.dumps(text).decode(), 100)
