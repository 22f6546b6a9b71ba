"""find() and Cgroup on this machine's own hierarchies; what v2 has and v1 has not is in test_real_v2.py."""

import os
import subprocess
import sys

import pytest

from nri.cgroups import CgroupError, GoneError, cpuset, find
from tests.support.real_cgroups import Real, first_missing_cpu

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups]


def test_a_cgroup_is_found_by_path_and_by_process(real: Real) -> None:
    path = real.make("/abc")
    with real.process(path) as pid:
        for cgroup in (find(path), find("elsewhere/abc", pid, "abc"), find("", pid, "abc")):
            for controller in ("cpu", "cpuset"):
                assert cgroup.directory(controller) == real.points[controller] + path
            parent = cgroup.parent()
            assert parent is not None
            assert parent.directory("cpu") == real.points["cpu"] + real.top
            assert parent.parent() is None
    with pytest.raises(GoneError, match=f"process {pid} has exited"):
        find("elsewhere/abc", pid, "abc").cpus()


def test_our_own_cgroup_is_never_a_containers(real: Real) -> None:
    path = real.make("/abc")
    real.limit(path, 50000)
    # A container without a cgroup of its own is in its caller's, and so is its hook.
    code = (
        "import subprocess\n"
        "from nri.cgroups import GoneError, find\n"
        "with subprocess.Popen(['sleep', '60']) as container:\n"
        "    try:\n"
        "        find('', container.pid, 'abc').clear_cpu_quota()\n"
        "    except GoneError as error:\n"
        "        print(error)\n"
        "    finally:\n"
        "        container.kill()\n"
    )
    enter = [f"echo $$ > {file}" for file in real.procs(path)]
    done = subprocess.run(
        ["sh", "-ec", "; ".join([*enter, 'exec "$0" -c "$1"']), sys.executable, code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        f"is in '{path}', which is this process's own, expected one of container 'abc' alone"
        in done.stdout
    )
    assert real.quota(path) == "50000/100000"


def test_a_cpuset_that_was_given_nothing_has_its_ancestors_cpus(real: Real) -> None:
    cgroup = find(real.make("/abc", cpus=""))
    assert cgroup.cpus() == frozenset()
    assert cgroup.effective_cpus() == {0, 1}


@pytest.mark.parametrize(("before", "after"), [("0-1", {0}), ("0", {0, 1}), ("0", {1})], ids=str)
def test_cruns_scope_and_child_move_together(real: Real, before: str, after: set[int]) -> None:
    scope = real.make("/crun-abc.scope", before)
    inner = real.make("/crun-abc.scope/container", before)
    find(scope).set_cpus(frozenset(after))
    assert find(scope).cpus() == after
    assert real.get(scope, "cpuset.cpus") == real.get(inner, "cpuset.cpus")


@pytest.mark.kernel_cgroups(cpuset=1)
@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        (("0-1", "1", "1"), {0}, ("0", "0", "0")),  # nothing of the new ones: all of them
        (("0-1", "0-1", "0"), {0}, ("0", "0", "0")),
        (("0-1", "0-1", "1"), {1}, ("1", "1", "1")),
        (("0", "0", "0"), {1}, ("1", "1", "1")),
        (("0", "0", ""), {1}, ("1", "1", "")),
        (("0-1", "0", "0"), {0}, ("0", "0", "0")),
        (
            ("0", "0", "0"),
            {0, 1},
            ("0-1", "0", "0"),
        ),  # what is below is not widened: it may be narrower on purpose
    ],
)
def test_cpusets_that_a_container_has_made_are_narrowed_with_it_on_v1(
    real: Real, before: tuple[str, ...], new: set[int], after: tuple[str, ...]
) -> None:
    paths = [
        real.make(path, cpus)
        for path, cpus in zip(("/abc", "/abc/d", "/abc/d/e"), before, strict=True)
    ]
    find(paths[0]).set_cpus(frozenset(new))
    assert tuple(real.get(path, "cpuset.cpus") for path in paths) == after


@pytest.mark.kernel_cgroups(cpuset=1)
def test_too_many_cpusets_below_a_container_are_named_as_the_cause(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = real.make("/abc")
    for name in "de":
        real.make(f"/abc/{name}", "1")
    monkeypatch.setattr(cpuset, "MAX_NESTED", 1)
    with pytest.raises(
        CgroupError, match=rf"{path} has more than 1 cgroups below it, which would have"
    ):
        find(path).set_cpus(frozenset({0}))
    assert real.get(path, "cpuset.cpus") == "0-1"


@pytest.mark.kernel_cgroups(cpuset=1)
def test_cpus_that_the_parent_lacks_are_named_as_the_cause_on_v1(real: Real) -> None:
    real.make("/pod", "0")
    path = real.make("/pod/abc", "0")
    with pytest.raises(
        CgroupError, match=r"Permission denied \(EACCES\): the parent cgroup lacks some"
    ):
        find(path).set_cpus(frozenset({0, 1}))


@pytest.mark.parametrize("cpu", [8191, first_missing_cpu()])
def test_cpus_that_the_machine_lacks_are_named_as_the_cause(real: Real, cpu: int) -> None:
    with pytest.raises(
        CgroupError, match=r"\((ERANGE|EINVAL|EACCES)\): (there are|this machine|the parent)"
    ):
        find(real.top).set_cpus(frozenset({cpu}))
    assert real.get(real.top, "cpuset.cpus") == real.cpus


def test_a_cgroup_that_is_removed_under_an_open_file_is_gone(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = find(real.make("/r")), find(real.make("/w"))
    directories = [reader.directory("cpuset"), writer.directory("cpuset")]
    system_open = os.open

    def open_and_remove(path: str, flags: int) -> int:
        descriptor = system_open(path, flags)
        os.rmdir(os.path.dirname(path))
        return descriptor

    monkeypatch.setattr(os, "open", open_and_remove)
    with pytest.raises(GoneError, match=rf"{directories[0]} does not exist any more: .*\(ENODEV\)"):
        reader.cpus()
    with pytest.raises(GoneError, match=rf"{directories[1]} does not exist any more: .*\(ENODEV\)"):
        writer.set_cpus(frozenset({0}))
