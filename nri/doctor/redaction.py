"""Texts that may quote configuration or come from a plugin, without what may be a secret."""

from __future__ import annotations

import re

HIDDEN = "(not shown)"

_FOUND = re.compile(r"found .*, expected ", re.DOTALL)
_ANY_FOUND = re.compile(r"found .*", re.DOTALL)
_OF_KEY = re.compile(r"(?:^|: )(?:unknown key|missing)\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_SECRET = re.compile(
    r"(?i)(\b[\w.-]*(?:passw|token|secret|credential|private|api_?-?key|auth|cookie|bearer|passphrase)[\w.-]*[\"']?)"
    r"(\s*[=:]\s*|\s+)(?:(?:bearer|basic)\s+)?(\"[^\"]*\"?|'[^']*'?|[^\s,;\"']+)"
)
_URL = re.compile(r"(://)[^/@\s]*:[^/@\s]*@")


def without_values(message: str) -> str:
    """Return a message about a configuration without the value that was found; what was expected stays.

    A message that is not of the form ``found …, expected …`` loses all texts in quotes, but for names of keys.
    """
    if _FOUND.search(message):
        return _FOUND.sub(f"found a value {HIDDEN}, expected ", message)
    if _ANY_FOUND.search(message):
        return _ANY_FOUND.sub(f"found a value {HIDDEN}", message)
    return message if _OF_KEY.search(message) else _QUOTED.sub(HIDDEN, message)


def without_secrets(line: str) -> str:
    """Return a line of a log without the values of keys that look like those of secrets, and without URLs' users."""
    return _URL.sub(rf"\1{HIDDEN}@", _SECRET.sub(rf"\1\2{HIDDEN}", line))
