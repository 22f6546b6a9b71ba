"""``nri status --check`` and ``--alive``: a line and an exit status, for probes every few seconds on every node.

So a valid command line is parsed here, without click, and this imports little; click handles any other.
"""

from __future__ import annotations

import os

from nri.status import client
from nri.status.judging import DEGRADED, NO_BRIDGE, WELL, Verdict, judge, why_it_hangs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def run(words: Sequence[str]) -> int | None:
    """Print the verdict; return its code. None for any but a valid command line of a probe.

    :param words: those after ``nri status``.
    """
    words, path = [*words], client.DEFAULT_STATUS_SOCKET
    if "--socket" in words[:-1]:
        at = words.index("--socket")
        path = words.pop(at + 1)
        del words[at]
    if not path or words not in (["--check"], ["--alive"]):
        return None
    verdict = probe(path, is_alive=words[0] == "--alive")
    try:  # not print: the status counts, whatever the encoding or the end of stdout
        os.write(1, verdict.line.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass
    return verdict.code


def probe(path: str, *, is_alive: bool) -> Verdict:
    """Ask the bridge at a socket, and return the verdict.

    :param is_alive: ask only whether a bridge hangs: a restart helps against nothing else.
    """
    try:
        document = client.status(path)
        if not is_alive:
            return judge(document)
        hangs = why_it_hangs(document)
        return Verdict(DEGRADED, [hangs]) if hangs else Verdict(WELL, ["the bridge answers"])
    except client.NoBridgeError as error:
        return Verdict(WELL, [f"no bridge, so none hangs: {error}"]) if is_alive else Verdict(NO_BRIDGE, [str(error)])
    except client.AskError as error:
        return Verdict(NO_BRIDGE, [str(error)])
    except client.UNUSABLE as error:
        return Verdict(NO_BRIDGE, [str(client.unusable(path, error))])
