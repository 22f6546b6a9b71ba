"""The fixtures of all tests of the documentation: see tests/sent.py."""

from tests.sent import readable_by_go

__all__ = ["readable_by_go"]
