"""The rules of ``when`` in an entry as a table: for which containers a plugin runs.

Patterns have one special character, ``*``, which stands for any characters or none (docs/decisions/0032). They are
matched by :mod:`nri.config.when`.
"""

from __future__ import annotations

from nri.types.table import FLAG, Key, Map, Rule, Table, array, either, text

MAX_NAMESPACE = 63
"""Characters; the limit that Kubernetes sets for the name of a namespace."""

MAX_KEY = 317
"""Characters of a label's or annotation's key; the limit of Kubernetes: a domain of 253, a slash, a name of 63."""

MAX_VALUE = 4096
"""Characters of a value or pattern in a condition."""

BOTH = "both"
"""The value of ``sandbox`` for sandboxes and for containers."""


def is_namespace(name: object) -> bool:
    """Return whether *name* can be the name of a namespace, or a pattern of such names."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAMESPACE or name[0] == "-" or name[-1] == "-":
        return False
    return name.isascii() and name == name.lower() and name.replace("*", "0").replace("-", "0").isalnum()


def is_key(name: object) -> bool:
    """Return whether *name* can be the key of a label or annotation."""
    return isinstance(name, str) and name.isascii() and name.isprintable() and " " not in name and name != ""


def is_pattern(value: object) -> bool:
    """Return whether *value* is a pattern rather than a plain text."""
    return isinstance(value, str) and "*" in value


def _one_or_more(one: Rule) -> Rule:
    return either(one, array(one, 1), expected=f"{one.expected}, or an array of at least one")


_NAMESPACE = text(
    0,
    MAX_NAMESPACE,
    matches=is_namespace,
    pattern=r"^[a-z0-9*]([a-z0-9*-]*[a-z0-9*])?(?!\n)$",
    expected="a name of letters a-z, digits and '-', or a pattern of such names with '*' for any characters",
)
_KEY = text(
    0, MAX_KEY, matches=is_key, pattern=r"^[!-~]+(?!\n)$", expected="a key of ASCII characters without white space"
)
_PATTERN = text(
    0, MAX_VALUE, matches=is_pattern, pattern=r"\*", expected="a pattern with '*' for any characters, as in 'web-*'"
)

_RULE = Table(
    Key(
        "equals",
        _one_or_more(text(0, MAX_VALUE)),
        title="The value, or several of which one is right",
    ),
    Key(
        "pattern",
        _one_or_more(_PATTERN),
        title="A pattern with '*' for any characters, as in 'web-*', or several of which one is right",
        description="'*' stands for any characters, or none; every other character for itself.",
    ),
    Key("present", FLAG, title="Whether there is such a key"),
    least=1,
    title="An object with equals, pattern or present",
    description="All that is given must hold. A key that is missing equals nothing and matches no pattern.",
)
"""The rule for one key of labels or annotations."""

WHEN = Table(
    Key(
        "namespaces",
        array(_NAMESPACE, 1),
        title="Namespaces of pods",
        description="Names, and patterns in which '*' stands for any characters; one must match.",
    ),
    Key("labels", Map(_RULE, _KEY, least=1), title="Labels of the pod", description="Every one must hold."),
    Key(
        "annotations",
        Map(_RULE, _KEY, least=1),
        title="Annotations of the container, and of its pod",
        description="Every one must hold.",
    ),
    Key(
        "sandbox",
        Rule(
            object,
            lambda value: value is True or value is False or value == BOTH,
            "true, false or both",
            {"enum": [True, False, BOTH]},
        ),
        title="Whether it runs for pod sandboxes, for other containers, or for both",
        description="Without it: both.",
    ),
    Key(
        "runtimeHandler",
        array(text(0, MAX_VALUE), 1),
        title="Runtime handlers of pods",
        description="Names, and patterns in which '*' stands for any characters; one must match. An empty string "
        "stands for pods that name none, which have the runtime's default.",
    ),
    least=1,
    title="The containers that the plugin runs for",
    description="All keys must hold. Where the host does not know what a key asks for, the plugin runs.",
)
"""``when`` of an entry."""
