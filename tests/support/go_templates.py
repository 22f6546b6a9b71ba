"""The part of Go's text/template, and of Helm's functions, that the chart in deploy/helm uses.

Anything else is an error, also what Go accepts: a value that is missing is never printed.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

ACTION = re.compile(r"\{\{(?P<left>-(?=\s))?(?P<code>.*?)(?P<right>(?<=\s)-)?\}\}", re.DOTALL)
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(:=|[()|,])|(\$?[\w.]+|\$)|(\S))')


class TemplateError(Exception):
    """A template that is not in the subset, or that has failed."""


class Templates:
    """The templates of a chart; each file's definitions are known in all files."""

    def __init__(self, files: dict[str, str]) -> None:
        self._defined: dict[str, list[Any]] = {}
        self._files = {name: self._parse(name, text) for name, text in files.items()}

    def render(self, name: str, root: dict[str, Any]) -> str:
        """Return what a file makes of the root object, with Values, Release and Chart."""
        return self._run(self._files[name], root, {"$": root})

    # Parsing: text is a str, an action a tuple

    def _parse(self, name: str, text: str) -> list[Any]:
        pieces: list[Any] = []
        end = 0
        for match in ACTION.finditer(text):
            before = text[end : match.start()]
            before = before.lstrip() if pieces and pieces[-1][2] else before
            pieces.append((before.rstrip() if match["left"] else before, match["code"].strip(), bool(match["right"])))
            end = match.end()
        rest = text[end:].lstrip() if pieces and pieces[-1][2] else text[end:]
        flat = [part for before, code, _ in pieces for part in (before, (code,))] + [rest]
        flat = [part for part in flat if part and not (isinstance(part, tuple) and part[0].startswith("/*"))]
        nodes, word = self._block(flat)
        if word or flat:
            raise TemplateError(f"{name}: found {word!r} without its beginning")
        return nodes

    def _block(self, flat: list[Any]) -> tuple[list[Any], str]:
        """Take nodes until an `end` or `else`, which is returned, or until the end of the file."""
        nodes: list[Any] = []
        while flat:
            part = flat.pop(0)
            if isinstance(part, str):
                nodes.append(part)
                continue
            word, _, rest = part[0].partition(" ")
            if word in ("end", "else"):
                if rest:
                    raise TemplateError(f"found {part[0]!r}, expected no more than {word!r}")
                return nodes, word
            if word in ("if", "range", "with", "define"):
                body, ending = self._block(flat)
                other: list[Any] = []
                if ending == "else":
                    other, ending = self._block(flat)
                if ending != "end":
                    raise TemplateError(f"found no end of {part[0]!r}")
                if word == "define":
                    self._defined[json.loads(rest)] = body
                else:
                    nodes.append((word, rest, body, other))
            else:
                nodes.append(("print", part[0], [], []))
        return nodes, ""

    # Running

    def _run(self, nodes: list[Any], dot: Any, names: dict[str, Any]) -> str:
        names = dict(names)
        out = ""
        for node in nodes:
            if isinstance(node, str):
                out += node
                continue
            word, code, body, other = node
            variables, value = self._evaluate(code, dot, names)
            if word == "print":
                names.update(dict.fromkeys(variables, value))
                out += "" if variables else _printed(value, code)
            elif word == "range":
                items = sorted(value.items()) if isinstance(value, dict) else [*enumerate(value or [])]
                for key, item in items:
                    known = dict(zip(variables, (key, item)[-len(variables) :], strict=True)) if variables else {}
                    out += self._run(body, item, {**names, **known})
            elif _truth(value):
                out += self._run(body, value if word == "with" else dot, names)
            else:
                out += self._run(other, dot, names)
        return out

    def _evaluate(self, code: str, dot: Any, names: dict[str, Any]) -> tuple[list[str], Any]:
        """Return the variables that a pipeline is assigned to, and its value."""
        tokens = [next(filter(None, match)) for match in TOKEN.findall(code)]
        variables: list[str] = []
        if ":=" in tokens:
            at = tokens.index(":=")
            variables, tokens = [token for token in tokens[:at] if token != ","], tokens[at + 1 :]
        value = self._pipeline(tokens, dot, names)
        if tokens:
            raise TemplateError(f"found {tokens[0]!r} in {code!r}")
        return variables, value

    def _pipeline(self, tokens: list[str], dot: Any, names: dict[str, Any]) -> Any:
        piped: list[Any] = []
        while True:
            words: list[Any] = []
            function = ""
            while tokens and tokens[0] not in ("|", ")"):
                token = tokens.pop(0)
                if token == "(":
                    words.append(self._pipeline(tokens, dot, names))
                    if not tokens or tokens.pop(0) != ")":
                        raise TemplateError("found no closing parenthesis")
                elif token in FUNCTIONS or token == "include":
                    if words or function:
                        raise TemplateError(f"found {token} as an argument, expected it in parentheses")
                    function = token
                else:
                    words.append(_operand(token, dot, names))
            if function == "include":
                name, where = [*words, *piped]
                value = self._run(self._defined[name], where, {"$": where})
            elif function:
                value = FUNCTIONS[function](*words, *piped)
            else:
                if len(words) != 1 or piped:
                    raise TemplateError(f"found {words}, expected one value or a function")
                value = words[0]
            if not tokens or tokens[0] != "|":
                return value
            tokens.pop(0)
            piped = [value]


def _operand(token: str, dot: Any, names: dict[str, Any]) -> Any:
    if token.startswith('"') or token.isdigit():
        return json.loads(token)
    if token == ".":
        return dot
    start, *path = token.split(".")
    if start and start not in names:
        raise TemplateError(f"found {token!r}, expected a function, a variable, a field or a value")
    value = names[start] if start else dot
    for key in path:
        if not isinstance(value, dict):
            raise TemplateError(f"{token}: {key} of something that is no map")
        value = value.get(key)
    return value


def _truth(value: Any) -> bool:
    return bool(value)  # as in Go: false, 0, nil and what is empty


def _printed(value: Any, code: str) -> str:
    if value is None or isinstance(value, (dict, list)):
        raise TemplateError(f"{code} is {value!r}, which cannot be printed")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _fail(message: str) -> Any:
    raise TemplateError(message)


def _format(pattern: str, *values: Any) -> str:
    if re.sub("%s", "", pattern).count("%") or not all(isinstance(value, str) for value in values):
        raise TemplateError(f"printf {pattern!r} {values}: expected %s and strings alone")
    return pattern % values


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda *values: next((value for value in values if not _truth(value)), values[-1]),
    "default": lambda other, value: value if _truth(value) else other,
    "eq": lambda one, other: one == other,
    "fail": _fail,
    "gt": lambda one, other: one > other,
    "len": len,
    "ne": lambda one, other: one != other,
    "nindent": lambda width, text: "\n" + "\n".join(" " * width + line for line in text.split("\n")),
    "not": lambda value: not _truth(value),
    "printf": _format,
    "quote": lambda text: json.dumps(text, ensure_ascii=False),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "toJson": _json,
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).removesuffix("\n"),
    "trunc": lambda length, text: text[:length],
}
