"""The state of a container, as OCI runtimes write it for hooks and in answer to ``state``."""

from __future__ import annotations

from nri.types import DecodeError, gojson
from nri.types.jsonobject import integer, mismatch, string, string_map

MAX_STATE = 1024 * 1024
"""Bytes of a state that are accepted; a real one has some thousands."""

EXPECTED = "expected what an OCI runtime writes"


class OCIState:
    """A container's state (OCI runtime specification, "State").

    :param source: where the document comes from, for messages.
    :raises DecodeError: if the document is not a valid state.
    """

    def __init__(self, document: bytes, source: str = "on stdin") -> None:
        try:
            if len(document) > MAX_STATE:
                raise DecodeError(f"found more than {MAX_STATE} bytes")
            value = gojson.loads(document)
            if not isinstance(value, dict):
                raise mismatch(value, "the document", "an object")
            self.id = string(value.get("id"), "id")
            self.pid = integer(value.get("pid"), "pid")
            self.bundle = string(value.get("bundle"), "bundle")
            status = value.get("status")
            self.status = status if isinstance(status, str) else ""  # a hook does not need it
            self.annotations = string_map(value.get("annotations"), "annotations")
            for key in ("id", "bundle"):
                if not value.get(key):
                    raise DecodeError(f"{key}: found nothing, expected the container's")
            if not self.bundle.startswith("/"):
                raise DecodeError(f"bundle: found {self.bundle!r}, expected an absolute path")
        except DecodeError as error:
            raise DecodeError(f"the container's state {source}: {error}; {EXPECTED}") from None
