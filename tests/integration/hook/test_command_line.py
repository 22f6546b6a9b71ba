"""``nri hook`` as a process: what a valid command line imports and waits for, and what click does with the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.host import OCI_CONFIG, Host, plugin

SOURCE = str(Path(__file__).parents[3])
HEAVY = (
    *(
        "click",
        "jsonschema",
        "referencing",
        "google",
        "json",
        "re",
        "subprocess",
        "logging",
        "typing",
        "asyncio",
    ),
    *(
        "signal",
        "enum",
        "dataclasses",
        "pathlib",
        "importlib.metadata",
        "importlib.resources",
        "traceback",
    ),
)


def nri(
    host: Host, *words: str, stdin: bytes | None = b"", code: str = ""
) -> subprocess.CompletedProcess[bytes]:
    program = f"import sys\n{code}\nsys.argv = {['nri', *words]!r}\nfrom nri.cli.entry import main\nmain()\n"
    return subprocess.run(
        [sys.executable, "-S", "-c", program],
        input=stdin,
        env={"PYTHONPATH": ":".join([SOURCE, *sys.path])},
        capture_output=True,
        check=False,
    )


def test_valid_command_line_imports_nothing_heavy(host: Host) -> None:
    host.install("noop")
    host.configure(
        plugin(
            "noop", ["stderr", "hello\n"], timeout=20.5, states=["update"], failure_policy="fail"
        )
    )
    host.bundle(OCI_CONFIG)
    report = "import os; end = os._exit; os._exit = lambda status: "
    report += "(print(sorted(sys.modules), flush=True), end(status))"
    done = nri(host, "hook", "create", *host.options, stdin=host.state(), code=report)
    assert (done.returncode, done.stderr) == (0, b"nri: noop: hello\n")
    loaded = set(eval(done.stdout))
    assert "nri.process.conversation" in loaded
    assert loaded.intersection(HEAVY) == set()


def test_invalid_command_line_is_explained_with_status_2(host: Host) -> None:
    done = nri(host, "hook", "start", *host.options)
    assert done.returncode == 2
    assert b"Invalid value" in done.stderr
    assert b"Usage: nri hook" in done.stderr


@pytest.mark.parametrize("words", [["create"], ["create", "--"]], ids=" ".join)
def test_missing_stdin_is_reported(host: Host, words: list[str]) -> None:
    host.configure(plugin("noop"))
    done = nri(
        host, "hook", *host.options, *words, code="import os\nsys.stdin.close()\nsys.stdin = None"
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        b"nri hook create: the container's state on stdin: the document is empty"
    )


def test_click_runs_the_same_hook(host: Host) -> None:
    host.install("noop")
    host.configure(plugin("noop", ["error", "no"]))
    host.bundle(OCI_CONFIG)
    done = nri(
        host,
        "hook",
        *host.options,
        f"--log-file={host.root}/log",
        "--",
        "create",
        stdin=host.state(),
    )
    assert (done.returncode, done.stderr) == (1, b"nri hook create redis: plugin noop: no\n")
    assert (host.root / "log").read_text().endswith(" nri hook create redis: plugin noop: no\n")
