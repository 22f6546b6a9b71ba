"""What one run of a plugin leaves: its output and how it ended, and the result in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.client.unstartable import explain
from nri.process.conversation import readable
from nri.testing.conformance.errors import BrokenRuleError
from nri.types import DecodeError, gojson

if TYPE_CHECKING:
    from nri.process.conversation import Output

_SHOWN = 200  # bytes of output in a message


class Reply:
    """One run of a plugin.

    :param timeout: seconds that it had, for messages.
    """

    def __init__(self, output: Output, timeout: float) -> None:
        self.stdout, self.stderr, self.status = output.stdout, output.stderr, output.status
        self.stopped = output.stopped
        self._timeout = timeout

    @property
    def ending(self) -> str:
        """How it ended in words, with the end of its stderr."""
        if self.stopped == "deadline":
            return f"no end within {self._timeout:g} s; it was killed"
        if self.stopped:
            return "more than 1 MiB on stdout; it was killed"
        how = f"signal {-self.status}" if self.status < 0 else f"exit status {self.status}"
        return (
            f"{how}, and on stderr: {gojson.shorten(self.stderr)}" if self.stderr else f"{how}, and nothing on stderr"
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON object on stdout.

        :raises BrokenRuleError: if stdout has anything else, or more.
        """
        expected = "one JSON object on stdout, and nothing else"
        shown = readable(self.stdout[:_SHOWN])
        try:
            value = gojson.loads(self.stdout)
        except DecodeError as error:
            raise BrokenRuleError(expected, f"{shown!r}: {error}" if shown else "nothing on stdout") from None
        if not isinstance(value, dict):
            raise BrokenRuleError(expected, f"{shown!r}")
        return value

    def result(self) -> dict[str, Any]:
        """Return the result that a successful run has written.

        :raises BrokenRuleError: if it did not end with status 0, or stdout has no JSON object.
        """
        if self.stopped or self.status != 0:
            raise BrokenRuleError("a result, and exit status 0", self.ending)
        return self.document()


def not_started(path: str, error: OSError) -> BrokenRuleError:
    """Return the error for a file that cannot be run."""
    return BrokenRuleError("an executable that can be started", explain(path, error))
