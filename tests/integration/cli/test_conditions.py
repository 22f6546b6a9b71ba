"""nri invoke: the plugins that a condition keeps from running, and why."""

from __future__ import annotations

import json

from nri.config.entries import PluginEntry
from nri.testing.pods import recorded
from tests.integration.cli.running import command
from tests.support.host import Host, plugin

REQUEST = recorded("bridge/containerd-1.7.24.container-create")


def lines(host: Host, state: str, *words: str) -> list[str]:
    """The lines about plugins that do not run, and about those that would."""
    (host.root / "request.json").write_text(json.dumps(REQUEST))
    ran = command(host, "invoke", state, "--request", f"{host.root}/request.json", *words)
    assert (ran.status, ran.stderr) == (0, "")
    return [line for line in ran.stdout.splitlines() if line.startswith(("#", "no "))]


def test_it_says_which_would_not_run_for_a_request_and_why(host: Host) -> None:
    host.install("b")
    host.configure(
        PluginEntry(type="konfine", when={"namespaces": ["kube-system"]}),
        PluginEntry(type="b", when={"namespaces": ["default"], "runtimeHandler": ["kata"]}),
        PluginEntry(type="c", states=["update"]),
    )
    assert lines(host, "create", "--dry-run") == [
        '# konfine does not run: namespace "default", expected kube-system',
        "# to b, without the results of the plugins before it",
        "# to c, without the results of the plugins before it",
    ]
    assert lines(host, "resize") == ["no plugin is configured for resize"]


def test_the_dry_run_names_the_plugins_that_run(host: Host) -> None:
    host.install("a", "b")
    host.configure(
        plugin("a", ["echo"], when={"labels": {"app": {"equals": "web"}}}),
        plugin("b", ["echo"], when={"labels": {"app": {"equals": "db"}}}),
    )
    assert lines(host, "create") == ['# b does not run: label "app": found "web", expected db']
    ran = command(host, "invoke", "create", "--request", f"{host.root}/request.json", "--json")
    assert [result["plugin"] for result in ran.json] == ["a"]


def test_one_whose_only_condition_is_not_met(host: Host) -> None:
    host.configure(plugin("a", when={"sandbox": True}))
    assert lines(host, "create") == ["# a does not run: a container, expected a sandbox"]
