"""nri plugins: what would run, in order, and for a given request."""

from __future__ import annotations

import json
import re

from nri.config.entries import PluginEntry
from nri.testing.recorded_requests import recorded
from tests.integration.cli.running import command
from tests.support.host import Host, plugin


def test_they_are_listed_in_order_with_states_binary_and_file(host: Host) -> None:
    host.install("b")
    host.configure(PluginEntry(type="missing", states=["setup", "delete"]), name="20-x.conf")
    host.configure(PluginEntry(type="b", states=["update"]), PluginEntry(type="b"), name="10-x.conf")
    ran = command(host, "plugins")
    assert (ran.status, ran.stderr) == (0, "")
    assert [line.split()[:2] for line in ran.stdout.splitlines()] == [
        ["PLUGIN", "STATES"],
        ["b", "create,update,delete"],
        ["b", "create,delete"],
        ["missing", "setup,create,delete"],
    ]
    assert f"{host.bin}/b" in ran.stdout
    assert f"not found: no such executable in {host.bin}" in ran.stdout
    assert command(host, "plugins", "--json").json[2] == {
        "type": "missing",
        "states": ["setup", "create", "delete"],
        "source": f"{host.conf}/20-x.conf",
        "binary": None,
        "error": f"not found: no such executable in {host.bin}",
    }


def test_without_plugins_it_says_where_it_looked(host: Host) -> None:
    assert command(host, "plugins").stdout.startswith(f"no plugins: {host.conf} holds no *.conf")
    assert command(host, "plugins", "--json").json == []


def test_a_wrong_configuration_is_reported(host: Host) -> None:
    host.configure_text('{"version": "0.1", "plugins": [{"type": "\\u001b[2J"}]}')
    for words in (["plugins"], ["plugins", "--json"]):
        ran = command(host, *words)
        assert (ran.status, ran.stdout) == (1, "")
        assert ran.stderr.startswith(f"{host.conf}/10-test.conf:1:")


# For a request

REQUEST = recorded("bridge/containerd-1.7.24.container-create")


def judged(host: Host, *words: str, **changes: object) -> list[list[str]]:
    """What is said of each plugin for the request of a file: its type, and whether it runs."""
    (host.root / "request.json").write_text(json.dumps(REQUEST | changes))
    ran = command(host, "plugins", "--for", f"{host.root}/request.json", *words)
    assert (ran.status, ran.stderr) == (0, "")
    header, *rows = [re.split(" {2,}", line) for line in ran.stdout.splitlines()]
    assert header == ["PLUGIN", "RUNS", "CONFIGURED IN"]
    return [row[:2] for row in rows]


def test_it_says_which_would_run_for_a_request_and_why_not(host: Host) -> None:
    host.install("b")
    host.configure(
        PluginEntry(type="konfine", when={"namespaces": ["kube-system"]}),
        PluginEntry(type="b", when={"namespaces": ["default"], "runtimeHandler": ["kata"]}),
        PluginEntry(type="b", states=["update"]),
    )
    assert judged(host) == [
        ["konfine", 'no: namespace "default", expected kube-system'],
        ["b", "yes: runtime handler not known"],
        ["b", "yes"],
    ]
    assert judged(host, "--runtime-handler", "kata")[1] == ["b", "yes"]
    assert judged(host, "--runtime-handler", "")[1] == ["b", 'no: runtime handler "", expected kata']
    assert judged(host, state="update")[:2] == [
        ["konfine", 'no: state "update", expected one of create, delete'],
        ["b", 'no: state "update", expected one of create, delete'],
    ]
    ran = command(host, "plugins", "--json", "--for", "-", stdin=json.dumps(REQUEST).encode())
    keys = ("type", "runs", "why", "when")
    assert [[entry.get(key) for key in keys] for entry in ran.json] == [
        ["konfine", False, 'namespace "default", expected kube-system', {"namespaces": ["kube-system"]}],
        ["b", True, "runtime handler not known", {"namespaces": ["default"], "runtimeHandler": ["kata"]}],
        ["b", True, "", None],
    ]


def test_what_it_says_is_what_the_chain_does(host: Host) -> None:
    host.install("a", "b")
    host.configure(
        plugin("a", ["echo"], when={"labels": {"app": {"equals": "web"}}}),
        plugin("b", ["echo"], when={"labels": {"app": {"equals": "db"}}}),
    )
    assert [runs.partition(":")[0] for _, runs in judged(host)] == ["yes", "no"]
    ran = command(host, "invoke", "create", "--request", f"{host.root}/request.json", "--json")
    assert [result["plugin"] for result in ran.json] == ["a"]
    ran = command(host, "invoke", "create", "--request", f"{host.root}/request.json", "--dry-run")
    assert [line for line in ran.stdout.splitlines() if line.startswith("#")] == [
        "# to a, without the results of the plugins before it"
    ]


def test_invoke_says_that_no_condition_is_met(host: Host) -> None:
    host.configure(plugin("a", when={"sandbox": True}))
    (host.root / "request.json").write_text(json.dumps(REQUEST))
    ran = command(host, "invoke", "create", "--request", f"{host.root}/request.json")
    assert (ran.status, ran.stdout) == (0, "no condition (when) of a plugin is met; `nri plugins --for` says why\n")


def test_a_wrong_request_is_refused(host: Host) -> None:
    (host.root / "request.json").write_text('{"pid": "x"}')
    ran = command(host, "plugins", "--for", f"{host.root}/request.json")
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"{host.root}/request.json: ")


def test_a_runtime_handler_alone_is_a_wrong_command_line(host: Host) -> None:
    assert command(host, "plugins", "--runtime-handler", "x").status == 2
