"""What a plugin does when it runs from its source: its type, the modules that it loads, what their import costs."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

from nri.authoring.build_errors import BuildError
from nri.authoring.interpreter import rehearsal, run_python
from nri.config.entries import TYPE_PATTERN
from nri.process.spawn import PLUGIN_ENVIRONMENT
from nri.types import gojson

if TYPE_CHECKING:
    from nri.process.conversation import Output

ANSWER_WITHIN = 30.0
"""Seconds that a plugin has for one run."""

EXPENSIVE = (
    *(
        "dataclasses",
        "typing",
        "enum",
        "re",
        "pathlib",
        "logging",
        "subprocess",
        "json",
        "argparse",
        "inspect",
        "asyncio",
    ),
    *(
        "datetime",
        "decimal",
        "socket",
        "ssl",
        "threading",
        "tempfile",
        "urllib.request",
        "http.client",
        "collections",
    ),
)
"""Modules of the standard library whose import costs a millisecond or more, for the hint; packages are named, too."""

HINT_FROM = 0.5  # milliseconds of an import that is worth a hint
_IMPORT_TIME = re.compile(r"import time:\s+\d+ \|\s+(\d+) \| ( *)(\S+)")


class Rehearsed:
    """A plugin's runs from its source.

    :param script: its source file.
    :param search: the folders for its imports, that of the script first.
    :param scratch: an existing folder for files of this object.
    :raises BuildError: when it is no plugin, or can't be loaded.
    """

    def __init__(self, script: str, search: list[str], scratch: str) -> None:
        self.script, self._search, self._scratch = script, search, scratch
        self.loaded: set[str] = set()  # modules that any run has loaded
        self.is_complete = True  # False if a run did not report what it has loaded
        self.about = self._about()
        self.type: str = self.about["type"]

    def run(self, verb: str, stdin: bytes = b"", *, options: tuple[str, ...] = ()) -> tuple[Output, list[str]]:
        """Run the plugin once; return its output, and the lines of its stderr.

        :raises BuildError: when the source fails before the plugin answers.
        """
        report = os.path.join(self._scratch, "report")
        if os.path.exists(report):
            os.unlink(report)
        lines: list[str] = []
        arguments = [*options, *rehearsal(self.script, verb, self._search, report)]
        output = run_python(arguments, stdin, ANSWER_WITHIN, PLUGIN_ENVIRONMENT, lines)
        if output.stopped:
            why = f"no answer within {ANSWER_WITHIN:g} s" if output.stopped == "deadline" else "it wrote too much"
            raise BuildError(f"{self.script}: it was run as '{verb}', and killed: {why}; work belongs into invoke()")
        try:
            with open(report, encoding="utf-8") as file:
                reported = file.read().splitlines()
        except OSError:
            self.is_complete = False
            return output, lines
        self.loaded |= {name for name in reported if not name.startswith(" ")}
        for failure in [line[1:] for line in reported if line.startswith(" ")]:
            self._fail(failure)
        return output, lines

    def costs(self) -> dict[str, float]:
        """Return the milliseconds that imports at the plugin's start take, largest first, those that are a hint.

        A module counts with all that it imports. What is part of another one here is left out.
        """
        _, lines = self.run("schema", options=("-X", "importtime"))
        own = {os.path.splitext(name)[0] for name in os.listdir(os.path.dirname(self.script))} | {"nri"}
        found: dict[str, float] = {}
        above: list[tuple[int, str]] = []
        # An import is reported after those that it caused, which are indented.
        for match in [_IMPORT_TIME.match(line) for line in reversed(lines)]:
            if match is None:
                continue
            depth, name, cost = len(match[2]), match[3], int(match[1]) / 1000
            while above and above[-1][0] >= depth:
                above.pop()
            top = name.partition(".")[0]
            is_package = top not in sys.stdlib_module_names and top not in own
            if not above and cost >= HINT_FROM and (name in EXPENSIVE or is_package):
                found[name] = cost
                above.append((depth, name))
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def _about(self) -> dict[str, Any]:
        output, lines = self.run("version")
        try:
            about = gojson.loads(output.stdout) if output.status == 0 else None
        except ValueError:
            about = None
        if not isinstance(about, dict) or not isinstance(about.get("type"), str) or "nri" not in about:
            said = f" ({lines[-1]})" if lines else ""
            found = output.ending or "other output"
            raise BuildError(f"{self.script}: no plugin: asked for 'version', it gave {found}{said}, expected JSON")
        if not re.fullmatch(TYPE_PATTERN, about["type"]):
            found = gojson.shorten(repr(about["type"]))
            raise BuildError(f"{self.script}: its type: found {found}, expected a name such as 'batch'")
        return about

    def _fail(self, failure: str) -> None:
        if failure == "ended":
            raise BuildError(f"{self.script}: no plugin: it ends without skel.main(PLUGIN())")
        script, line, missing, text = failure.split("\t", 3)
        where = f"{script}:{line}" if line != "0" else script
        advice = f"; install it for {sys.executable}, which runs nri" if missing else ""
        raise BuildError(f"{where}: it can't be loaded: {text}{advice}")
