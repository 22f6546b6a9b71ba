"""What all unit tests share: see tests/sent.py."""

from tests.sent import readable_by_go

__all__ = ["readable_by_go"]
