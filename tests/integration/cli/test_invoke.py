"""nri invoke: the chain once, by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from nri.testing.pods import recorded
from tests.integration.cli.running import COMMAND, SOURCE, Ran, command, inside, process
from tests.support.host import OCI_CONFIG, Host, plugin, request
from tests.support.waiting import SOON


@pytest.fixture
def host(host: Host) -> Host:
    host.install("noop")
    host.configure(plugin("noop", ["echo"], states=["update"]))
    host.bundle(OCI_CONFIG)
    (host.root / "request.json").write_bytes(request().to_json())
    return host


def invoke(host: Host, *words: str, stdin: bytes = b"") -> Ran:
    return command(host, "invoke", "create", *words, stdin=stdin)


def from_request(host: Host) -> list[str]:
    return ["--request", f"{host.root}/request.json"]


def from_spec(host: Host) -> list[str]:
    return ["--spec", f"{host.root}/bundle/config.json", "--id", "redis"]


def sent(ran: Ran) -> dict[str, Any]:
    """The request that the plugin echoes, without its conf."""
    assert (ran.status, ran.stderr) == (0, "")
    (result,) = ran.json
    seen: dict[str, Any] = result["echo"]["request"]
    del seen["conf"]
    return seen


def test_request_comes_from_a_file_or_stdin(host: Host) -> None:
    expected = json.loads(request().to_json())
    assert sent(invoke(host, *from_request(host), "--json")) == expected
    assert sent(invoke(host, "--request", "-", "--json", stdin=request().to_json())) == expected
    assert (
        sent(command(host, "invoke", "update", *from_request(host), "--json"))["state"] == "update"
    )


def test_a_request_is_made_from_a_spec(host: Host) -> None:
    ran = invoke(host, *from_spec(host), "--pid", "7", "--label", "a=b=c", "--json")
    seen = sent(ran)
    assert (seen["id"], seen["pid"], seen["labels"]) == ("redis", 7, {"a": "b=c"})
    assert seen["spec"]["cgroupsPath"] == "/kubepods/podabc/redis"


@pytest.mark.parametrize("origin", [from_request, from_spec])
def test_annotations_and_labels_are_added(host: Host, origin: Any) -> None:
    words = ["--annotation", "qos.class=be", "--annotation", "x=", "--label", "app=r"]
    seen = sent(invoke(host, *origin(host), *words, "--json"))
    assert seen["spec"]["annotations"] == {"qos.class": "be", "x": ""}
    assert seen["labels"] == {"app": "r"}


def test_results_are_shown_as_a_table(host: Host) -> None:
    host.configure(plugin("noop", ["put", "metadata", {"cpus": "1", "x": "\x1b[2J"}]))
    ran = invoke(host, *from_request(host))
    assert (ran.status, ran.stdout) == (0, "PLUGIN  RESULT\nnoop    cpus=1 x=\\x1b[2J\n")


def test_an_empty_chain_is_reported(host: Host) -> None:
    ran = command(host, "invoke", "pause", *from_request(host))
    assert (ran.status, ran.stdout) == (0, "no plugin is configured for pause\n")
    assert command(host, "invoke", "pause", *from_request(host), "--json").json == []
    ran = command(host, "invoke", "pause", *from_request(host), "--dry-run")
    assert (ran.status, ran.stdout) == (0, "no plugin is configured for pause\n")


def test_a_dry_run_shows_the_requests_and_runs_nothing(host: Host) -> None:
    note = str(host.root / "note")
    host.configure(plugin("noop", ["note", note, "ran"]), plugin("missing"))
    ran = invoke(host, *from_request(host), "--dry-run")
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith("# to noop, without the results of the plugins before it\n{")
    first, second = invoke(host, *from_request(host), "--dry-run", "--json").json
    assert first["conf"] == {"do": [["note", note, "ran"]]}
    assert "conf" not in second
    assert not os.path.exists(note)


def test_a_trace_shows_what_was_sent_and_what_came(host: Host) -> None:
    host.configure(
        plugin("noop", ["put", "metadata", {"a": "b"}]),
        plugin("noop", ["write", "\x1b[2J?"], ["nothing"]),
        plugin("x"),
    )
    ran = command(host, "invoke", "delete", *from_request(host), "--trace")
    assert ran.status == 1
    for part in (
        f"noop  {host.bin}/noop  ",
        " ms\n",
        '  request: {\n    "conf"',
        '"metadata": {\n      "a": "b"',
    ):
        assert part in ran.stdout
    assert "  stdout: \\x1b[2J?\n  error: no valid result: " in ran.stdout
    assert "x  not run  " in ran.stdout
    assert ran.stderr.startswith("plugin noop: no valid result: ")


def test_a_trace_for_programs_has_every_exchange(host: Host) -> None:
    host.configure(plugin("noop", ["error", "no"]), plugin("missing"), plugin("noop"))
    ran = command(host, "invoke", "delete", *from_request(host), "--trace", "--json")
    assert ran.status == 1
    first, second, third = ran.json
    assert (first["plugin"], first["binary"]) == ("noop", f"{host.bin}/noop")
    assert (first["result"], first["error"]) == (None, "no")
    assert (second["binary"], second["error"]) == (
        None,
        f"not found: no such executable in {host.bin}",
    )
    assert (third["error"], third["result"]["plugin"], third["request"]["state"]) == (
        None,
        "noop",
        "delete",
    )
    assert third["seconds"] > 0


def test_failing_plugin_is_status_1_with_its_message(host: Host) -> None:
    host.configure(
        plugin("noop"), plugin("noop", ["stderr", "hm\x1b[2J\n"], ["error", "no \x1b[2J"])
    )
    for words in ([], ["--json"]):
        ran = invoke(host, *from_request(host), *words)
        assert (ran.status, ran.stderr) == (1, "noop: hm\\x1b[2J\nplugin noop: no \\x1b[2J\n")
    assert [result["error"] for result in ran.json] == ["", "no \\x1b[2J"]


def test_a_plugin_has_the_time_it_is_given(host: Host) -> None:
    host.configure(plugin("noop", ["hang"]))
    assert invoke(host, *from_request(host), "--timeout", "0.2").stderr == (
        "plugin noop: killed: no result after 0.2 s\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create"], "expected one of --request and --spec"),
        (["create", "--spec", "a"], "--spec needs the container's --id"),
        (["create", "--request", "a", "--id", "x"], "--id and --pid need --spec"),
        (["create", "--spec", "a", "--id", "x", "--pid", "-1"], "'--pid'"),
        (["create", "--request", "-", "--annotation", "a"], "found 'a', expected KEY=VALUE"),
        (["create", "--request", "-", "--label", "=b"], "found '=b', expected KEY=VALUE"),
        (["create", "--request", "-", "--timeout", "nan"], "is not a number"),
        (["start", "--request", "-"], "'start' is not one of 'setup', 'create',"),
    ],
)
def test_a_wrong_command_line_is_status_2(host: Host, words: list[str], message: str) -> None:
    ran = command(host, "invoke", *words, stdin=b"{}")
    assert (ran.status, ran.stdout) == (2, "")
    assert message in ran.stderr


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, '{"pid": 1.5}', '{"spec": "x\x1b[2J"}'], ids=lambda text: text[:9]
)
def test_hostile_files_are_named(host: Host, text: str) -> None:
    path = host.root / "hostile\x1b[2J.json"
    path.write_text(text)
    for words in (["--request", str(path)], ["--spec", str(path), "--id", "x"]):
        ran = invoke(host, *words)
        if ran.status == 0:
            assert words[0] == "--spec"  # an OCI configuration has no pid, nor a spec
        else:
            assert ran.status == 1
            assert "hostile\\x1b[2J.json: " in ran.stderr
    assert invoke(host, "--request", "-", stdin=text.encode()).stderr.startswith("stdin: ")


def test_a_file_that_cannot_be_read_is_named(host: Host) -> None:
    for words in (
        ["--request", "/nowhere"],
        ["--request", "/dev/zero"],
        ["--id", "x", "--spec", "/dev/zero"],
    ):
        ran = invoke(host, *words)
        assert ran.status == 1
        assert ran.stderr.startswith(f"{words[-1]}: ")


def test_a_pid_that_no_kernel_has_is_reported(host: Host) -> None:
    ran = invoke(host, *from_spec(host), "--pid", "9" * 30)
    assert ran.status == 1
    assert "request.pid: " in ran.stderr


def test_directories_may_be_relative(host: Host) -> None:
    places = ["--conf-dir", "resource.d", "--bin-dir", "bin", "--conf-file", "c"]
    assert (
        sent(
            inside(
                "invoke", "create", *places, "--request", "request.json", "--json", cwd=host.root
            )
        )["id"]
        == "redis"
    )


def test_ignored_sigchld_does_not_hide_the_exit_status(host: Host) -> None:
    host.configure(plugin("noop", ["answer"], ["exit", 3]))
    code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    code += "; os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            *COMMAND,
            "invoke",
            "create",
            *host.options,
            *from_request(host),
        ],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert (done.returncode, "exit status 3, although" in done.stderr) == (1, True)


def test_without_a_stdin_it_says_so(host: Host) -> None:
    ran = process("invoke", "create", *host.options, "--request", "-", stdin=None)
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr.startswith("stdin: the document is empty")


# Conditions


def lines(host: Host, state: str, *words: str) -> list[str]:
    """The lines about plugins that do not run, and about those that would."""
    (host.root / "request.json").write_text(
        json.dumps(recorded("bridge/containerd-1.7.24.container-create"))
    )
    ran = command(host, "invoke", state, *from_request(host), *words)
    assert (ran.status, ran.stderr) == (0, "")
    return [line for line in ran.stdout.splitlines() if line.startswith(("#", "no "))]


def test_plugins_that_would_not_run_are_named_with_the_reason(host: Host) -> None:
    host.configure(
        plugin("konfine", when={"namespaces": ["kube-system"]}),
        plugin("noop", when={"namespaces": ["default"], "runtimeHandler": ["kata"]}),
        plugin("c", states=["update"]),
    )
    assert lines(host, "create", "--dry-run") == [
        '# konfine does not run: namespace "default", expected kube-system',
        "# to noop, without the results of the plugins before it",
        "# to c, without the results of the plugins before it",
    ]
    assert lines(host, "resize") == ["no plugin is configured for resize"]


def test_each_entry_of_a_plugin_that_does_not_run_is_named(host: Host) -> None:
    host.configure(*[plugin("noop", when={"namespaces": [name]}) for name in ("a", "b", "default")])
    file = f"{host.conf}/10-test.conf"
    assert lines(host, "create") == [
        f'# noop ({file}: plugins[0]) does not run: namespace "default", expected a',
        f'# noop ({file}: plugins[1]) does not run: namespace "default", expected b',
    ]


# What plugins change


def changing(host: Host, **result: Any) -> None:
    """The plugin asks for this in answer to setup; it runs for resize, too."""
    host.configure(
        plugin(
            "noop",
            *[["put", key, value] for key, value in result.items()],
            states=["setup", "resize"],
        )
    )


def test_the_changes_of_a_setup_are_shown_and_the_file_stays(host: Host) -> None:
    changing(host, adjust={"env": {"A": "1"}, "linux": {"oomScoreAdj": -5}})
    before = (host.root / "bundle/config.json").read_bytes()
    ran = command(host, "invoke", "setup", *from_spec(host))
    assert (ran.status, ran.stderr) == (0, "")
    assert 'adjust env: {"A": "1"}\nadjust linux.oomScoreAdj: -5\n' in ran.stdout
    assert (host.root / "bundle/config.json").read_bytes() == before


def test_changes_that_a_host_refuses_are_an_error(host: Host) -> None:
    changing(
        host,
        adjust={"linux": {"devices": [{"path": "/dev/x", "type": "c", "major": "x", "minor": 1}]}},
    )
    ran = command(host, "invoke", "setup", *from_spec(host))
    assert ran.status == 1
    assert (
        ran.stderr
        == "plugin noop: adjust.linux.devices[0].major: found the string 'x', expected an integer of 64 bits\n"
    )


def test_updates_are_shown(host: Host) -> None:
    changing(host, updates=[{"id": "other", "resources": {"cpu": {"shares": 2}}}])
    ran = command(host, "invoke", "resize", *from_request(host))
    assert 'update of other: {"cpu": {"shares": 2}}\n' in ran.stdout


def test_a_dry_run_of_setup_shows_what_can_be_changed(host: Host) -> None:
    changing(host, adjust={})
    (sent,) = command(host, "invoke", "setup", *from_spec(host), "--dry-run", "--json").json
    assert sent["extensions"] == {"adjust": 1, "configuration": 1}
    assert "linux" in sent["spec"]
    (sent,) = command(host, "invoke", "setup", *from_request(host), "--dry-run", "--json").json
    assert sent["extensions"] == {"adjust": 1}  # the host that made the request may have shown less
