"""``nri simulate`` with v0.1 plugins: what the bridge asks them, and what they do to made-up cgroups."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from nri.authoring.simulated import NodeCgroups
from tests.integration.cli.running import COMMAND, SOURCE, Ran, inside, process
from tests.support.waiting import SOON, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make cgroups")

PLUGIN = """import time
from nri import cgroups, errors, skel
from nri.skel import fields


class Conf(skel.Conf):
    cpus: frozenset[int] = fields.cpus("its CPUs", default="2-3")


class Pinner(skel.Plugin):
    type = "pinner"
    conf_class = Conf
    acts_on = ("setup", "create", "resize", "update", "delete")

    def invoke(self, request, conf):
        result = request.new_result(self.type)
        if request.is_sandbox or request.state not in ("setup", "create"):
            return result
        cgroup = cgroups.find(request.spec.cgroups_path, request.pid, request.id)
        if request.state == "setup":
            try:
                cgroup.cpus()
            except errors.NRIError:
                return request.new_result(self.type, adjust={"env": {"A": "1"}})
        print("confining")
        cgroup.confine(conf.cpus)
        return result


skel.main(Pinner())
"""
LIFE = """create web-0 pinner ok
setup web-0/app-0 pinner ok
    adjust: {"env": {"A": "1"}}
create web-0/app-0 pinner ok
    wrote cpuset.cpus: 2-3
    confining
resize web-0/app-0 pinner ok
update web-0/app-0 pinner ok
delete web-0/app-0 pinner ok
delete web-0 pinner ok
"""
SHELL = '#!/bin/sh\necho hello >&2; echo \'{"metadata": {"a": "b"}}\'\n'


def simulate(folder: Path, *words: str, plugin: str = PLUGIN, **entry: object) -> Ran:
    """Simulate a pod for the plugin, with such an entry beside it."""
    (folder / "pinner.py").write_text(plugin)
    if entry:
        (folder / "10-pinner.conf").write_text(
            json.dumps({"version": "0.1", "plugins": [{"type": "pinner"} | entry]})
        )
    return process("simulate", *words, ".", cwd=folder)


def shell(folder: Path, text: str = SHELL) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/hello").write_text(text)
    (folder / "bin/hello").chmod(0o755)


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_life_of_a_pod_shows_requests_results_and_writes(tmp_path: Path, kind: str) -> None:
    ran = simulate(tmp_path, "--cgroups", kind)
    header, *lines = re.sub(r" +[\d.]+ ms$", "", ran.stdout, flags=re.MULTILINE).splitlines(
        keepends=True
    )
    shown = "".join([line if line[:1] == " " else re.sub(" +", " ", line) for line in lines])
    assert (ran.status, ran.stderr, shown, header.split()[0]) == (0, "", LIFE, "EVENT")


READER = """from nri import cgroups, skel


class Reader(skel.Plugin):
    type = "pinner"
    acts_on = ("create", "resize", "update")

    def invoke(self, request):
        if request.is_sandbox:
            return request.new_result(self.type)
        cgroup = cgroups.find(request.spec.cgroups_path)
        limits = {name: str(cgroup.read(name)) for name in ("cpu.max", "memory.max")}
        return request.new_result(self.type, metadata=limits)


skel.main(Reader())
"""


@pytest.mark.parametrize("kind", ["v1", "v2", pytest.param("node", marks=needs_root)])
def test_limits_are_in_the_cgroup_at_create_and_before_update(tmp_path: Path, kind: str) -> None:
    ran = simulate(tmp_path, "--cgroups", kind, "--json", plugin=READER)
    limits = [(row["event"], row["result"]) for row in ran.json if row["container"]]
    first, later = (
        "cpu.max=50000/100000 memory.max=268435456",
        "cpu.max=100000/100000 memory.max=536870912",
    )
    # And it is not asked at delete.
    assert limits == [("create", first), ("resize", first), ("update", later)]


def test_the_options_say_what_the_pods_have(tmp_path: Path) -> None:
    words = [
        "--pods=2",
        "--containers=2",
        "--annotation=a=1",
        "--label=b=2",
        "--namespace=shop",
        "--cpus=0",
    ]
    ran = simulate(tmp_path, *words, "--memory=1", "--conf", '{"cpus": "5"}', "-v", "--json")
    created = [row for row in ran.json if row["event"] == "create" and row["container"]]
    assert [row["pod"] + row["container"] for row in created] == [
        f"web-{pod}app-{name}" for pod in "01" for name in "01"
    ]
    request, wrote, _ = created[0]["output"]
    found = json.loads(request.removeprefix("request: "))
    assert found["spec"]["resources"]["memory"] == {"limit": 1 << 20}
    assert ("quota" in found["spec"]["resources"]["cpu"], found["labels"]["b"]) == (False, "2")
    assert found["labels"]["io.kubernetes.pod.namespace"] == "shop"
    assert wrote == "wrote cpuset.cpus: 5"


def test_entry_beside_the_plugin_and_its_condition_count(tmp_path: Path) -> None:
    ran = simulate(tmp_path, "-v", when={"namespaces": ["shop"]}, conf={"cpus": "7"})
    assert (ran.status, "pinner  ok" in ran.stdout) == (0, False)
    assert (
        '(skipped)             -            pinner\n  namespace "default", expected shop\n'
        in ran.stdout
    )
    assert "wrote cpuset.cpus: 7" in simulate(tmp_path, "--namespace=shop").stdout


def test_plugin_that_misses_its_deadline_is_killed(tmp_path: Path) -> None:
    ran = simulate(
        tmp_path, plugin=PLUGIN.replace('print("confining")', "time.sleep(60)"), timeout=1.5
    )
    assert ran.status == 1
    assert re.search(
        r"create +web-0/app-0  pinner .*\n  error: killed: no result after 1.5 s\n", ran.stdout
    )
    assert "StartContainer fails: nri v0.1: plugin pinner: killed: no result after" in ran.stdout


def test_an_error_of_a_plugin_is_exit_status_1(tmp_path: Path) -> None:
    ran = simulate(
        tmp_path, plugin=PLUGIN.replace('print("confining")', "raise errors.NRIError('no CPU')")
    )
    assert (ran.status, "pinner        error: no CPU" in ran.stdout) == (1, True)


def test_a_refusal_is_no_error_of_the_plugin(tmp_path: Path) -> None:
    refusing = PLUGIN.replace('print("confining")', "raise skel.Refusal('no CPU')")
    ran = simulate(tmp_path, plugin=refusing)
    assert (ran.status, bool(re.search(r"pinner +refused: no CPU", ran.stdout))) == (1, True)
    rows = simulate(tmp_path, "--json", plugin=refusing).json
    assert [row["error"] for row in rows if row["refused"]] == ["no CPU"]


def test_end_says_what_did_not_run_and_why(tmp_path: Path) -> None:
    pausing = re.sub(r"acts_on = .*", 'acts_on = ("pause",)', PLUGIN)
    assert (
        simulate(tmp_path, plugin=pausing).stderr
        == "note: pinner did not run: none of its states came\n"
    )
    ran = simulate(tmp_path, when={"namespaces": ["shop"]}, states=["setup", "resize", "update"])
    assert ran.stderr == 'note: pinner did not run: namespace "default", expected shop\n'
    ran = simulate(tmp_path, states=["setup"])
    missed = 'note: pinner acts on resize and update, which its entry\'s "states" do not list: it is not asked\n'
    assert (ran.stderr, "resize" in ran.stdout) == (missed, False)


def test_resident_remembers_as_on_a_node_unless_its_entry_says_no(tmp_path: Path) -> None:
    counting = PLUGIN.replace("    acts_on", "    resident, seen = True, []\n    acts_on").replace(
        "if request.is_sandbox",
        "self.seen.append(1); result.metadata['count'] = str(len(self.seen))\n        if request.is_sandbox",
    )
    counts = {True: ["count=1", "count=2", "count=3", "count=4"], False: ["count=1"] * 4}
    for resident, shown in counts.items():
        ran = simulate(tmp_path, "--json", plugin=counting, resident=resident)
        assert [row["result"] for row in ran.json if row["plugin"]] == shown, ran.stderr
        (created,) = [
            row for row in ran.json if (row["event"], row["container"]) == ("create", "app-0")
        ]
        assert "wrote cpuset.cpus: 2-3" in created["output"]


def test_requests_are_whole_lines_in_a_pipe(tmp_path: Path) -> None:
    ran = simulate(tmp_path, "-v")
    requests = [
        line.partition("request: ")[2]
        for line in ran.stdout.splitlines()
        if "    request: " in line
    ]
    assert [json.loads(request)["state"] for request in requests][:2] == ["create", "setup"]


def test_error_is_shown_once(tmp_path: Path) -> None:
    ran = simulate(
        tmp_path, plugin=PLUGIN.replace('print("confining")', "raise errors.NRIError('no CPU')")
    )
    assert ran.stdout.count("error: ") == 1
    assert ran.stdout.count("StartContainer fails: ") == 1
    assert "v1bridge" not in ran.stdout


def test_a_plugin_in_any_language_is_run_in_all_states(tmp_path: Path) -> None:
    shell(tmp_path)
    rows = inside("simulate", "bin/hello", "--json", cwd=tmp_path).json
    states = ["create", "setup", "create", "resize", "update", "delete", "delete"]
    assert [row["event"] for row in rows] == states
    assert {(row["plugin"], row["result"], *row["output"]) for row in rows} == {
        ("hello", "a=b", "hello")
    }


@pytest.mark.parametrize(
    "answer", ["[1]", '{"plugin": "hello", "metadata": ["a"]}', '{"error": 5}', ""]
)
def test_an_answer_that_is_no_result_fails_as_on_a_node(tmp_path: Path, answer: str) -> None:
    shell(tmp_path, f"#!/bin/sh\ncat >/dev/null\necho '{answer}'\n")
    entry = {"type": "hello", "failurePolicy": "ignore"}
    (tmp_path / "bin/10-hello.conf").write_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    ran = inside("simulate", "bin/hello", "--json", cwd=tmp_path)
    asked = [row for row in ran.json if row["plugin"] == "hello"]
    assert ran.status == 1
    # Each is ignored.
    assert [row["event"] for row in asked] == ["create", "create", "delete", "delete"]
    assert all(row["error"].startswith("no valid result: ") for row in asked)


def test_stdout_and_options_that_are_not_utf_8(tmp_path: Path) -> None:
    shell(
        tmp_path,
        """#!/bin/sh\ncat >/dev/null\necho '{"plugin": "hello", "metadata": {"a": "\\u2026"}}'\n""",
    )
    ran = process("simulate", "bin/hello", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert ran.status == 0
    assert "a=\\u2026" in ran.stdout
    for option in ("--namespace=\udcff", "--annotation=a=\udcff"):
        ran = inside("simulate", "bin/hello", option, cwd=tmp_path)
        assert ran.status == 2
        assert "expected UTF-8" in ran.stderr


def test_a_folder_of_files_is_a_host_configuration(tmp_path: Path) -> None:
    shell(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/10.conf").write_text(
        '{"version": "0.1", "plugins": [{"type": "hello", "states": ["update"]}]}'
    )
    rows = inside("simulate", "conf", "--bin-dir", "bin", "--json", cwd=tmp_path).json
    assert [row["event"] for row in rows] == ["create", "create", "update", "delete", "delete"]
    twice = inside("simulate", "conf", "conf", cwd=tmp_path)
    assert (twice.status, twice.stderr) == (
        1,
        "conf: found a second host configuration, expected one\n",
    )
    both = inside("simulate", "conf", "bin/hello", cwd=tmp_path)
    assert both.status == 1
    assert "bin/hello: found beside the host configuration" in both.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ("nothing",),
            1,
            "nothing: found no executable, expected a plugin or a folder of *.conf\n",
        ),
        (("bin/hello", "bin/hello"), 1, "bin/hello: its type 'hello' is that of another plugin\n"),
        (
            ("bin/-",),
            1,
            "bin/-: its name is no type of a plugin; expected letters, digits and . _ -\n",
        ),
    ],
)
def test_a_plugin_that_cannot_be_tried_is_reported_in_one_sentence(
    tmp_path: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    shell(tmp_path)
    (tmp_path / "bin/-").symlink_to("hello")
    ran = inside("simulate", *words, cwd=tmp_path)
    assert (ran.status, ran.stderr.endswith(said)) == (status, True), ran.stderr


@needs_root
@pytest.mark.kernel_cgroups
@pytest.mark.runtime
def test_the_nodes_own_cgroups_are_made_below_one_and_removed(tmp_path: Path) -> None:
    plugin = PLUGIN.replace(
        "        return result\n\n", "        print(cgroup.cpus())\n        return result\n\n"
    )
    ran = simulate(tmp_path, "--cgroups", "node", "--conf", '{"cpus": "0"}', plugin=plugin)
    assert (ran.status, "    frozenset({0})\n" in ran.stdout) == (0, True), ran.stdout
    left = "**/nri-simulate-*"  # tests beside this have some
    assert wait_until(lambda: not list(Path("/sys/fs/cgroup").glob(left)))


@needs_root
@pytest.mark.kernel_cgroups
@pytest.mark.runtime
def test_an_interrupted_one_leaves_no_cgroup_and_no_folder(tmp_path: Path) -> None:
    waits = f"[ $1 = invoke ] || exit 2\necho $PPID >{tmp_path}/pid\nexec sleep 1000"
    shell(tmp_path, f"#!/bin/sh\n{waits}\n")
    command = [*COMMAND, "simulate", "--cgroups", "node", "--timeout", "100", "bin/hello"]
    environment = {"PYTHONPATH": SOURCE, "PATH": os.defpath, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as child:
        assert wait_until(
            lambda: list(Path("/sys/fs/cgroup").glob(f"**/nri-simulate-{child.pid}")) != []
        )
        assert wait_until((tmp_path / "pid").exists)
        child.terminate()
        assert child.wait(SOON) == 143
    assert list(Path("/sys/fs/cgroup").glob(f"**/nri-simulate-{child.pid}")) == []
    assert list(tmp_path.glob("nri-simulate-*")) == []


def test_controllers_that_are_enabled_already_stay_enabled(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpuset cpu memory pids\n")
    cgroups = NodeCgroups()
    cgroups._make(str(tmp_path / "own"), 2)
    assert cgroups.enabled == [(str(tmp_path / "cgroup.subtree_control"), "-io")]
