"""nri check: what it finds wrong with a host, and how it says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.client import resident, standing
from nri.config.entries import PluginEntry
from nri.doctor import checking, engines
from tests.integration.cli.running import SOURCE, command
from tests.support import scripts
from tests.support.cgroup_node import install_own
from tests.support.host import Host, plugin
from tests.support.waiting import wait_until

PLUGINS = ("nri.plugins.clearcfs", "nri.plugins.konfine")
INVOKE = "    def invoke(self, request):\n        return request.new_result(self.type)\n"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict depends on how fast a plugin answers."""
    monkeypatch.setattr(checking, "ANSWER_WITHIN", 60.0)
    monkeypatch.setattr(resident, "ANSWER_WITHIN", 60.0)
    monkeypatch.setattr(standing, "ANSWER_WITHIN", 60.0)


def answering(host: Host, type_: str, version: str = "", schema: str = "echo true") -> None:
    """Install a plugin that says these things about itself."""
    version = version or f"""echo '{{"type":"{type_}","version":"1.2","nri":"0.1"}}'"""
    host.script(type_, f"#!/bin/sh\ncase $1 in version) {version};; schema) {schema};; esac\n")


def skel_plugin(body: str = INVOKE, begin: str = "") -> str:
    """The text of a plugin in Python, with some code in its class or before it."""
    return (
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {SOURCE!r})\n{begin}\nfrom nri import skel\n\n"
        f"class Mine(skel.Plugin):\n    type = 'mine'\n{body}\n\nif __name__ == '__main__':\n    skel.main(Mine())\n"
    )


def faults(host: Host) -> list[str]:
    """The messages of a check that must find something."""
    ran = command(host, "check", "--json")
    assert (ran.status, ran.json["ok"]) == (1, False)
    return [fault["message"] for fault in ran.json["faults"]]


# The report


def test_hash_is_of_the_content_not_of_the_file_names(host: Host) -> None:
    host.install("a")
    host.configure(plugin("a", timeout=2.0), name="10.conf")
    first = command(host, "check", "--hash")
    assert (first.status, len(first.stdout)) == (0, 13)
    (host.conf / "10.conf").rename(host.conf / "20.conf")
    assert command(host, "check", "--hash").stdout == first.stdout
    host.configure(plugin("a", timeout=3.0), name="20.conf")
    assert command(host, "check", "--hash").stdout != first.stdout
    host.configure_text("{", name="30.conf")
    assert command(host, "check", "--hash").status == 1


def test_a_host_where_all_is_well(host: Host) -> None:
    for module in PLUGINS:
        host.compiled(module)
    allow = {"class": ["kube-system"]}
    host.configure(
        PluginEntry(type="clearcfs", states=["update"], conf={"pod": True, "allow": allow}),
        PluginEntry(type="konfine", states=["update"], conf={"allow": {**allow, "cpus": False}}),
    )
    ran = command(host, "check")
    assert (ran.status, ran.stderr) == (0, "")
    header, *rows, end = ran.stdout.splitlines()
    assert header.split() == ["PLUGIN", "VERSION", "CONF", "BINARY", "CONFIGURED", "IN"]
    assert [row.split()[0] for row in rows] == ["clearcfs", "konfine"]
    assert all(row.split()[2] == "right" for row in rows)
    assert end == "all is well"
    ran = command(host, "check", "--json")
    assert (ran.status, ran.json["ok"], ran.json["faults"]) == (0, True, [])
    assert ran.json["plugins"][0]["binary"] == f"{host.bin}/clearcfs"
    assert ran.json["plugins"][0]["conf"] == "right"


@pytest.mark.parametrize(
    ("acts_on", "states", "missed"),
    [
        (["create", "update"], None, "update"),
        (["create", "resize", "update", "delete"], ["update"], "resize"),
        (["setup", "resize", "update"], ["setup"], "resize and update"),
        (["create", "update"], ["update"], ""),
        (
            ["setup", "create", "resize", "update", "pause", "resume", "delete"],
            None,
            "",
        ),  # a logger: as it is asked
    ],
)
def test_states_that_a_plugin_acts_on_and_its_entry_does_not_list_are_a_note(
    host: Host, acts_on: list[str], states: list[str] | None, missed: str
) -> None:
    answering(
        host, "a", json.dumps({"type": "a", "nri": "0.1", "states": acts_on}).join(["echo '", "'"])
    )
    host.configure(PluginEntry(type="a", states=states or []))
    ran = command(host, "check")
    note = f'note: a acts on {missed}, which its entry\'s "states" do not list: it is not asked\n'
    assert (note in ran.stderr, "do not list" in ran.stderr, ran.status) == (
        bool(missed),
        bool(missed),
        0,
    )


@pytest.mark.parametrize(
    ("conditions", "is_note"),
    [
        (({}, {}), True),
        (({"namespaces": ["a"]}, {"namespaces": ["b"]}), False),
        (({}, {"namespaces": ["b"]}), False),
        (({"namespaces": ["a"]}, {"namespaces": ["a"]}), True),
    ],
)
def test_type_that_is_configured_twice_is_a_note(
    host: Host, conditions: tuple[dict[str, Any], ...], is_note: bool
) -> None:
    answering(host, "a")
    host.configure(*[PluginEntry(type="a", when=when or None) for when in conditions])
    ran = command(host, "check")
    assert (ran.status, "note: a is configured twice, and runs twice: " in ran.stderr) == (
        0,
        is_note,
    )


def test_a_host_without_configuration_is_well(host: Host) -> None:
    ran = command(host, "check")
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith(
        f"no plugins: {host.conf} holds no *.conf with plugins, and there is no {host.root}/"
    )
    assert command(host, "check", "--json").json == {
        "ok": True,
        "faults": [],
        "notes": [],
        "plugins": [],
    }


def test_all_faults_of_all_plugins_are_listed_with_their_count(host: Host) -> None:
    answering(
        host, "picky", schema="""echo '{"properties":{"a":{"type":"string"}},"required":["b"]}'"""
    )
    host.configure(PluginEntry(type="missing"), PluginEntry(type="picky", conf={"a": 1}))
    host.configure(PluginEntry(type="also-missing"), name="20-more.conf")
    messages = faults(host)
    assert len(messages) == 4
    assert messages[0] == f"missing: not found: no such executable in {host.bin}"
    assert messages[3].startswith("also-missing: not found: ")
    ran = command(host, "check")
    assert (ran.status, len(ran.stderr.splitlines()), ran.stderr.splitlines()[-1]) == (
        1,
        5,
        "4 faults",
    )
    (host.conf / "10-test.conf").unlink()
    assert command(host, "check").stderr.splitlines()[-1] == "1 fault"


def test_a_wrong_conf_is_named_with_file_line_and_column(host: Host) -> None:
    answering(host, "strict", schema="""echo '{"properties":{"reserved":{"type":"array"}}}'""")
    lines = ["{", '  "version": "0.1",', '  "plugins": [', '    {"type": "strict",']
    host.configure_text("\n".join([*lines, '     "conf": {"reserved": true}}', "  ]", "}"]))
    ran = command(host, "check")
    assert ran.status == 1
    assert ran.stderr.startswith(f"{host.conf}/10-test.conf:5:27: plugins[0].conf.reserved: ")
    assert "wrong" in ran.stdout


def test_a_conf_that_its_schema_accepts_and_the_plugin_refuses_is_a_fault(host: Host) -> None:
    body = """    acts_on = ('create',)
    class conf_class(skel.Conf):
        cpus: frozenset = skel.fields.cpus('x')
    def invoke(self, request, conf):
        raise AssertionError('it acts')"""
    host.script("mine", skel_plugin(body))
    host.configure(PluginEntry(type="mine", conf={"cpus": "3-1"}))
    (message,) = faults(host)
    assert message.startswith("found the string '3-1', expected a CPU list")
    assert "reversed" in message
    host.configure(PluginEntry(type="mine", conf={"cpus": "1-3"}))
    assert command(host, "check").status == 0


def test_setting_open_to_every_pod_is_a_note(host: Host) -> None:
    for module in PLUGINS:
        host.compiled(module)
    host.configure(
        PluginEntry(type="konfine", states=["update"]),
        PluginEntry(type="clearcfs", states=["update"], conf={"allow": {"class": []}}),
        PluginEntry(
            type="konfine", states=["update"], conf={"allow": {"class": True, "cpus": ["team-a"]}}
        ),
    )
    wrong = PluginEntry(type="konfine", states=["update"], conf={"allow": {"class": 1}})
    host.configure(wrong, name="20-wrong.conf")
    file = f"{host.conf}/10-test.conf"
    notes = [
        f"{file}: plugins[0].conf.allow: any pod may set its own class and cpus; list the namespaces that may",
        "",
        f"{file}: plugins[2].conf.allow: any pod may set its own class; list the namespaces that may",
        "",
    ]
    assert [entry["note"] for entry in command(host, "check", "--json").json["plugins"]] == notes
    (host.conf / "20-wrong.conf").unlink()
    ran = command(host, "check")
    assert ran.status == 0
    twice = (
        f"konfine is configured twice, and runs twice: {file}: plugins[0] and {file}: plugins[2]"
    )
    assert ran.stderr.splitlines() == [f"note: {note}" for note in [twice, *notes] if note]
    assert ran.stdout.endswith("all is well\n")


def test_conditions_have_notes_and_faults(host: Host) -> None:
    answering(host, "a")
    host.configure(
        PluginEntry(type="a", when={"annotations": {"b": {"present": False, "equals": "c"}}})
    )
    ran = command(host, "check")
    assert ran.status == 0
    assert [
        line.partition("plugins[0].when")[2] for line in ran.stderr.splitlines() if "when" in line
    ] == [
        ": depends on annotations alone, so the author of a pod decides whether the plugin runs",
    ]
    host.configure_text('{"version":"0.1","plugins":[{"type":"a","when":{"namespaces":[]}}]}')
    assert "found 0 items, expected at least 1" in faults(host)


def test_a_condition_in_the_file_that_containerd_reads_is_noted(host: Host) -> None:
    answering(host, "a")
    text = '{"version":"0.1","plugins":[{"type":"a","when":{"sandbox":true}}]}'
    (host.root / "conf.json").write_text(text)
    ran = command(host, "check")
    assert (
        f"note: {host.root}/conf.json: plugins[0].when: containerd runs the plugins of this file"
        in ran.stderr
    )


# What a plugin says about itself


RESULT = """echo '{"plugin": "old", "version": "0.1", "error": ""}'"""
FAILURE = RESULT.replace('""', '"no such cgroup"')


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            f"#!/bin/sh\n[ $1 = invoke ] || exit 2\n{FAILURE}\n",
            "; it answers an unknown state with the error 'no such cgroup'",
        ),
        (f"#!/bin/sh\n[ $1 = invoke ] || {{ echo usage >&2; exit 1; }}\n{RESULT}\n", ""),
        (f"#!{sys.executable}\nimport json, sys\njson.load(sys.stdin)\nprint('{{}}')\n", None),
        (f"#!/bin/sh\n{RESULT}\n", None),
    ],
    ids=[
        "acts on every state",
        "knows invoke alone",
        "reads a request for any verb",
        "writes the same to any question",
    ],
)
def test_plugin_not_built_with_skel_answers_a_request(
    host: Host, text: str, note: str | None
) -> None:
    host.script("old", text)
    host.configure(PluginEntry(type="old", conf=[]))
    ran = command(host, "check", "--json")
    assert (ran.status, ran.json["ok"]) == (0, True)
    (entry,) = ran.json["plugins"]
    assert (entry["version"], entry["conf"]) == (None, "not checked")
    without = f"{host.bin}/old does not answer 'version': its conf is not checked"
    assert entry["note"] == ("" if note is None else f"{without}{note}")


def test_a_plugin_that_takes_any_conf(host: Host) -> None:
    answering(host, "any")
    host.configure(PluginEntry(type="any", conf={"whatever": 1}))
    (entry,) = command(host, "check", "--json").json["plugins"]
    assert (entry["version"], entry["conf"]) == ("1.2", "any")


def test_a_plugin_by_another_name_is_a_fault(host: Host) -> None:
    answering(host, "konfine", """echo '{"type":"clearcfs","nri":"0.1"}'""")
    host.configure(PluginEntry(type="konfine"))
    assert faults(host) == [
        f"{host.bin}/konfine version: type: found the string 'clearcfs', expected 'konfine'"
    ]
    assert "(none)" in command(host, "check").stdout


def test_entry_without_a_state_of_the_plugin_is_a_fault(host: Host) -> None:
    answering(host, "a", """echo '{"type":"a","nri":"0.1","states":["setup"]}'""")
    host.configure(PluginEntry(type="a"), PluginEntry(type="a", states=["setup"]))
    (fault,) = command(host, "check", "--json").json["faults"]
    assert fault["path"] == "plugins[0].type"
    assert (
        fault["message"]
        == 'it acts on setup alone, expected one of these states in its entry\'s "states"'
    )


@pytest.mark.parametrize("schema", ["echo '{'", "exit 1", """echo '{"$ref": "http://x/"}'"""])
def test_an_answer_that_is_no_schema_is_a_fault(host: Host, schema: str) -> None:
    answering(host, "bad", schema=schema)
    host.configure(PluginEntry(type="bad", conf="text"))
    (message,) = faults(host)
    assert message.startswith("cannot be checked against the plugin's schema: ")


def test_a_plugin_that_does_not_answer_is_killed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "ANSWER_WITHIN", 0.3)
    answering(host, "slow", "exec sleep 1000")
    host.configure(PluginEntry(type="slow"))
    assert faults(host) == [f"{host.bin}/slow version: killed: no answer within 0.3 s"]


def test_a_plugin_that_never_stops_talking_is_killed(host: Host) -> None:
    host.install("loud", do=[["flood", 1]])
    host.configure(plugin("loud"))
    assert faults(host) == [f"{host.bin}/loud version: killed: it wrote too much"]


# Plugins that cannot run


CANNOT_RUN = {
    "syntax error": (skel_plugin("    def invoke(self, request)\n"), "SyntaxError: "),
    "exits when it is loaded": (
        skel_plugin(begin="sys.exit(0)"),
        "does not answer a request (exit status 0)",
    ),
    "prints when it is loaded": (
        skel_plugin(begin="print('loading', flush=True)"),
        """it wrote 'loading\\n{"plugin":"mine",""",
    ),
    "not of skel, missing import": (
        f"#!{sys.executable}\nimport not_there\n",
        "ModuleNotFoundError: ",
    ),
    "silence": ("#!/bin/sh\n", "does not answer a request (exit status 0)"),
    "another text": ("#!/bin/sh\necho '<html>'\n", "it wrote '<html>\\n'"),
    "windows line ends": ("#!/usr/bin/env sh\r\necho\r\n", "it has Windows line ends (CRLF)"),
    "signal": ("#!/bin/sh\nkill -SEGV $$\n", "ended by signal 11"),
    "not an executable": ("no program\n", "Exec format error"),
}


@pytest.mark.parametrize("case", CANNOT_RUN)
def test_a_plugin_that_cannot_run_is_a_fault(host: Host, case: str) -> None:
    text, reason = CANNOT_RUN[case]
    host.script("mine", text)
    host.configure(PluginEntry(type="mine"))
    ran = command(host, "check", "--json")
    assert (ran.status, ran.json["ok"]) == (1, False)
    (entry,) = ran.json["plugins"]
    assert (entry["version"], entry["note"], entry["faults"]) == (None, "", ran.json["faults"])
    (fault,) = entry["faults"]
    assert reason in fault["message"]
    assert f"{host.bin}/mine" in fault["message"]


# Residents

OPTS_IN = "    resident = True\n"
RESIDENTS = {
    "fit": ("", ""),
    "ends": (
        "if 'serve' in sys.argv: sys.exit('no licence')",
        "it ends while it is loaded: no licence",
    ),
}


@pytest.mark.parametrize("name", RESIDENTS)
def test_reason_for_no_resident_is_a_note(
    host: Host, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "is_built", scripts.is_plugin)
    begin, reason = RESIDENTS[name]
    path = host.script("mine", skel_plugin(OPTS_IN + INVOKE, begin=begin))
    host.configure(PluginEntry(type="mine"))
    ran = command(host, "check", "--json")
    assert (ran.status, ran.json["ok"]) == (0, True)
    (entry,) = ran.json["plugins"]
    assert entry["note"].startswith(
        f"{path} is started for each request: {reason}" if reason else ""
    )
    assert bool(entry["note"]) == bool(reason)
    assert entry["version"] is not None
    assert wait_until(lambda: not host.processes())


def test_a_plugin_that_must_not_be_a_resident_is_not_tried(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "is_built", scripts.is_plugin)
    tried = host.root / "tried"
    begin = f"if 'serve' in sys.argv: open({str(tried)!r}, 'w').close()"
    host.script("mine", skel_plugin(OPTS_IN + INVOKE, begin=begin))
    host.configure(PluginEntry(type="mine", resident=False))
    (entry,) = command(host, "check", "--json").json["plugins"]
    assert entry["note"] == ""
    assert not tried.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[ $(wc -c) -gt 0 ] || exit 1", ""),
        ("cat > /dev/null", "it takes an empty stdin, as a killed bridge leaves it, for a request"),
        ("exit 0", "it does not wait for its request: it has ended before"),
    ],
)
def test_plugin_that_is_to_wait_and_does_not_is_a_note(host: Host, text: str, reason: str) -> None:
    answer = '{"plugin": "shell", "version": "0.1"}'
    path = host.script("shell", f"#!/bin/sh\n[ $1 = invoke ] || exit 0\n{text}\necho '{answer}'\n")
    host.configure(PluginEntry(type="shell", waiting=True))
    (entry,) = command(host, "check", "--json").json["plugins"]
    assert (f"{path} should not wait for requests: " in entry["note"]) == bool(reason)
    assert reason in entry["note"]
    assert wait_until(lambda: not host.processes())


def test_misspelt_type_is_noted_with_the_one_that_was_meant(host: Host) -> None:
    host.script("weigher", "#!/bin/sh\ncat > /dev/null\n")
    host.configure(PluginEntry(type="wiegher"))
    ran = command(host, "check")
    assert ran.status == 1
    missing = f"wiegher: not found: no such executable in {host.bin}; did you mean weigher?"
    assert missing in ran.stderr


# The project's own plugins


def test_check_names_a_hook_file_that_refuses_every_container(host: Host) -> None:
    install_own(host, "hook-injector")
    hooks = host.folder("hooks.d")
    (hooks / "bad.json").write_text("{")
    entry = {"type": "hook-injector", "states": ["setup"], "conf": {"dirs": [str(hooks)]}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    ran = command(host, "check")
    assert ran.status == 1
    assert f"{hooks}/bad.json: line 1 column 2" in ran.stderr
    when = {"annotations": {"a": "("}}
    document = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "stages": ["prestart"]}
    for changes, fault in (
        ({}, "4:9: when.annotations.a: found '(', expected a regular expression: missing ): ("),
        (
            {"annotations": {"[": "x"}},
            "4:4: when.annotations: found '[', expected a regular expression: missing ]: [",
        ),
        (
            {"annotations": {}, "commands": ["sh", "(?=x)"]},
            "6:4: when.commands[1]: found '(?=x)', expected a regular",
        ),
    ):
        (hooks / "bad.json").write_text(json.dumps({"when": when | changes} | document, indent=1))
        ran = command(host, "check")
        assert ran.status == 1
        assert f"{hooks}/bad.json:{fault}" in ran.stderr


def test_check_notes_that_a_plugin_with_ignore_can_be_left_out(host: Host) -> None:
    answering(host, "a")
    host.configure(PluginEntry(type="a", failure_policy="ignore"))
    (entry,) = command(host, "check", "--json").json["plugins"]
    assert entry["note"].startswith(
        "a has the failurePolicy ignore: a container runs without it if it fails"
    )


def test_check_notes_a_state_that_hooks_never_send(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(host, "a")
    host.configure(PluginEntry(type="a", states=["setup"]))
    hooks = host.folder("hooks.d")
    monkeypatch.setattr(engines, "HOOKS", ("/nonexistent", str(hooks)))
    (hooks / "00-other.json").write_text("{}")
    assert "setup" not in command(host, "check").stderr
    sample = Path(SOURCE) / "deploy/hooks.d/10-nri-create.json"
    (hooks / sample.name).write_text(sample.read_text())
    said = f"a wants setup, which `nri hook` never sends: {hooks}/10-nri-create.json runs it here"
    ran = command(host, "check")
    assert (ran.status, f"note: {said}\n" in ran.stderr) == (0, True)


def test_cpus_that_the_machine_lacks_are_named(host: Host) -> None:
    install_own(host, "konfine")
    pools = [{"name": "far", "cpus": "8190"}]
    host.configure_text(
        json.dumps({"version": "0.1", "plugins": [{"type": "konfine", "conf": {"pools": pools}}]})
    )
    ran = command(host, "check")
    assert ran.status == 0
    assert (
        "note: konfine: conf names CPUs 8190, which are not online: this machine has " in ran.stderr
    )
