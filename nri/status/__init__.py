"""The asking side of the status socket: its client, the judgement of a status, and the probe.

The bridge answers in ``nri.v1bridge``; docs/status.md describes the protocol. A probe runs every few seconds on every
node, so this imports only what a probe needs.
"""

from nri.status.client import AskError, NoBridgeError, ask, of_pod, status
from nri.status.judging import Verdict, judge

__all__ = ["AskError", "NoBridgeError", "Verdict", "ask", "judge", "of_pod", "status"]
