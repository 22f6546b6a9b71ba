"""The fixtures of all unit tests: see tests/sent.py."""

from tests.sent import readable_by_go

__all__ = ["readable_by_go"]
