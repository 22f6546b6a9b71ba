"""The record of a container: its spec from `create` to `delete`, also if its bundle changes, and calls that fail."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.runc.conftest import NriRunc
from tests.support.host import OCI_CONFIG, plugin
from tests.support.processes import kill_all
from tests.support.waiting import SOON

CREATE = ("create", "--bundle", "bundle", "web")
ADJUSTER = """#!/bin/sh
case $(cat) in *'"state":"setup"'*) echo '{"adjust": {"annotations": {"by": "setup"}}}' ;; *) echo '{}' ;; esac
"""
HANGS = 'if "{}" in words:\n    open(here + "/../begun", "w").close()\n    time.sleep(1000)\n'


def kept(runtime: NriRunc) -> list[Path]:
    return [*(runtime.host.root / "record").glob(".runc.*")]


def adjust(runtime: NriRunc) -> None:
    """Configure a plugin that changes an annotation, and one that keeps its requests."""
    runtime.host.script("adjuster", ADJUSTER)
    runtime.keep()
    keeper = plugin(
        "noop", ["keep", str(runtime.host.root / "requests")], states=["setup", "resize", "update"]
    )
    runtime.host.configure(plugin("adjuster", states=["setup"]), keeper)


def make(runtime: NriRunc) -> None:
    adjust(runtime)
    runtime.exists(status="created")
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 0


def kill_while_it_is_made(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.script(HANGS.format("create"))
    with runtime.begun(*CREATE) as process:
        process.kill()
        process.wait(SOON)
    kill_all(str(runtime.real))  # the real runtime, which the kill has left
    runtime.script("")
    runtime.exists(status="created")


def test_bundle_is_as_it_was_and_requests_show_what_was_made(runtime: NriRunc) -> None:
    config = runtime.bundle / "config.json"
    before = config.read_bytes()
    make(runtime)
    assert config.read_bytes() == before
    config.write_text("{}")
    update = ("update", "--resources", "-", "web")
    assert runtime.run(*update, input='{"cpu": {"shares": 7}}').returncode == 0
    assert runtime.run("delete", "web").returncode == 0
    _, *others, last = runtime.requests()
    assert {request["spec"]["annotations"].get("by") for request in [*others, last]} == {"setup"}
    assert last["spec"]["resources"]["cpu"]["shares"] == 7
    assert kept(runtime) == []


def test_a_container_of_another_bundle_is_as_its_bundle_says(runtime: NriRunc) -> None:
    make(runtime)
    other = runtime.host.bundle({"annotations": {"of": "another"}}, name="other")
    runtime.exists(bundle=str(other), status="created")
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.requests()[-1]["spec"]["annotations"] == {"of": "another"}


@pytest.mark.parametrize("content", ["[]", '{"bundle": 1}', '{"spec": 1}'])
def test_a_damaged_record_is_ignored(runtime: NriRunc, content: str) -> None:
    make(runtime)
    kept(runtime)[0].write_text(content)
    assert runtime.run("delete", "web").returncode == 0
    assert "by" not in runtime.requests()[-1]["spec"].get("annotations", {})


def test_changes_stay_in_the_bundle_where_nothing_can_be_kept(runtime: NriRunc) -> None:
    runtime.set_options(recordDir="/proc/1/record")
    make(runtime)
    assert '"by"' in (runtime.bundle / "config.json").read_text()
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.requests()[-1]["spec"]["annotations"]["by"] == "setup"


def test_failed_create_leaves_the_bundle_as_it_was(runtime: NriRunc) -> None:
    config = runtime.bundle / "config.json"
    before = config.read_bytes()
    adjust(runtime)
    runtime.script("sys.exit(3)")
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 3
    assert (config.read_bytes(), kept(runtime)) == (before, [])


def test_container_whose_plugins_have_not_ended_is_not_started(runtime: NriRunc) -> None:
    kill_while_it_is_made(runtime)
    before = len(runtime.words())
    started = runtime.run("start", "web")
    assert (started.returncode, len(runtime.words())) == (1, before)
    assert (
        "its plugins' create has not ended; delete the container, and create it again"
        in started.stderr
    )
    assert runtime.run("start", "other").returncode == 0
    assert runtime.run("delete", "web").returncode == 0
    (runtime.real.parent / "state").unlink()
    assert runtime.run("start", "web").returncode == 0


def test_container_made_without_plugins_starts_after_one_that_was_killed(runtime: NriRunc) -> None:
    kill_while_it_is_made(runtime)
    runtime.host.configure_text('{"version": "0.1", "plugins": []}')
    (runtime.real.parent / "state").unlink()
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 0
    assert runtime.run("start", "web").returncode == 0


REFUSES = 'if "{}" in words:\n    sys.exit("refused")\n'


def test_what_a_killed_create_has_left_stays_until_the_container_is_deleted(
    runtime: NriRunc,
) -> None:
    kill_while_it_is_made(runtime)
    configured = (runtime.host.conf / "10-test.conf").read_text()
    state = (runtime.real.parent / "state").read_text()

    def is_refused() -> bool:
        return runtime.run("start", "web").returncode == 1

    runtime.script(REFUSES.format("create"))
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 1
    assert is_refused()
    # The real runtime lives on, and the container is there when another call has asked for it, or later.
    (runtime.real.parent / "state").unlink()
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 1
    assert is_refused()
    runtime.script(
        f'if "create" in words:\n    open(here + "/state", "w").write({state!r})\n    sys.exit(1)\n'
    )
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 1
    assert is_refused()
    runtime.host.configure_text('{"version": "0.1", "plugins": []}')
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 1
    assert is_refused()
    runtime.host.configure_text(configured)
    runtime.script(REFUSES.format("delete"))
    assert runtime.run("delete", "web").returncode == 1
    assert is_refused()
    runtime.script("")
    assert runtime.run("delete", "web").returncode == 0
    (runtime.real.parent / "state").unlink()
    assert not is_refused()
    assert kept(runtime) == []


def test_a_root_is_one_whatever_its_path(runtime: NriRunc) -> None:
    (runtime.host.root / "link").symlink_to(runtime.host.folder("containers"))
    adjust(runtime)
    runtime.exists(status="created")
    for root, command, count in (("link", CREATE, 1), ("containers", ("delete", "web"), 0)):
        assert (
            runtime.run(
                "--root", str(runtime.host.root / root), *command, cwd=runtime.host.root
            ).returncode
            == 0
        )
        assert len(kept(runtime)) == count


def test_delete_that_is_tried_again_shows_what_was_made(runtime: NriRunc) -> None:
    make(runtime)
    runtime.script(REFUSES.format("delete"))
    assert runtime.run("delete", "web").returncode == 1
    runtime.script("")
    assert runtime.run("delete", "web").returncode == 0
    assert [request["spec"]["annotations"]["by"] for request in runtime.requests()[-2:]] == [
        "setup"
    ] * 2


@pytest.mark.parametrize("why", ["plugin fails", "no plugins", "is gone"])
def test_nothing_is_kept_of_a_container_that_is_deleted(runtime: NriRunc, why: str) -> None:
    make(runtime)
    if why == "plugin fails":
        runtime.host.configure(plugin("noop", ["fail", "no"]))
    elif why == "no plugins":
        runtime.host.configure_text('{"version": "0.1", "plugins": []}')
    else:
        (runtime.real.parent / "state").unlink()
    assert runtime.run("delete", "--force", "web").returncode == 0
    assert kept(runtime) == []
    assert runtime.words()[-1] == ["delete", "--force", "web"]


def test_a_bundle_is_known_though_its_link_is_gone(runtime: NriRunc) -> None:
    adjust(runtime)
    link = runtime.host.root / "link"
    link.symlink_to("bundle")
    runtime.exists(status="created", bundle=str(link))
    assert runtime.run("create", "--bundle", "link", "web", cwd=runtime.host.root).returncode == 0
    link.unlink()
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.requests()[-1]["spec"]["annotations"]["by"] == "setup"


@pytest.mark.parametrize("command", ["create", "run"])
def test_real_runtime_that_cannot_run_leaves_nothing(runtime: NriRunc, command: str) -> None:
    before = (runtime.bundle / "config.json").read_bytes()
    adjust(runtime)
    runtime.real.write_text("#!/no/such/interpreter\n")
    ran = runtime.run(command, "--bundle", "bundle", "web", cwd=runtime.host.root)
    assert (ran.returncode, "cannot be run: No such file" in ran.stderr) == (1, True)
    assert (runtime.states(), kept(runtime)) == (["setup", "delete"], [])
    assert (runtime.bundle / "config.json").read_bytes() == before


def test_changes_of_a_detached_container_stay_without_its_hook(runtime: NriRunc) -> None:
    runtime.set_options(recordDir="/proc/1/record")
    adjust(runtime)
    assert (
        runtime.run(
            "run", "--detach", "--bundle", "bundle", "web", cwd=runtime.host.root
        ).returncode
        == 0
    )
    text = (runtime.bundle / "config.json").read_text()
    assert ('"by"' in text, "createRuntime" in text) == (True, False)


def test_a_signal_before_the_plugins_run_takes_the_container_back(runtime: NriRunc) -> None:
    adjust(runtime)
    runtime.exists(status="created")
    code = "import os\nfrom nri.runc import commands\ncommands.pid_of = lambda *_: os.kill(os.getpid(), 15)"
    assert runtime.run(*CREATE, cwd=runtime.host.root, code=code).returncode == -signal.SIGTERM
    assert (runtime.states(), kept(runtime)) == (["setup", "delete"], [])
    assert runtime.words()[-1] == ["delete", "--force", "web"]


@pytest.mark.parametrize(
    ("others", "wrong"),
    [
        (
            ("--bundle", "bundle", "second"),
            "bundle/config.json: another nri-runc makes or runs a container of it",
        ),
        (
            ("--bundle", "other", "first"),
            "the id first: another nri-runc makes or runs a container of it",
        ),
    ],
)
def test_two_calls_do_not_use_one_bundle_or_id(
    runtime: NriRunc, others: tuple[str, ...], wrong: str
) -> None:
    runtime.host.bundle(OCI_CONFIG, name="other")
    runtime.keep()
    runtime.script(HANGS.format("run"))
    with runtime.begun("run", "--bundle", "bundle", "first") as process:
        second = runtime.run("create", *others, cwd=runtime.host.root)
        assert second.returncode == 1
        assert wrong in second.stderr
        process.terminate()  # which the real runtime gets
    assert [words[-1] for words in runtime.words() if "create" in words] == []


# A start that nothing says anything about


@pytest.mark.parametrize("states", [["update"], ["setup", "update"]])
def test_a_container_without_a_record_gets_its_plugins_at_its_start_or_is_refused(
    runtime: NriRunc, states: list[str]
) -> None:
    """As after a kill of `create`, a `delete --force`, and a real runtime that ends only then."""
    kill_while_it_is_made(runtime)
    assert runtime.run("delete", "--force", "web").returncode == 0
    runtime.keep(states=states)
    before = len(runtime.requests())
    started = runtime.run("start", "web")
    asked = [request["state"] for request in runtime.requests()[before:]]
    if "setup" in states:
        assert (started.returncode, asked) == (1, [])
        assert (
            "its setup was missed: the container was created without it; create the container"
            in started.stderr
        )
    else:
        assert (started.returncode, asked) == (0, ["create"])
        assert runtime.words()[-1] == ["start", "web"]


def test_a_container_that_no_plugin_is_for_is_started(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.host.configure_text('{"version": "0.1", "plugins": []}')
    runtime.exists(status="created")
    assert runtime.run("start", "web").returncode == 0


def test_a_bundle_that_a_killed_call_has_left_is_set_up_once(runtime: NriRunc) -> None:
    config = runtime.bundle / "config.json"
    before = config.read_bytes()
    for _ in range(2):
        adjust(runtime)
        runtime.script(HANGS.format("create"))
        with runtime.begun(*CREATE) as process:
            process.kill()
            process.wait(SOON)
        kill_all(str(runtime.real))
        (runtime.host.root / "begun").unlink()
        assert config.read_bytes() != before
    runtime.script("")
    assert runtime.run("delete", "--force", "web").returncode == 0
    make(runtime)
    assert config.read_bytes() == before


def test_plugins_get_their_last_result(runtime: NriRunc) -> None:
    runtime.keep(["put", "metadata", {"mark": "1"}], states=["setup", "resize", "update"])
    runtime.exists(status="created")
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 0
    assert runtime.run("update", "--resources", "-", "web", input="{}").returncode == 0
    assert runtime.run("delete", "web").returncode == 0
    marks = [
        (request["state"], request.get("prevResult", {}).get("metadata"))
        for request in runtime.requests()
    ]
    assert marks == [
        ("setup", None),
        ("create", None),
        *((state, {"mark": "1"}) for state in ("resize", "update", "delete")),
    ]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_next_delete_removes_what_a_killed_one_has_left(
    runtime: NriRunc, is_there: bool
) -> None:
    root = runtime.host.root / "root"
    root.mkdir()
    adjust(runtime)
    runtime.exists(status="created")
    assert runtime.run("--root", str(root), *CREATE, cwd=runtime.host.root).returncode == 0
    (path,) = kept(runtime)
    left = path.with_name(path.name.replace(".web.", ".left."))
    left.write_bytes(path.read_bytes())
    if is_there:  # where the real runtime keeps its containers, or elsewhere
        (root / "left").mkdir()
    runtime.script('if "delete" in words:\n    os.unlink(here + "/state")\n')
    assert runtime.run("--root", str(root), "delete", "web").returncode == 0
    assert kept(runtime) == ([left] if is_there else [])


def test_an_id_that_is_no_name_of_a_file_has_a_record_all_the_same(runtime: NriRunc) -> None:
    adjust(runtime)
    runtime.exists(id="we b", status="created")
    assert (
        runtime.run("create", "--bundle", "bundle", "we b", cwd=runtime.host.root).returncode == 0
    )
    (path,) = kept(runtime)
    assert path.name.endswith("~.json")
    assert runtime.run("start", "we b").returncode == 0
    assert runtime.run("delete", "we b").returncode == 0
    assert kept(runtime) == []
