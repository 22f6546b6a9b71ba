"""nri plugins: what would run, in order."""

from __future__ import annotations

from nri.config.entries import PluginEntry
from tests.integration.cli.running import command
from tests.support.host import Host


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
