"""Plugins as their authors write them, in a folder, and ``nri build`` on them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.cli.running import Ran, process

SOURCE = str(Path(__file__).parents[3])

PLUGIN = """{top}
from nri import skel


class Authored(skel.Plugin):
    type = {type!r}
    {more}

    def invoke(self, request):
        result = request.new_result(self.type)
        {invoke}
        return result


if __name__ == "__main__":
    skel.main(Authored())
"""

REQUEST = json.dumps(
    {"version": "0.1", "state": "create", "id": "web", "sandboxID": "pod", "conf": {"cpus": "2-3"}}
)


def plugin(type_: str, *, top: str = "", more: str = "", invoke: str = "pass") -> str:
    """The source of a plugin."""
    return PLUGIN.format(type=type_, top=top, more=more, invoke=invoke)


def build(folder: Path, *words: str, path: str = "") -> Ran:
    """Run ``nri build`` in this folder; *path* is a folder with packages."""
    return process(
        "build", *words, cwd=folder, PYTHONPATH=os.pathsep.join([SOURCE, *filter(None, [path])])
    )


def answer(executable: Path, verb: str = "invoke") -> Any:
    """What an executable answers in an empty environment, far from where it was built."""
    done = subprocess.run(
        [executable, verb],
        input=REQUEST.encode(),
        capture_output=True,
        check=True,
        env={},
        cwd="/",
        timeout=60,
    )
    return json.loads(done.stdout)


class Built(NamedTuple):
    """A folder with sources, and what was built of them."""

    folder: Path
    ran: Ran

    @property
    def result(self) -> Path:
        return self.folder / "out/pair"
