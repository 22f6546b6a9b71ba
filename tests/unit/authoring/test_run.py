"""`nri run`: a plugin is tried while it is written, without a node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from nri.authoring.sample_conf import conf_beside
from nri.cli.commands import nri
from nri.config import ConfigError
from tests.integration.cli.running import Ran, inside
from tests.support.waiting import wait_until

PLUGIN = """from nri import skel
from nri.cgroups import find
from nri.skel import fields


class Conf(skel.Conf):
    cpus: frozenset[int] = fields.cpus("its CPUs", default="2-3")


class Pinner(skel.Plugin):
    type = "pinner"
    conf_class = Conf
    acts_on = ("setup", "create", "resize", "update", "delete")

    def invoke(self, request, conf):
        if request.state == "setup":
            return request.new_result(self.type, adjust={"env": {"A": "1"}})
        if request.state == "create" and not request.is_sandbox:
            print("confining")
            find(request.spec.cgroups_path, request.pid, request.id).confine(conf.cpus)
        return request.new_result(self.type)


if __name__ == "__main__":
    skel.main(Pinner())
"""
LIFE = """create web-0: ok
setup web-0/app-0: ok
  adjust: {"env": {"A": "1"}}
create web-0/app-0: ok
  wrote cpuset.cpus: 2-3
  confining
resize web-0/app-0: ok
update web-0/app-0: ok
delete web-0/app-0: ok
delete web-0: ok
"""


def run(folder: Path, *words: str, plugin: str = PLUGIN, stdin: bytes = b"") -> Ran:
    (folder / "pinner.py").write_text(plugin)
    return inside("run", "pinner.py", *words, cwd=folder, stdin=stdin)


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_a_pods_life_shows_requests_results_and_writes(tmp_path: Path, kind: str) -> None:
    ran = run(tmp_path, "--cgroups", kind)
    assert (ran.status, ran.stderr, ran.stdout) == (0, "", LIFE)


def test_several_pods_have_what_the_options_say(tmp_path: Path) -> None:
    ran = run(tmp_path, "--pods", "2", "--containers", "2", "--conf", '{"cpus": "5"}')
    assert ran.stdout.count("wrote cpuset.cpus: 5") == 4
    created = [line.removesuffix(": ok") for line in ran.stdout.splitlines() if line.startswith("create")]
    assert created == [f"create web-{pod}{name}" for pod in "01" for name in ("", "/app-0", "/app-1")]


def test_an_exception_is_shown_with_its_whole_traceback_and_the_status_is_1(tmp_path: Path) -> None:
    (tmp_path / "pinner.py").write_text(PLUGIN.replace('print("confining")', "{}['missing']"))
    done = CliRunner().invoke(nri, ["run", str(tmp_path / "pinner.py")], prog_name="nri")
    assert (done.exit_code, done.stderr) == (1, "")
    assert "create web-0/app-0: error: KeyError: 'missing'\n  Traceback (most recent call last):\n" in done.stdout
    assert f'File "{tmp_path}/pinner.py", line 19, in invoke' in done.stdout
    assert "  StartContainer fails: " in done.stdout


@pytest.mark.parametrize("runtime", ["containerd-1.6", "cri-o-1.36", "podman", "runc"])
def test_a_request_is_made_as_a_runtime_sends_it(tmp_path: Path, runtime: str) -> None:
    ran = run(tmp_path, "--runtime", runtime)
    assert (ran.status, ran.stderr) == (0, "")
    assert "  wrote cpuset.cpus: 2-3\n  confining\n" in ran.stdout
    assert run(tmp_path, "--runtime", runtime, "--state", "delete").stdout.endswith(": ok\n")


def test_a_recorded_request_is_sent_as_it_is(tmp_path: Path) -> None:
    spec = b'"spec":{"cgroupsPath":"/kubepods/web"}'
    request = b'{"version":"0.1","state":"create","id":"web",' + spec + b',"conf":{"cpus":"7"}}'
    (tmp_path / "request.json").write_bytes(request)
    expected = "create web: ok\n  wrote cpuset.cpus: 7\n  confining\n"
    assert run(tmp_path, "--request", "request.json").stdout == expected
    assert run(tmp_path, "--request", "-", stdin=request).stdout == expected
    other = run(tmp_path, "--request", "-", "--conf", '{"cpus": "6"}', stdin=request)
    assert "wrote cpuset.cpus: 6\n" in other.stdout


@pytest.mark.kernel_cgroups
@pytest.mark.runtime
@pytest.mark.parametrize("words", [(), ("--runtime", "containerd-2.1"), ("--request", "-")], ids=str)
def test_the_nodes_own_cgroups_are_made_below_one_and_removed(tmp_path: Path, words: tuple[str, ...]) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make cgroups")
    request = b'{"state":"create","id":"web","pid":1,"spec":{"cgroupsPath":"/kubepods/web"}}'
    ran = run(tmp_path, "--cgroups", "real", "--conf", '{"cpus": "0"}', *words, stdin=request)
    assert (ran.status, ran.stderr) == (0, "")
    assert "wrote cpuset.cpus: 0\n" in ran.stdout
    assert wait_until(lambda: not list(Path("/sys/fs/cgroup").glob("**/nri-run-*")))  # tests beside this have some


@pytest.mark.parametrize(
    ("plugin", "words", "status", "said"),
    [
        ("def", (), 1, "pinner.py:1: SyntaxError: "),
        ("import nothing_of_that_name", (), 1, "pinner.py:1: ModuleNotFoundError: No module named 'nothing_of_that"),
        (PLUGIN.replace("skel.main(Pinner())", "pass"), (), 1, "pinner.py: found no call of skel.main; expected"),
        (PLUGIN.replace("skel.main(Pinner())", "raise SystemExit(3)"), (), 1, "it exits with 3 when it is loaded"),
        (PLUGIN.replace('type = "pinner"', 'type = "a/b"'), (), 1, "found the type 'a/b', expected letters, digits"),
        (PLUGIN.replace("main(Pinner())", "main(Pinner)"), (), 1, "expected an object of a class of skel.Plugin"),
        (PLUGIN, ("--conf", "{"), 2, "it is not JSON"),
        (PLUGIN, ("--runtime", "lxc"), 1, "expected one of"),
        (PLUGIN, ("--runtime", "podman", "--state", "setup"), 1, "podman sends no 'setup' about a container"),
        (PLUGIN, ("--state", "setup"), 2, "--state goes with --runtime"),
        (PLUGIN, ("--request", "nothing.json"), 1, "nothing.json: cannot be read: No such file"),
        (PLUGIN, ("--request", "-", "--runtime", "runc"), 2, "expected one of --request and --runtime"),
        (PLUGIN, ("--request", "/dev/null"), 1, "/dev/null: the document is empty, expected JSON"),
        (PLUGIN, ("--request", "pinner.py"), 1, "pinner.py: line 1 column 1: "),
    ],
)
def test_a_plugin_that_cannot_be_tried_prints_one_sentence(
    tmp_path: Path, plugin: str, words: tuple[str, ...], status: int, said: str
) -> None:
    ran = run(tmp_path, *words, plugin=plugin)
    assert ran.status == status
    assert said in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("words", [("--watch", "nothing/x.py"), ("nothing.py",)])
def test_a_missing_file_is_named_and_not_waited_for(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = inside("run", *words, cwd=tmp_path)
    assert (ran.status, ran.stdout) == (1, "")
    reason = "found nothing there; expected a plugin's" if len(words) == 2 else "can't be read: No such file or"
    assert f"{words[-1]}: {reason}" in ran.stderr


# The conf beside the source

ENTRY = '{"version": "0.1", "plugins": [{"type": "other"}, {"type": "pinner", "conf": {"cpus": "%d"}}]}'


def test_the_conf_is_that_of_the_first_entry_beside_it(tmp_path: Path) -> None:
    (tmp_path / "05-p.conf.sample").write_text(ENTRY % 0)
    (tmp_path / "06.conf").write_text("server { listen 80; }")
    (tmp_path / "07.conf").mkdir()
    (tmp_path / "08.conf").symlink_to("nothing")
    (tmp_path / "20-p.conf").write_text(ENTRY % 2)
    (tmp_path / "10-p.conf").write_text(ENTRY % 1)
    ran = run(tmp_path)
    assert ran.stdout.startswith("the conf is that of 10-p.conf\n")
    assert "wrote cpuset.cpus: 1\n" in ran.stdout
    assert conf_beside(str(tmp_path / "pinner.py"), "another") == (None, "")


def test_a_wrong_file_that_names_the_plugin_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "10.conf").write_text('{"version": "0.1", "plugins": [{"type": "a", "cnf": 1}]}')
    with pytest.raises(ConfigError, match="cnf"):
        conf_beside(str(tmp_path / "a.py"), "a")
