"""The v0.1 wire: the JSON documents on a plugin's stdin and stdout.

Standard library only, and little of it: a plugin executable imports this package at every start. A test checks that
it does not import ``re``, ``typing``, ``dataclasses``, ``enum`` or ``json``.

:mod:`nri.types.v1` has the types. ``X.from_json(bytes | str)`` reads one, ``x.to_json() -> bytes`` writes it; a
document of another form raises :class:`DecodeError`.
"""

from nri.types.errors import DecodeError, EncodeError

__all__ = ["DecodeError", "EncodeError"]
