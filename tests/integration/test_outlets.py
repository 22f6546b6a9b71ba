"""Whatever plugins, pods, runtimes and files say: nothing that a terminal obeys, and no line that they made up.

Each way in lets a plugin, a pod or a file say EVIL; each way out gives what people then read. Each way in is tried
once at each way out that it can reach.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from nri import skel
from nri.config.entries import PluginEntry
from nri.errors import NRIError
from nri.hook import Arguments
from nri.hook import run as run_hook
from nri.types.v1 import Request, Result
from nri.v1bridge import BridgeOptions
from nri.v1bridge import log as bridge_log
from nri.v1bridge.serving import serve
from nri.v2.stub import RuntimeInfo
from nri.v2.ttrpc import StatusError
from tests.integration.adaptation.starting import SERVE, STUB, install
from tests.integration.cli.running import inside, process
from tests.support.host import OCI_CONFIG, Host, plugin
from tests.support.node import Node
from tests.support.waiting import SOON

EVIL = "\x1b[2J\x1b]0;t\x07\r\nFORGED ok\x00\x08\x7f\x85\x9b31m\u2028\u202e\u200b"


def assert_fit(text: str, *, says: str = "FORGED ok") -> None:
    """One thing said in lines of our own, in which each control character is spelt out."""
    assert says in text
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert not line.lstrip().startswith("FORGED"), line


# Ways in: what a plugin, a pod or a file says


RAW = EVIL.encode().decode("latin-1")
RESULT = [["put", key, EVIL] for key in ("plugin", "version", "cgroupsPath", EVIL)]
PLUGIN_SAYS = {
    "on stderr": plugin("noop", ["stderr", f"{RAW}\n"]),
    "an error": plugin("noop", ["error", EVIL]),
    "an ignored error": plugin("noop", ["error", EVIL], failure_policy="ignore"),
    "no result": plugin("noop", ["write", RAW], ["nothing"]),
    "an invalid result": plugin("noop", ["put", "metadata", {EVIL: {EVIL: 1}}]),
}
RESULT_SAYS = {
    "metadata": plugin("noop", ["put", "metadata", {EVIL: EVIL}]),
    "all of a result": plugin("noop", *RESULT, ["put", "metadata", {"a": EVIL}]),
}
FILE_SAYS = {
    "a key": (
        json.dumps({"version": "0.1", "plugins": [{"type": "noop", EVIL: 1}]}),
        "10-test.conf",
    ),
    "a type": (json.dumps({"version": "0.1", "plugins": [{"type": EVIL}]}), "10-test.conf"),
    "a file's name": ("[]", EVIL.replace("\0", "") + ".conf"),
}


def ways(says: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("says", says.values(), ids=says)


def configure(host: Host, says: Any) -> None:
    """Have a plugin or a file say EVIL."""
    if isinstance(says, PluginEntry):
        host.configure(says)
    else:
        host.configure_text(*says)


@pytest.fixture
def host(host: Host) -> Iterator[Host]:
    directory, mask = os.getcwd(), os.umask(0o022)
    host.install("noop")
    config: dict[str, Any] = {**OCI_CONFIG, "annotations": {EVIL: EVIL}}
    config["linux"] = {**config["linux"], "cgroupsPath": EVIL}
    host.bundle(config)
    yield host
    os.chdir(directory)
    os.umask(mask)


# Out: the hook


def hook(host: Host, **state: Any) -> str:
    """All that the hook says, on stderr and in its log."""
    places: dict[str, Any] = {"conf_dir": str(host.conf), "conf_file": f"{host.root}/conf.json"}
    places |= {"bin_dirs": [str(host.bin)], "record_dir": f"{host.root}/record"}
    arguments = Arguments("create", timeout=SOON, log_file=str(host.root / "hook.log"), **places)
    stderr = io.StringIO()
    with TemporaryFile() as stdin:
        stdin.write(host.state(**state))
        stdin.seek(0)
        run_hook(arguments, stdin.fileno(), stderr)
    with open(arguments.log_file, encoding="utf-8", newline="") as log:
        logged = log.read()
    assert logged.count("\n") == stderr.getvalue().count("\n")
    return stderr.getvalue() + logged


@ways(PLUGIN_SAYS | FILE_SAYS)
def test_the_hook_says_it_in_lines_of_its_own(host: Host, says: Any) -> None:
    configure(host, says)
    assert_fit(hook(host))


@pytest.mark.parametrize("key", ["id", "bundle", "pid", "annotations"])
def test_the_state_of_a_runtime_on_the_hooks_stdin(host: Host, key: str) -> None:
    host.configure(PLUGIN_SAYS["an error"])
    value = {"bundle": f"/{EVIL}", "annotations": {EVIL: [EVIL]}}.get(key, EVIL)
    assert_fit(hook(host, **{key: value}), says="nri hook create")


# Out: the commands


def nri(host: Host, *words: str) -> str:
    request = json.dumps(
        {"id": EVIL, "labels": {EVIL: EVIL}, "spec": {"annotations": {EVIL: EVIL}}}
    )
    ran = inside(*words, *host.options, stdin=request.encode())
    return ran.stdout + ran.stderr


@ways(PLUGIN_SAYS | RESULT_SAYS | {"a key": FILE_SAYS["a key"]})
def test_nri_invoke_prints_nothing_raw(host: Host, says: Any) -> None:
    configure(host, says)
    for options in (
        (),
        ("--trace",),
        ("--trace", "--json"),
        ("--dry-run",),
        ("--dry-run", "--json"),
    ):
        assert_fit(nri(host, "invoke", "create", "--request", "-", *options))


@ways(FILE_SAYS)
def test_nri_check_names_files_and_keys(host: Host, says: Any) -> None:
    configure(host, says)
    for command in (["check"], ["check", "--json"]):
        assert_fit(nri(host, *command))


@pytest.mark.parametrize("what", ["version", "type", "schema", "stderr"])
def test_nri_check_shows_what_a_plugin_says_of_itself(host: Host, what: str) -> None:
    about = {
        "type": "noop",
        "nri": "0.1",
        "version": "1",
        **{key: EVIL for key in [what] if key in ("version", "type")},
    }
    schema = {
        "type": "object",
        "properties": {EVIL: {}},
        "additionalProperties": False,
        "description": EVIL,
    }
    code = (
        "sys.exit(sys.stderr.write(EVIL) and 3)"
        if what == "stderr"
        else f"print(json.dumps({about!r}))"
    )
    host.script(
        "noop",
        f"#!{sys.executable}\nimport json, sys\nEVIL = {EVIL!r}\n"
        f"if sys.argv[1] in ('version', 'invoke'): {code}\nelse: print({json.dumps(schema)!r})\n",
    )
    host.configure_text(
        json.dumps({"version": "0.1", "plugins": [{"type": "noop", "conf": {EVIL + "a": EVIL}}]})
    )
    for options in ((), ("--json",)):
        assert_fit(nri(host, "check", *options))


# Out: the bridge


@contextmanager
def bridge(host: Host) -> Iterator[tuple[Node, Path]]:
    """A bridge on the host, and its log."""
    logger = logging.getLogger("nri")
    before = logger.handlers[:], logger.level, logger.propagate
    path = host.root / "bridge.log"
    options = BridgeOptions(log_file=str(path), log_level="debug")
    bridge_log.set_up(options, launched=True)
    try:
        yield Node(host), path
    finally:
        bridge_log.drain()
        logger.handlers[:], logger.propagate = before[0], before[2]
        logger.setLevel(before[1])


@ways(PLUGIN_SAYS | RESULT_SAYS | FILE_SAYS)
def test_bridge_logs_and_answers_in_lines_of_its_own(host: Host, says: Any) -> None:
    configure(host, says)
    with bridge(host) as (node, path):
        for event in (node.create, node.start):
            try:
                event()
            except StatusError as error:
                assert_fit(error.message)
        assert node.bridge.chains.wait_until_idle(SOON)
    assert_fit(path.read_bytes().decode())


def test_pods_and_runtimes_are_called_what_they_like(host: Host) -> None:
    host.configure(plugin("noop", states=["update"]))
    with bridge(host) as (node, path):
        node.runtime(EVIL, EVIL)
        node.bridge.configure("", RuntimeInfo(name=EVIL, version=f"v2.{EVIL}"))
        node.run_pod(name=EVIL, namespace=EVIL, id=EVIL, annotations={EVIL: EVIL})
        for event in (node.start, node.update, node.stop):
            event(name=EVIL, id=EVIL)
    logged = path.read_bytes().decode()
    assert logged.count("FORGED") >= 7
    assert_fit(logged)


def test_the_bridges_own_settings_are_no_way_either(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    file = host.root / "settings.json"
    file.write_text(json.dumps({EVIL: EVIL, "logFile": EVIL}))
    ran = process("bridge", "--config", str(file))
    assert ran.status == 1
    assert_fit(ran.stdout + ran.stderr)
    with pytest.raises(NRIError, match="unknown key"):
        serve(options_file=str(file))


# Out: a plugin itself


class Evil(skel.Plugin):
    type = "evil"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def invoke(self, request: Request) -> Result:
        raise self.error


def test_a_plugin_that_fails_says_so_in_lines_of_its_own() -> None:
    for error in (ValueError(EVIL), SystemExit(EVIL), NRIError(EVIL)):
        stdout, stderr = io.BytesIO(), io.StringIO()
        assert (
            skel.run(Evil(error), ["evil", "invoke"], io.BytesIO(b'{"id": "a"}'), stdout, stderr)
            == 0
        )
        assert_fit(Result.from_json(stdout.getvalue()).error)
        assert_fit(stderr.getvalue(), says="")


@pytest.mark.parametrize(
    "stdin", [json.dumps({"id": [EVIL]}), json.dumps({"state": EVIL}), EVIL], ids=range(3)
)
def test_a_plugin_says_what_is_wrong_with_a_request_in_one_line(stdin: str) -> None:
    stdout, stderr = io.BytesIO(), io.StringIO()
    skel.run(Evil(ValueError("x")), ["evil", EVIL], io.BytesIO(stdin.encode()), stdout, stderr)
    said = stderr.getvalue() + (
        Result.from_json(stdout.getvalue()).error if stdout.getvalue() else ""
    )
    assert_fit(said, says="")


# Out: nri simulate


# On stderr it may print as many lines as it likes.
@ways({key: says for key, says in (PLUGIN_SAYS | RESULT_SAYS).items() if key != "on stderr"})
def test_nri_simulate_prints_nothing_raw(host: Host, says: Any) -> None:
    configure(host, says)
    for options in ((), ("--json",)):
        ran = process(
            "simulate", str(host.conf), "--bin-dir", str(host.bin), "--containers=0", *options
        )
        assert_fit(ran.stdout, says="FORGED")
        assert_fit(ran.stderr, says="")


def test_nor_does_it_with_a_v2_plugin(tmp_path: Path) -> None:
    text = f"""
    def run_pod_sandbox(self, request, call):
        print({EVIL.replace(chr(10), "")!r}, flush=True)
        from nri.errors import NRIError
        raise NRIError({EVIL!r})
"""
    path = install(tmp_path / "plugins", "10-evil", STUB + text + SERVE)
    for options in ((), ("--json",)):
        ran = process("simulate", str(path), *options)
        assert_fit(ran.stdout)
        assert_fit(ran.stderr, says="")
