"""The exchanges with a pod as a page for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nri.status.judging import ERROR, KILLED, OK, IGNORED
from nri.status.layout import date, milliseconds, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SHOWN = 600
"""Characters that are shown of a text of a plugin; ``--json`` has the others."""

WORDS = {OK: "ok", ERROR: "ERROR", KILLED: "KILLED", IGNORED: "ignored"}
"""The words for the outcomes of a plugin's run."""

_TOLD = ("plugin", "version", "metadata", "error")


def pod_page(document: dict[str, Any]) -> list[str]:
    """Return the lines of the page, the last exchange last.

    :param document: of :func:`nri.status.client.exchanges`.
    """
    exchanges, forgotten = document["exchanges"], document["forgotten"]
    name = f"{document['namespace']}/{document['name']}"
    count = f"{len(exchanges)} exchange{'s' if len(exchanges) != 1 else ''}" if exchanges else "no exchange is known"
    old = f"; {forgotten} older ones of all pods are forgotten" if forgotten else ""
    lines = wrapped(f"{name}: {count}{old}")
    for exchange in exchanges:
        lines += ["", *_exchange(exchange)]
    return lines


def _exchange(exchange: dict[str, Any]) -> Iterator[str]:
    event = f" ({exchange['event']})" if exchange["event"] else ""
    late = ", late" if exchange["late"] else ""
    what = f"container {exchange['container']}" if exchange["container"] is not None else "sandbox"
    yield from wrapped(
        f"{date(exchange['time'])} {exchange['state']}{event} of {what}{late}, {milliseconds(exchange['seconds'])}",
        "",
        "  ",
    )
    yield from wrapped(f"id {exchange['id']}", "  ")
    if exchange["error"]:
        yield from wrapped(_short(f"the runtime was answered: {exchange['error']}"), "  ", "    ")
    for part in exchange["plugins"]:
        outcome = WORDS.get(part["outcome"], part["outcome"])
        yield from wrapped(f"{part['plugin']}: {outcome}, {milliseconds(part['seconds'])}", "  ", "    ")
        if part["error"]:
            yield from wrapped(_short(part["error"]), "    ")
        for line in _result(part["result"]):
            yield from wrapped(_short(line), "    ", "      ")
    if not exchange["plugins"]:
        yield "  no plugin ran"


def _result(text: str | None) -> list[str]:
    """Return what a plugin wrote: its metadata, and the other keys that say what it did."""
    if text is None:
        return []
    try:
        result = json.loads(text)
        if not isinstance(result, dict):
            return [f"result: {text}"]
        metadata = result.get("metadata")
        lines = [f"{key} = {_value(value)}" for key, value in metadata.items()] if isinstance(metadata, dict) else []
        said = {key: value for key, value in result.items() if key not in _TOLD and value not in (None, "", {}, [])}
        return lines + [f"{key}: {_value(value)}" for key, value in said.items()]
    except (ValueError, RecursionError):
        return [f"result, cut or not JSON: {text}"]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters: see --json)"
