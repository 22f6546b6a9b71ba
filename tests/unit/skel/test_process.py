"""``main``: a plugin as a real process."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import nri

ROOT = os.path.dirname(os.path.dirname(nri.__file__))
REQUEST = b'{"version":"0.1","state":"create","id":"a"}'

SCRIPT = """
import sys
sys.path.insert(0, {root!r})
{before}
from nri import skel

class Noop(skel.Plugin):
    type = "noop"

    def invoke(self, request):
        {body}
        return request.new_result(self.type)

skel.main(Noop())
"""


def run(
    *argv: str, body: str = "pass", before: str = "", shell: str = "", **streams: int
) -> subprocess.CompletedProcess[bytes]:
    """Run a plugin whose invoke does ``body``; ``shell`` are redirections, ``streams`` stdin and stdout."""
    script = SCRIPT.format(root=ROOT, body=body, before=before)
    command = [
        "sh",
        "-c",
        f'exec "$@" {shell}',
        "sh",
        sys.executable,
        "-I",
        "-S",
        "-c",
        script,
        *argv,
    ]
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    if "stdin" not in given:
        given["input"] = REQUEST
    return subprocess.run(command, check=False, timeout=60, **given)


def assert_clean(ran: subprocess.CompletedProcess[bytes]) -> None:
    """The result is all that is on stdout."""
    assert ran.returncode == 0
    assert json.loads(ran.stdout) == {"plugin": "noop", "version": "0.1", "error": ""}
    assert ran.stdout.count(b"\n") == 1


def test_output_of_a_plugin_and_its_children_goes_to_stderr() -> None:
    ran = run("invoke", body="print('printed'); sys.stdout.write('written\\n')")
    assert_clean(ran)
    assert ran.stderr == b"printed\nwritten\n"
    ran = run("invoke", body="import os; os.write(1, b'raw\\n'); os.system('echo child')")
    assert_clean(ran)
    assert ran.stderr == b"raw\nchild\n"


def test_log_lines_go_to_stderr() -> None:
    ran = run(
        "invoke",
        before="import logging",
        body="logging.info('one'); logging.getLogger('x').error('two')",
    )
    assert_clean(ran)
    assert ran.stderr == b"INFO: one\nERROR: two\n"
    ran = run("invoke", body="import logging; logging.warning('late')")
    assert_clean(ran)
    assert b"late" in ran.stderr


def test_an_interrupt_is_no_traceback() -> None:
    ran = run("invoke", body="raise KeyboardInterrupt")
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("<&-", "the request on stdin: the document is empty, expected JSON"),
        (">&-", "stdout cannot be used: Bad file descriptor; expected open descriptors 0, 1, 2"),
        (
            ">/dev/full",
            "the result cannot be written to stdout: [Errno 28] No space left on device",
        ),
    ],
)
def test_unusable_stdin_or_stdout_is_exit_1(shell: str, said: str) -> None:
    ran = run("invoke", shell=shell)
    assert (ran.returncode, ran.stdout, ran.stderr.decode()) == (1, b"", f"noop: {said}\n")
    assert run("version", shell="<&-").returncode == 0


def test_a_closed_stderr_does_not_become_the_results() -> None:
    ran = run(
        "invoke",
        shell="2>&-",
        body="import os; print('lost'); os.write(1, b'lost'); os.write(2, b'lost')",
    )
    assert_clean(ran)


def test_a_full_stderr_is_no_exit_status() -> None:
    for body in (
        "sys.stderr.write('lost')",
        "print('lost', end='')",
        "import os; os.system('echo lost')",
    ):
        assert_clean(run("invoke", shell="2>/dev/full", body=body))


def test_empty_nonblocking_stdin_is_exit_1() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    try:
        ran = run("invoke", stdin=read)
    finally:
        os.close(read)
        os.close(write)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr == (
        b"noop: stdin cannot be read: there is nothing yet, and it is not to be waited for; expected a request\n"
    )


def test_a_reader_that_is_gone_is_exit_1() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ran = run("invoke", stdout=write)
    finally:
        os.close(write)
    assert ran.returncode == 1
    assert b"Broken pipe" in ran.stderr
    assert ran.stderr.count(b"\n") == 1


def test_start_loads_no_slow_module() -> None:
    body = "print(*sorted(set(sys.modules) & {'re', 'json', 'typing', 'traceback', 'collections', 'enum'}))"
    for ran, said in ((run("invoke"), b""), (run("invoke", body=body), b"\n")):
        assert_clean(ran)
        assert ran.stderr == said
