"""The contract of docs/spec.md as checks that run an executable in any language.

    from nri.testing.conformance import assert_conforms

    assert_conforms("dist/web/web", conf={"cpus": "2-3"})

:func:`check` returns the outcome of each check, ``nri conformance`` prints them. What can be seen from outside is
checked; the requests are harmless to the node.
"""

from nri.testing.conformance.contract import FAILS, HOLDS, MUST, NOT_JUDGED, SHOULD, Check, CheckOutcome
from nri.testing.conformance.judging import CHECKS, check
from nri.testing.conformance.reporting import assert_conforms, report

__all__ = [
    "CHECKS",
    "FAILS",
    "HOLDS",
    "MUST",
    "NOT_JUDGED",
    "SHOULD",
    "Check",
    "CheckOutcome",
    "assert_conforms",
    "check",
    "report",
]
