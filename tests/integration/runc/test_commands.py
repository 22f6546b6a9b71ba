"""What the commands do with plugins, around a runtime that writes down how it is called."""

from __future__ import annotations

import json

import pytest

from tests.integration.runc.conftest import NriRunc
from tests.support.host import OCI_CONFIG
from tests.support.waiting import wait_until

GLOBALS = ["--root", "/r", "--log", "/dev/null", "--debug"]
CREATE = ("create", "--bundle", "bundle", "web")


def test_own_calls_keep_the_root_and_not_the_log(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.exists()
    assert runtime.run(*GLOBALS, *CREATE, cwd=runtime.host.root).returncode == 0
    assert runtime.words() == [[*GLOBALS, *CREATE], ["--root", "/r", "state", "web"]]
    assert runtime.requests()[1]["pid"] == 4711


def test_the_pid_file_spares_a_call(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.script("open('pid', 'w').write('1234')")
    words = ("create", "--bundle", "bundle", "--pid-file", "pid", "web")
    assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    assert runtime.words() == [list(words)]
    assert runtime.requests()[1]["pid"] == 1234


@pytest.mark.parametrize("text", ["", "0", "1234x", "4194305"])
def test_a_pid_file_is_not_trusted(runtime: NriRunc, text: str) -> None:
    runtime.keep()
    runtime.exists()
    runtime.script(f"open('pid', 'w').write({text!r})")
    words = ("create", "--bundle", "bundle", "--pid-file", "pid", "web")
    assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    assert runtime.requests()[1]["pid"] == 4711


@pytest.mark.parametrize("name", ["runc", "crun"])
def test_relative_files_are_where_the_real_runtime_has_them(runtime: NriRunc, name: str) -> None:
    """crun's --config counts from the directory of the call, and its --pid-file from the bundle."""
    runtime.keep()
    runtime.exists()
    runtime.set_options(runtime=str(runtime.real.rename(runtime.real.with_name(name))))
    runtime.host.bundle({**OCI_CONFIG, "annotations": {"in": "the call"}}, name=".")
    (runtime.host.root / "config.json").rename(runtime.host.root / "alt.json")
    (runtime.host.root / "pid").write_text("1")
    runtime.script(f"open({str(runtime.bundle)!r} + '/pid', 'w').write('2')")
    options = ["--config", "alt.json"] if name == "crun" else []
    words = ["create", "--bundle", "bundle", *options, "--pid-file", "pid", "web"]
    assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    setup, create = runtime.requests()
    assert (setup["spec"]["annotations"] == {"in": "the call"}) == (name == "crun")
    assert create["pid"] == (2 if name == "crun" else 1)


def test_an_argument_that_is_not_clear_is_refused(runtime: NriRunc) -> None:
    runtime.keep()
    done = runtime.run("create", "--new", "a", "--other", "b", "c", "web", cwd=runtime.host.root)
    assert done.returncode == 1
    assert "found the words c web, expected one container id" in done.stderr
    assert runtime.calls() == []


def test_a_missing_argument_is_the_real_runtimes_to_report(runtime: NriRunc) -> None:
    runtime.keep()
    for words in (["create"], ["create", "a", "b"], ["run"], ["update"], ["pause"], ["delete"]):
        assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    assert runtime.states() == []
    assert [words[0] for words in runtime.words()] == [
        "create",
        "create",
        "run",
        "update",
        "pause",
        "delete",
    ]


def test_updates_are_passed_with_the_rest_of_the_command_line(runtime: NriRunc) -> None:
    runtime.exists()
    updates = [
        {"id": "web", "resources": {"cpu": {"quota": 9}}},
        {"id": "db", "resources": {"cpu": {"quota": 8}}},
    ]
    runtime.keep(["put", "updates", updates], states=["resize"])
    runtime.script("with open(here + '/stdin', 'a') as f: f.write(sys.stdin.read() + '\\n')")
    words = [
        "--root",
        "/r",
        "--log",
        "/dev/null",
        "update",
        "--l3-cache-schema",
        "x",
        "--resources",
        "-",
        "web",
    ]
    assert runtime.run(*words, input='{"cpu": {"period": 7}}').returncode == 0
    ours, of_other, real = runtime.words()
    assert ours == ["--root", "/r", "state", "web"]
    assert of_other == ["--root", "/r", "update", "--resources", "-", "db"]
    assert real == words
    stdin = (runtime.real.parent / "stdin").read_text().splitlines()
    assert [json.loads(line) for line in stdin] == [
        {"cpu": {"quota": 8}},
        {"cpu": {"period": 7, "quota": 9}},
    ]


def test_an_update_of_some_resources_leaves_the_others_in_the_request(runtime: NriRunc) -> None:
    config = {**OCI_CONFIG, "linux": {"resources": {"cpu": {"cpus": "1", "shares": 1024}}}}
    runtime.host.bundle(config)
    runtime.exists()
    runtime.keep()
    document = '{"cpu": {"shares": 512}, "memory": {"limit": 9}}'
    assert runtime.run("update", "--resources", "-", "web", input=document).returncode == 0
    resize, update = runtime.requests()
    assert resize["spec"]["resources"] == json.loads(document)
    assert update["spec"]["resources"] == {
        "cpu": {"cpus": "1", "shares": 512},
        "memory": {"limit": 9},
    }


def test_an_update_whose_plugins_change_nothing_keeps_its_words(runtime: NriRunc) -> None:
    runtime.exists()
    runtime.keep()
    words = ["update", "--l3-cache-schema", "x", "--new", "web"]
    assert runtime.run(*words).returncode == 0
    assert runtime.words()[-1] == words
    assert runtime.states() == ["resize", "update"]


def test_options_for_single_values_are_refused(runtime: NriRunc) -> None:
    runtime.exists()
    runtime.keep()
    done = runtime.run("update", "--memory=512M", "web")
    assert done.returncode == 1
    assert (
        "update web: found --memory, expected --resources FILE, since plugins act on new resources"
        in done.stderr
    )
    assert (runtime.states(), runtime.words()) == ([], [])


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        ("{", "found the end of the document"),
        ("[]", "expected an object"),
        ("x" * 1100000, "more than 1048576 bytes"),
    ],
    ids=["half", "array", "long"],
)
def test_resources_that_cannot_be_read_are_refused(
    runtime: NriRunc, document: str, wrong: str
) -> None:
    runtime.exists()
    runtime.keep()
    done = runtime.run("update", "--resources", "-", "web", input=document)
    assert (done.returncode, wrong in done.stderr) == (1, True)
    assert runtime.states() == []


def test_delete_by_a_pattern_goes_on_without_plugins(runtime: NriRunc) -> None:
    runtime.keep()
    done = runtime.run("delete", "--regex", "^web")
    assert (done.returncode, runtime.words(), runtime.states()) == (
        0,
        [["delete", "--regex", "^web"]],
        [],
    )
    assert (
        "delete: no plugin gets a delete: found --regex, expected the id of one container"
        in done.stderr
    )


def test_delete_is_reported_only_if_the_container_is_deleted(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.exists(status="running")
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.states() == []
    runtime.exists(status="created")
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.states() == ["delete"]


def test_a_delete_whose_state_cannot_be_read_goes_on(runtime: NriRunc) -> None:
    (runtime.real.parent / "state").write_text("[")
    runtime.keep()
    done = runtime.run("delete", "web")
    assert (done.returncode, runtime.words()[-1]) == (0, ["delete", "web"])
    assert "the container's state of web: " in done.stderr


def test_restore_is_refused_where_plugins_are_configured(runtime: NriRunc) -> None:
    words = ["restore", "--detach", "--image-path", "/i", "--bundle", "bundle", "web"]
    assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    runtime.keep()
    done = runtime.run(*words, cwd=runtime.host.root)
    assert (done.returncode, "restore: plugins are configured" in done.stderr, runtime.words()) == (
        1,
        True,
        [words],
    )


# Faults


def test_a_failure_that_the_options_ignore_is_noted(runtime: NriRunc) -> None:
    runtime.set_options(failurePolicy="ignore")
    runtime.exists()
    runtime.keep(["error", "no"])
    for words in (("run", "--bundle", "bundle", "other"), CREATE):
        done = runtime.run(*words, cwd=runtime.host.root)
        assert done.returncode == 0
        assert " failed, ignored (failurePolicy: ignore): no" in done.stderr
    assert not [words for words in runtime.words() if "delete" in words]


def test_the_lines_of_a_plugin_are_in_the_log_file(runtime: NriRunc) -> None:
    log = runtime.host.root / "log"
    runtime.set_options(logFile=str(log))
    runtime.exists()
    runtime.keep(["stderr", "hello\n"], states=[])
    done = runtime.run(*CREATE, cwd=runtime.host.root)
    assert (done.returncode, done.stderr) == (0, "")
    assert log.read_text().endswith(" nri-real: noop: hello\n")


@pytest.mark.parametrize("command", ["create", "run", "restore", "update"])
def test_broken_options_refuse_what_makes_a_container(runtime: NriRunc, command: str) -> None:
    runtime.set_options(deadlin=3)
    done = runtime.run(command, "web")
    assert (done.returncode, runtime.calls()) == (1, [])
    assert f"nri-real {command}: {runtime.options}: deadlin: unknown key" in done.stderr


@pytest.mark.parametrize("command", ["delete", "kill", "pause", "resume"])
def test_broken_options_let_everything_else_through(runtime: NriRunc, command: str) -> None:
    runtime.exists()
    runtime.set_options(deadlin=3)
    done = runtime.run(command, "web")
    assert (done.returncode, runtime.words()) == (0, [[command, "web"]])
    assert f"nri-real: {runtime.options}: deadlin: unknown key" in done.stderr


def test_a_bundle_that_cannot_be_replaced_is_refused(runtime: NriRunc) -> None:
    runtime.keep(["put", "adjust", {"env": {"A": "b"}}])
    file = runtime.bundle / "config.json"
    before = file.read_text()
    (runtime.bundle / "real.json").write_text(before)
    file.unlink()
    runtime.bundle.chmod(0o777)
    file.symlink_to("real.json")
    done = runtime.run(*CREATE, cwd=runtime.host.root)
    assert done.returncode == 1
    assert "is a link and not replaced" in done.stderr
    assert file.read_text() == before
    assert ["create"] not in [words[:1] for words in runtime.words()]
    assert runtime.states() == ["setup", "delete"]


HANGS = (
    "import time, nri.client.chain as chain\nchain.Client.invoke = lambda *_, **__: time.sleep(60)"
)


def test_a_delete_that_is_stuck_goes_on(runtime: NriRunc) -> None:
    runtime.set_options(deadline=0.2)
    runtime.exists(status="stopped")
    runtime.keep()
    runtime.script("time.sleep(1)\nsys.exit(5)")  # longer than the timer
    done = runtime.run("delete", "web", code=HANGS)
    assert (done.returncode, runtime.words()[-1]) == (5, ["delete", "web"])
    assert "nri-real delete web: not done within 0.2 s: it was running noop" in done.stderr


def test_a_create_that_is_stuck_takes_the_container_back(runtime: NriRunc) -> None:
    runtime.set_options(deadline=0.2)
    runtime.exists()
    runtime.keep(states=[])
    done = runtime.run(*CREATE, code=HANGS, cwd=runtime.host.root)
    assert done.returncode == 1
    # By the watchdog.
    assert wait_until(lambda: runtime.words()[-1] == ["delete", "--force", "web"])
    assert "nri-real create web: not done within 0.2 s: it was running noop" in done.stderr


# Conditions

HELD = {"annotations": {"qos.class": {"equals": "ls"}}}
UNMET = {"annotations": {"qos.class": {"equals": "batch"}}}


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (CREATE, ["setup", "create"]),
        (("update", "--l3-cache-schema", "x", "web"), ["resize", "update"]),
        (("delete", "web"), ["delete"]),
    ],
)
def test_command_runs_plugins_whose_condition_holds(
    runtime: NriRunc, words: tuple[str, ...], states: list[str]
) -> None:
    runtime.exists(status="stopped" if words[0] == "delete" else "running")
    runtime.keep(when=UNMET)
    assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    assert (runtime.states(), runtime.words()[0 if words is CREATE else -1]) == ([], list(words))
    runtime.keep(when=HELD)
    assert runtime.run(*words, cwd=runtime.host.root).returncode == 0
    assert runtime.states() == states


@pytest.mark.parametrize("annotations", [{"qos.class": "ls"}, {"qos.class": "batch"}])
def test_a_delete_without_a_bundle_is_judged_by_the_state(
    runtime: NriRunc, annotations: dict[str, str]
) -> None:
    runtime.keep(when=HELD)
    runtime.exists(status="stopped", bundle="/gone", annotations=annotations)
    assert runtime.run("delete", "web", cwd=runtime.host.root).returncode == 0
    assert runtime.states() == (["delete"] if annotations["qos.class"] == "ls" else [])


def test_run_adds_no_hook_if_the_condition_does_not_hold(runtime: NriRunc) -> None:
    runtime.keep(when=UNMET)
    runtime.script("open('seen', 'w').write(open('bundle/config.json').read())")
    assert runtime.run("run", "--bundle", "bundle", "web", cwd=runtime.host.root).returncode == 0
    assert "hooks" not in json.loads((runtime.host.root / "seen").read_text())
    assert runtime.states() == []
