"""The v0.1 wire: what stands on a plugin's stdin and stdout, and in the host configuration.

Standard library only, and little of it: a plugin executable imports this package at every start. So no ``re``,
``typing``, ``dataclasses``, ``enum`` or ``json`` in here; a test holds it to that.

:mod:`nri.types.v1` has the types. Each reads itself with ``X.from_json(bytes | str)`` and writes itself with
``x.to_json() -> bytes``; a document that is not what it should be is one :class:`DecodeError`.
"""

from nri.types.errors import DecodeError, EncodeError

__all__ = ["DecodeError", "EncodeError"]
