"""The plugin under test, for the checks: what several of them look at, and the comparison of two results."""

from __future__ import annotations

import itertools
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from nri.testing.conformance.errors import BrokenRuleError, NotJudgedError
from nri.testing.conformance.requests import encode, request
from nri.types import gojson
from nri.types.v1 import STATES, State

if TYPE_CHECKING:
    from nri.testing.conformance.replies import Reply
    from nri.testing.conformance.running import PluginRunner

_AT_ONCE = 8


class Trial:
    """One plugin.

    :param plugin_type: its type.
    :param conf: for its requests; None for none.
    :ivar life: each state with the reply to its request, in the order of a life.
    :ivar leaves_stdin: whether the plugin does not read its stdin.
    :ivar at_once: the fault of several runs at the same time; then the plugin is run for one request at a time.
    """

    def __init__(self, runner: PluginRunner, plugin_type: str, conf: Any) -> None:
        self.runner, self.type, self.conf = runner, plugin_type, conf
        self.life: dict[str, Reply] = {}
        self.leaves_stdin = False
        self.at_once: BrokenRuleError | None = None
        self._prefix = f"nri-conformance-{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)
        self._broken: BrokenRuleError | None = None
        self._late: BrokenRuleError | None = None
        self._steady: Any = None

    # What several checks look at

    def prepare(self) -> None:
        """Run a container's life, from ``setup`` to ``delete``, and several runs at once.

        If ``create`` is not answered, nothing else is run.
        """
        try:
            self.life = {State.CREATE: self.create()[0]}
            self.plain.result()
        except BrokenRuleError as error:
            self._broken = error
            return
        try:
            self._look_around()
        except BrokenRuleError as error:
            self._late = error

    def _look_around(self) -> None:
        container = self.new_id()
        self.life = {state: self.invoke(request(state, container, self.conf)) for state in STATES}
        first, second = (_form(*self.create()) for _ in range(2))
        self._steady = first if first == second else None
        self.leaves_stdin = self.runner.leaves_unread(encode(request(State.CREATE, self.new_id(), self.conf)))
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for reply, _ in list(pool.map(lambda number: self.create(), range(_AT_ONCE))):
                    reply.result()
        except BrokenRuleError as error:
            self.at_once = error

    @property
    def plain(self) -> Reply:
        """The reply to an ordinary ``create``.

        :raises BrokenRuleError: if the plugin cannot be started.
        """
        if State.CREATE not in self.life:
            raise self._broken or NotJudgedError("there was no run")
        return self.life[State.CREATE]

    def results(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the states of the life that have a result, each with it.

        :raises NotJudgedError: if there is none at all.
        """
        found = []
        for state, reply in self.life.items():
            try:
                found.append((state, reply.document()))
            except BrokenRuleError:
                continue
        if not found:
            raise NotJudgedError("there is no result")
        return found

    def must_answer(self) -> None:
        """Raise :class:`NotJudgedError` if not even an ordinary ``create`` is answered.

        :raises BrokenRuleError: if there was no time to find out.
        """
        if self._broken is not None:
            raise NotJudgedError("an ordinary create is not answered")
        if self._late is not None:
            raise self._late

    def must_read(self) -> None:
        """Raise :class:`NotJudgedError` if the plugin leaves its stdin unread: it cannot refuse what is there."""
        self.must_answer()
        if self.leaves_stdin:
            raise NotJudgedError("it leaves its stdin unread, as it may")

    # Runs

    def new_id(self) -> str:
        """Return an id that no other request has; all are of the same length."""
        return f"{self._prefix}-{next(self._numbers):04}"

    def run(self, *words: str, **how: Any) -> Reply:
        """Run the plugin with these words, as :meth:`PluginRunner.run` does."""
        return self.runner.run(words, **how)

    def invoke(self, value: Any, **how: Any) -> Reply:
        """Run ``TYPE invoke`` with a request, a JSON value or bytes, on its stdin."""
        return self.run("invoke", stdin=value if isinstance(value, bytes) else encode(value), **how)

    def create(self) -> tuple[Reply, str]:
        """Return the reply to an ordinary ``create`` of a new container, and its id."""
        container = self.new_id()
        return self.invoke(request(State.CREATE, container, self.conf)), container

    def answer(self, value: Any, **how: Any) -> dict[str, Any]:
        """Return the result that a request gets.

        :param value: the request: a JSON value, or bytes.
        :raises BrokenRuleError: if there is none.
        """
        self.must_answer()
        return self.invoke(value, **how).result()

    def same_answer(self, value: Any, container: str, what: str, **how: Any) -> None:
        """Compare the result that a request gets with that of an ordinary ``create``; ids do not count.

        :param container: the id in the request.
        :param what: the difference between the two requests, for the error.
        """
        self.must_answer()
        self.same_as_create(self.invoke(value, **how), container, what)

    def same_as_create(self, reply: Reply, container: str, what: str) -> None:
        """Compare the result in a reply with that of an ordinary ``create``, as :meth:`same_answer`."""
        result = reply.result()
        if self._steady is not None and _form(reply, container) != self._steady:
            raise BrokenRuleError(f"the same result as {what}", gojson.shorten(gojson.dumps(result).decode()))


def _form(reply: Reply, container: str) -> tuple[Any, int]:
    """Return the result without the container's id, for a comparison, and the exit status."""
    document = reply.stdout.replace(container.encode(), b"ID")
    try:
        return gojson.loads(document), reply.status
    except ValueError:
        return document, reply.status
