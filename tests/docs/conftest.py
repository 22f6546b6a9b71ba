"""The fixtures of all tests of the documentation: see tests/support/sent.py."""

from tests.support.sent import readable_by_go

__all__ = ["readable_by_go"]
