"""`nri status`: what it prints of a bridge that answers, of one that does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.running import COMMAND, SOURCE, Ran, inside, process
from tests.support import status_documents as documents
from tests.support.processes import MEASURED
from tests.support.status_server import serving


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "v1bridge.sock"


def both_ways(*words: str) -> Ran:
    """Run a command by click and as a process, which answers a probe without click: they agree."""
    ours, theirs = inside("status", *words), process("status", *words)
    assert (ours.status, ours.stdout, ours.stderr) == (theirs.status, theirs.stdout, theirs.stderr)
    return theirs


@pytest.mark.parametrize(
    ("make", "status", "line"),
    [
        (documents.healthy, 0, "well: connected to containerd v2.1.9, 2 plugins"),
        (documents.connecting, 1, "degraded: the bridge looks for its runtime"),
    ],
)
def test_a_check_is_a_line_and_a_status(path: Path, make: Any, status: int, line: str) -> None:
    with serving(path, make()):
        ran = both_ways("--check", "--socket", str(path))
    assert (ran.status, ran.stdout, ran.stderr) == (status, f"{line}\n", "")


@pytest.mark.parametrize("answer", [b"", b'{"protocol": 9}', b"\x1b[2J"])
def test_an_answer_that_is_no_status_counts_as_no_bridge(path: Path, answer: bytes) -> None:
    with serving(path, answer):
        ran = both_ways("--check", "--socket", str(path))
        assert (ran.status, ran.stderr) == (2, "")
        assert ran.stdout.startswith(f"no bridge: {path}: ")
        page = inside("status", "--socket", str(path))
    assert (page.status, page.stdout) == (1, "")
    assert page.stderr.startswith(f"{path}: ")


def test_a_check_without_a_bridge(path: Path) -> None:
    ran = both_ways("--check", "--socket", str(path))
    assert (ran.status, ran.stdout) == (2, f"no bridge: {path} does not exist\n")


@pytest.mark.parametrize("stdout", ["closed", "full", "latin-1"])
def test_the_status_of_a_check_does_not_depend_on_its_stdout(path: Path, stdout: str) -> None:
    name = "\u2026\u0416"
    shell = {"closed": ">&-", "full": "> /dev/full", "latin-1": ""}[stdout]
    environment = {"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "PYTHONIOENCODING": "latin-1", **MEASURED}
    with serving(path, documents.healthy(plugins=[documents.plugin(name, problem="not found")])):
        ran = subprocess.run(
            ["sh", "-c", f'exec "$@" {shell}', "sh", *COMMAND, "status", "--check", "--socket", str(path)],
            env=environment,
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_a_page_needs_no_unicode(path: Path) -> None:
    with serving(path, documents.healthy(plugins=[documents.plugin("caf\u00e9-\u0416")])):
        ran = subprocess.run(
            [*COMMAND, "status", "--socket", str(path)],
            env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "PYTHONIOENCODING": "latin-1", **MEASURED},
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\ncaf\xe9-\\u0416 " in ran.stdout


@pytest.mark.parametrize("words", [[], ["--pod", "default/web"]], ids=" ".join)
def test_no_bridge_is_an_error(path: Path, words: list[str]) -> None:
    ran = inside("status", "--socket", str(path), *words)
    said = f"no bridge: {path} does not exist; without one, `nri check` looks at the plugins\n"
    assert (ran.status, ran.stdout, ran.stderr) == (1, "", said)


@pytest.mark.parametrize("name", ["web", "/web", "default/", "a/b/c"])
def test_a_pod_is_a_namespace_and_a_name(name: str) -> None:
    ran = inside("status", "--pod", name)
    assert ran.status == 2
    assert "expected NAMESPACE/NAME" in " ".join(ran.stderr.split())


@pytest.mark.parametrize(
    "words", [["--check", "--pod", "a/b"], ["--check", "--alive"], ["--check", "--json"]], ids=" ".join
)
def test_options_that_exclude_each_other(words: list[str]) -> None:
    ran = inside("status", *words)
    assert (ran.status, ran.stdout) == (2, "")
    assert "exclude each other" in ran.stderr
