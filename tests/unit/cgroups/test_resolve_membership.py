"""A container's cgroup by its process: the names that count, and cgroups that never do."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.cgroups import Cgroup, CgroupError, ElsewhereError, GoneError, Mounts, find, knobs
from nri.cgroups.paths import expand, is_named_after
from nri.testing.cgroup_files import CgroupFiles
from tests.support.system_faults import Failing, name_of
from tests.unit.cgroups.trees import make_process

ID = "1f0c"
OWN = [
    f"/{ID}",
    f"/machine/libpod-{ID}",
    f"/system.slice/crun-{ID}.scope",
    f"/a/{ID}.scope",
    f"/x/my-engine-{ID}",
]
STRANGERS = [
    "/other",
    f"/x{ID}",
    f"/{ID}x",
    f"/libpod-{ID}x",
    f"/{ID}/inner",
    f"/a.{ID}",
    f"/{ID}.slice",
    f"/_{ID}",
]


class Machine:
    """A cgroup tree and a proc of plain files, with the process 7."""

    def __init__(self, root: Path, kind: str) -> None:
        self.tree = CgroupFiles(root / "cgroup", kind)
        self.proc = root / "proc"

    def put(self, process: object, path: str, *, cpuset: str | None = None) -> None:
        """Let a process (7, "self", 1) be in this cgroup, which is made."""
        for each in {path, cpuset or path} - {"/"}:
            if "(" not in each and ".." not in each and "//" not in each:
                self.tree.make(each)
        v2 = path if self.tree.kind == "v2" else "/"
        lines = f"3:cpuset:{cpuset or path}\n2:cpu,cpuacct:{path}\n0::{v2}\n"
        make_process(self.proc, process, lines)  # type: ignore[arg-type]

    def find(self, path: str = "", container_id: str = ID) -> Cgroup:
        return find(
            path, 7, container_id, mounts=Mounts.parse(self.tree.mountinfo), proc=str(self.proc)
        )

    def refused(self, path: str = "", container_id: str = ID, controller: str = "cpu") -> str:
        with pytest.raises(GoneError) as caught:
            self.find(path, container_id).directory(controller)
        return str(caught.value)


@pytest.fixture(params=["v1", "v2"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


@pytest.mark.parametrize("path", OWN)
def test_a_cgroup_with_the_containers_name_counts(machine: Machine, path: str) -> None:
    for process, its_path in ((7, path), ("self", f"{path}2"), (1, "/init.scope")):
        machine.put(process, its_path)
    for given_path, controller in (("", "cpu"), ("elsewhere/x", "cpuset")):
        assert machine.find(given_path).directory(controller).endswith(path)


@pytest.mark.parametrize("path", STRANGERS)
def test_a_cgroup_with_another_name_does_not_count(machine: Machine, path: str) -> None:
    machine.put(7, path)
    for given_path in ("", "elsewhere/x"):
        error = machine.refused(given_path)
        assert error.endswith(
            f"is in '{path}', expected a cgroup that is named after the container '{ID}'"
        )


def test_a_path_that_names_a_cgroup_is_final(machine: Machine) -> None:
    # Also if the process is in one that looks like the container's. It is this process's own here.
    for process in (7, "self"):
        machine.put(process, f"/machine/{ID}")
    for given_path in (f"/kubepods/{ID}", f"system.slice:runc:{ID}"):
        assert machine.refused(given_path).endswith(" does not exist")


@pytest.mark.parametrize("path", [f"/kubepods/pod1/{ID}", f"kubepods-pod1.slice:cri:{ID}"])
@pytest.mark.parametrize("is_made", [True, False], ids=["gVisor", "Kata"])
@pytest.mark.parametrize(
    ("process", "own", "is_elsewhere"),
    [
        ("/kubepods/pod1/kata_1", "/system.slice/containerd.service", True),
        ("/kubepods-pod1.slice/sandbox", "/", True),
        ("/kubepods/pod1", "/system.slice/bridge", True),
        ("/kubepods/pod1/1f0cx", "/system.slice/bridge", True),
        ("CONTAINER", "/system.slice/bridge", False),
        ("CONTAINER/init.scope", "/system.slice/bridge", False),
        # It may be another one, of this process's pid namespace, or the number is not the container's.
        ("/kubepods/pod9/bridge", "/kubepods/pod9/bridge", False),
        ("/kubepods/pod9/bridge/plugin", "/kubepods/pod9/bridge", False),
        ("/kubepods/pod9", "/kubepods/pod9/bridge", False),
        ("/", "/system.slice/bridge", False),
        ("/init.scope", "/system.slice/bridge", False),
    ],
)
def test_container_whose_process_is_elsewhere_is_not_in_its_cgroup(
    machine: Machine, path: str, is_made: bool, process: str, own: str, is_elsewhere: bool
) -> None:
    directory = expand(path)
    machine.put("self", own)
    machine.put(7, process.replace("CONTAINER", directory))
    if is_made:
        machine.tree.make(directory)
    if is_elsewhere:
        with pytest.raises(ElsewhereError, match=f"process 7 is in '{process}'; expected the"):
            machine.find(path).cpu_quota()
    elif is_made or process.startswith("CONTAINER"):
        assert machine.find(path).directory("cpu").endswith(directory)
    else:
        assert machine.refused(path).endswith(" does not exist")


def test_process_that_is_not_to_be_seen_says_nothing(machine: Machine) -> None:
    machine.tree.make(f"/kubepods/{ID}")
    assert machine.find(f"/kubepods/{ID}").directory("cpu").endswith(f"/kubepods/{ID}")


@pytest.mark.parametrize("given", [f"/kubepods/pod1/{ID}", f"kubepods-pod1.slice:cri:{ID}"])
def test_process_counts_by_name_if_the_path_is_not_visible(tmp_path: Path, given: str) -> None:
    # A runtime in a container without a cgroup namespace: a part of the tree is mounted, and paths count from there.
    mounts, proc = (
        Mounts.parse(f"1 1 0:1 /docker/d1 {tmp_path} rw - cgroup2 c rw\n"),
        str(tmp_path / "proc"),
    )
    paths = {
        7: f"/docker/d1/kubepods/pod1/{ID}",
        8: "/docker/d1/kubepods/pod1/other",
        9: f"/kubepods/pod1/{ID}",
    }
    for pid, path in paths.items():
        (tmp_path / path.removeprefix("/docker/d1/").strip("/")).mkdir(parents=True, exist_ok=True)
        make_process(proc, pid, f"0::{path}\n")
    assert (
        find(given, 7, ID, mounts=mounts, proc=proc).directory("cpu")
        == f"{tmp_path}/kubepods/pod1/{ID}"
    )
    for pid, reason in ((8, "expected a cgroup that is named after"), (9, "is not below")):
        with pytest.raises(GoneError, match=reason):
            find(given, pid, ID, mounts=mounts, proc=proc).directory("cpu")


@given(path=st.text("a1-./", max_size=20), container_id=st.text("a1-.", max_size=6))
def test_id_counts_only_whole_at_the_end_of_the_path(path: str, container_id: str) -> None:
    name = path.rpartition("/")[2]
    whole = [container_id, f"{container_id}.scope"]
    expected = name in whole or name.endswith(tuple(f"-{each}" for each in whole))
    assert is_named_after(path, container_id) == (expected and container_id != "")


def test_cruns_child_counts_when_its_scope_does(machine: Machine) -> None:
    scope = f"/system.slice/crun-{ID}.scope"
    machine.put(7, f"{scope}/container")
    assert machine.find().directory("cpu").endswith(scope)
    assert (
        f"is in '{scope}', expected a cgroup that is named after the container 'x'"
        in machine.refused(container_id="x")
    )
    assert "is named after the container 'container'" in machine.refused(container_id="container")


@pytest.mark.parametrize("ours", ["", "/helper"])
@pytest.mark.parametrize(("process", "whose"), [("self", "this process's own"), (1, "the host's")])
def test_cgroup_of_this_process_or_of_init_never_counts(
    machine: Machine, process: object, whose: str, ours: str
) -> None:
    machine.put(7, f"/machine/{ID}")
    machine.put(process, f"/machine/{ID}{ours}")
    assert machine.refused().endswith(
        f"process 7 is in '/machine/{ID}', which is {whose}, expected one of container '{ID}' alone"
    )


def test_own_scope_never_counts_by_cruns_child_either(machine: Machine) -> None:
    for process in (7, "self"):
        machine.put(process, f"/crun-{ID}.scope/container")
    assert "which is this process's own" in machine.refused()


def test_init_scope_never_counts_for_any_id(machine: Machine) -> None:
    machine.put(7, "/init.scope")
    for name in ("init", "init.scope"):
        assert f"which is the host's, expected one of container '{name}' alone" in machine.refused(
            container_id=name
        )
    assert "and no container id was given to compare its name with" in machine.refused(
        container_id=""
    )


@pytest.mark.parametrize(
    ("memberships", "reason"),
    [
        (None, "process 7 has exited"),
        ("3:cpuset:/\n2:cpu:/\n0::/\n", "process 7 is in the root cgroup"),
        (
            "2:cpu:/../pod9/1f0c\n0::/../pod9/1f0c\n",
            "'/../pod9/1f0c' is outside of this process's cgroup namespace",
        ),
        ("2:cpu:/a/../../1f0c\n0::/a/../../1f0c\n", "is outside of"),
        ("2:cpu://1f0c\n0:://1f0c\n", "'//1f0c' is not below"),
        ("2:cpu:/gone/1f0c\n0::/gone/1f0c\n", "/gone/1f0c does not exist"),
        (
            "2:cpu:/1f0c (deleted)\n0::/1f0c (deleted)\n",
            "'/1f0c (deleted)', expected a cgroup that is named after",
        ),
        ("", "process 7 has exited"),
    ],
)
def test_unknown_cgroup_of_a_process_is_gone_with_the_reason(
    machine: Machine, memberships: str | None, reason: str
) -> None:
    if memberships is not None:
        make_process(machine.proc, 7, memberships)
    error = machine.refused()
    assert error.startswith(f"no cpu cgroup for container '{ID}': no cgroupsPath was given, and ")
    assert reason in error


def test_each_v1_hierarchy_is_judged_by_itself(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "v1")
    machine.put(7, f"/machine/{ID}", cpuset="/other")
    assert machine.find().directory("cpu").endswith(f"/machine/{ID}")
    assert "process 7 is in '/other'" in machine.refused(controller="cpuset")
    machine.put("self", "/plugins", cpuset=f"/machine/{ID}")
    assert machine.find().directory("cpu").endswith(f"/machine/{ID}")


def test_the_process_is_looked_up_once(machine: Machine) -> None:
    machine.put(7, f"/machine/{ID}")
    cgroup = machine.find()
    cgroup.directory("cpu")
    os.unlink(machine.proc / "7/cgroup")
    os.rmdir(machine.proc / "7")
    machine.put(7, f"/other/{ID}")  # its number is another process's
    assert cgroup.directory("cpuset").endswith(f"/machine/{ID}")


# A relative path counts from the root, or from the runtime's own cgroup


@pytest.mark.parametrize("elsewhere", ["/web/abcd", "/web", "/"])
def test_relative_path_counts_unless_the_process_is_elsewhere(
    machine: Machine, elsewhere: str
) -> None:
    machine.tree.make("/web/abc")
    assert machine.find("web/abc").directory("cpu").endswith("/web/abc")
    machine.put(7, elsewhere)
    assert "/web/abc, and process 7 is in " in (refused := machine.refused("web/abc"))
    assert "process 7 is not in /" in refused
    assert refused.count(f"'{elsewhere}'") <= 1
    (machine.proc / "7/cgroup").write_text(
        "3:cpuset:/web/abc/in\n2:cpu,cpuacct:/web/abc/in\n0::/web/abc/in\n"
    )
    assert machine.find("web/abc").directory("cpu").endswith("/web/abc")


def test_relative_path_below_the_runtimes_cgroup_is_found(machine: Machine) -> None:
    machine.tree.make(f"/web/{ID}")
    machine.put(7, f"/runtime/web/{ID}")
    assert machine.find(f"web/{ID}").directory("cpu").endswith(f"/runtime/web/{ID}")


# What cannot be read


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_proc_that_cannot_be_read_is_an_error_and_no_cgroup(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    machine.put(7, f"/machine/{ID}")
    machine.put(1, "/init.scope")
    monkeypatch.setattr(knobs, "os", Failing(os, call, errno.EMFILE))
    with pytest.raises(CgroupError, match=r"^cannot read .*/proc/7/cgroup: .*EMFILE") as caught:
        machine.find().directory("cpu")
    assert not isinstance(caught.value, GoneError)


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM], ids=name_of
)
def test_if_proc_hides_init_the_name_decides(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The option hidepid of proc, for a user who is not root."""
    machine.put(7, f"/machine/{ID}")
    slurp = knobs.slurp

    def hide(path: str, limit: int) -> bytes:
        if path == f"{machine.proc}/1/cgroup":
            raise OSError(number, os.strerror(number))
        return slurp(path, limit)

    monkeypatch.setattr(knobs, "slurp", hide)
    assert machine.find().directory("cpu").endswith(f"/machine/{ID}")
