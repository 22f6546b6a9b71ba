"""`nri status`: what it prints of a bridge that answers, of one that does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.cli.running import COMMAND, SOURCE, inside
from tests.support import status_documents as documents
from tests.support.processes import MEASURED
from tests.support.status_server import serving


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "v1bridge.sock"


@pytest.mark.parametrize("stdout", ["closed", "full", "latin-1"])
def test_the_status_of_a_check_does_not_depend_on_its_stdout(path: Path, stdout: str) -> None:
    name = "\u2026\u0416"
    shell = {"closed": ">&-", "full": "> /dev/full", "latin-1": ""}[stdout]
    environment = {
        "PYTHONPATH": SOURCE,
        "PATH": os.environ["PATH"],
        "PYTHONIOENCODING": "latin-1",
        **MEASURED,
    }
    with serving(path, documents.healthy(plugins=[documents.plugin(name, problem="not found")])):
        ran = subprocess.run(
            [
                "sh",
                "-c",
                f'exec "$@" {shell}',
                "sh",
                *COMMAND,
                "status",
                "--check",
                "--socket",
                str(path),
            ],
            env=environment,
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_a_page_needs_no_unicode(path: Path) -> None:
    with serving(path, documents.healthy(plugins=[documents.plugin("caf\u00e9-\u0416")])):
        ran = subprocess.run(
            [*COMMAND, "status", "--socket", str(path)],
            env={
                "PYTHONPATH": SOURCE,
                "PATH": os.environ["PATH"],
                "PYTHONIOENCODING": "latin-1",
                **MEASURED,
            },
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
    "words",
    [["--check", "--pod", "a/b"], ["--check", "--alive"], ["--check", "--json"]],
    ids=" ".join,
)
def test_options_that_exclude_each_other(words: list[str]) -> None:
    ran = inside("status", *words)
    assert (ran.status, ran.stdout) == (2, "")
    assert "exclude each other" in ran.stderr
