"""The asking side of the status socket: its client, the judgement of a probe, and the status as a page.

The bridge answers in ``nri.v1bridge``; docs/status.md describes the protocol. This package knows nothing above the
ground. A probe runs every few seconds on every node, so this imports only what a probe needs; pages are modules.
"""

from nri.status.client import AskError, NoBridgeError, ask, exchanges, status
from nri.status.judging import Thresholds, Verdict, judge

__all__ = ["AskError", "NoBridgeError", "Thresholds", "Verdict", "ask", "exchanges", "judge", "status"]
