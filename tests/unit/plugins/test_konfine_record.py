"""konfine's record: of what it is made again, what it believes, and what it does when others change the cgroups."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.cgroups import parse_cpus
from nri.plugins.konfine import COUNTED, Konfine
from nri.testing import invoke
from tests.support.giving import GivingNode

# The record


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: path.unlink(), "there was none"),
        (lambda path: path.write_text("{"), "it was damaged: "),
        (lambda path: path.write_text('{"boot": 1}'), "it was of another boot"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b'"exclusive"', b"[1]")),
            "it was damaged: ",
        ),
    ],
)
def test_lost_record_is_made_again_of_the_cgroups(
    node: GivingNode, damage: Any, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node.conf["pools"] = [{"name": "batch", "min": 2, "classes": ["batch"]}]
    for name, options in (
        ("web", {}),
        ("db/db", {}),
        ("db/main", {"ask": 2}),
        ("a", {"annotations": {"qos.class": "batch"}}),
    ):
        node.start(name, **options)
    before = node.all()
    damage(node.record)
    assert node.run("update", "web").metadata["rebuilt"].startswith(why)
    assert capsys.readouterr().err.startswith(
        f"konfine: the record of CPUs was made again of the cgroups: {why}"
    )
    assert node.all() == before
    assert node.state()["containers"].keys() == set(node.started.values())
    node.start("db/more", ask=2)
    assert not any(node.sets()["db/more"] & node.sets()[name] for name in before)


def test_keys_of_a_newer_build_are_kept_and_take_no_cpus_away(node: GivingNode) -> None:
    node.start("web")
    node.start("db", ask=2)
    before = node.all()
    value = json.loads(node.record.read_text())
    value |= {"x": 1, "y": {"z": [2]}}
    for entry in value["containers"].values():
        entry |= {"x": 1, "y": "z", "w": None}
    node.record.write_text(json.dumps(value))
    result = node.run("update", "web")
    assert (result.error, "rebuilt" in result.metadata, node.all()) == ("", False, before)
    node.start("more", ask=2)
    assert not node.sets()["more"] & node.sets()["db"]
    written = json.loads(node.record.read_text())
    assert (written["x"], written["y"]) == (1, {"z": [2]})
    assert any(
        entry.get("x") == 1
        for entry in written["containers"].values()
        if entry["kind"] == "exclusive"
    )


@pytest.mark.parametrize("wrong", [5, {"kind": "later"}, {"cpus": "x"}, {"since": 10**400}])
def test_an_entry_that_is_wrong_costs_itself(node: GivingNode, wrong: Any) -> None:
    node.start("web")
    node.start("db", ask=2)
    before, known = node.all(), node.state()["containers"].keys()
    value = json.loads(node.record.read_text())
    key = node.started["web"]
    value["containers"][key] = wrong if wrong == 5 else value["containers"][key] | wrong
    node.record.write_text(json.dumps(value))
    assert node.run("update", "db", ask=2).metadata["rebuilt"].startswith("it was damaged: ")
    assert (node.all(), node.state()["containers"].keys()) == (before, known)


def test_lost_record_is_made_again_of_pods_that_are_far_from_the_root(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = GivingNode.path
    monkeypatch.setattr(
        GivingNode, "path", lambda *about, **more: f"/kind/node/kubelet{near(*about, **more)}"
    )
    node.start("web")
    node.start("db/main", ask=2)
    before, other = node.all(), node.make("other")  # which konfine was not run for
    node.record.unlink()
    node.run("update", "web")
    made = node.state()["containers"]
    kinds = {path: entry["kind"] for path, entry in made.items()}
    assert kinds.pop(other) == kinds.pop(node.started["web"]) == "shared"
    assert (node.all(), kinds) == (before, {node.started["db/main"]: "exclusive"})


@pytest.mark.parametrize("path", ["", "/machine/other"])
def test_lost_record_is_made_again_whatever_the_next_request_is_about(
    node: GivingNode, path: str
) -> None:
    node.start("web")
    node.start("db/main", ask=2)
    node.record.unlink()
    request = node.request("delete", "gone")
    assert request.spec is not None
    assert invoke(
        Konfine(), request.replace(spec=request.spec.replace(cgroups_path=path))
    ).metadata["rebuilt"]
    node.start("db/more", ask=2)
    assert node.all() == {"web": "2-3,6-7", "db/main": "0,4", "db/more": "1,5"}


SOME_ID = "0123456789abcdef" * 4
OUTSIDE = [
    f"/machine.slice/libpod-{SOME_ID}.scope",
    f"/libpod_parent/libpod-{SOME_ID}",
    f"/system.slice/docker-{SOME_ID}.scope",
    "/docker/abc",
    f"/batch/libpod-{SOME_ID}",  # by the id alone
    f"/batch/{SOME_ID}",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("is_lost", [True, False])
def test_cpus_of_a_container_outside_of_the_pods_are_its_own(
    node: GivingNode, path: str, is_lost: bool
) -> None:
    """Podman beside Kubernetes, or a person's ``--cpuset-cpus``: no other has what one has alone."""
    node.start("web")
    node.start("side")  # a machine has several containers that share CPUs
    node.start("db/main", ask=2)
    node.files.make(path)
    node.files.put(path, "cpuset.cpus", "1-2\n")
    for name in ("web", "side"):
        node.files.put(node.path(name), "cpuset.cpus", "3,5-7\n")
    if is_lost:
        node.record.unlink()
    node.start("db/more", ask=2)
    assert not node.sets()["db/more"] & {0, 1, 2, 4}
    assert node.files.get(path, "cpuset.cpus") == "1-2"
    assert not node.sets()["web"] & {0, 1, 2, 4}


def test_container_outside_of_the_pods_is_followed_not_written(node: GivingNode) -> None:
    """``docker update --cpuset-cpus`` decides about its own container."""
    path = f"/system.slice/docker-{SOME_ID}.scope"
    node.files.make(path)
    node.files.put(path, "cpuset.cpus", "6\n")
    for name in ("web", "side"):
        node.start(name)
    node.start("db/main", ask=2)
    for cpus, is_kept in (("7", True), ("0-7", False)):
        node.files.put(path, "cpuset.cpus", f"{cpus}\n")
        node.run("update", "db/main", ask=2)
        assert node.files.get(path, "cpuset.cpus") == cpus
        assert (path in node.state()["containers"]) == is_kept
    assert node.sets()["web"] == {*range(8)} - node.sets()["db/main"]


def test_container_that_konfine_is_not_run_for_is_left_alone(node: GivingNode) -> None:
    node.start("web")
    other = node.make("other")
    node.files.put(other, "cpuset.cpus", "0-7\n")
    node.start("db/main", ask=2)
    assert node.files.get(other, "cpuset.cpus") == "0-7"
    assert other not in node.state()["containers"]


def test_cpus_that_two_containers_were_given_are_one_containers_alone(node: GivingNode) -> None:
    """The kubelet has allocated the same devices twice: the one whose cgroup is there has them."""
    node.conf["exclusive"] = {"counted": True}

    def run(state: str, name: str) -> Any:
        request = node.request(state, name, annotations={COUNTED: "2-3"})
        return invoke(Konfine(), request.replace(own_annotations=(COUNTED,)))

    node.start("web")
    assert run("setup", "c/main").error == ""
    node.started["d/main"] = node.make("d/main")
    assert run("create", "d/main").error == ""
    node.started["c/main"] = node.make("c/main")
    assert run("create", "c/main").error == ""
    sets = node.sets()
    assert sets["d/main"] == {2, 3}
    assert len(sets["c/main"]) == 2
    assert not sets["c/main"] & (sets["d/main"] | sets["web"])


@pytest.mark.parametrize(("other", "left"), [("0,4", "1-3,5-7"), ("0,1", "1")])
def test_two_containers_of_a_record_with_the_same_cpus_are_parted(
    node: GivingNode, other: str, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier build has given them twice: then they had them for good."""
    node.start("web")
    node.start("db/main", ask=2)
    node.start("db/more", ask=2)
    state = node.state()
    state["containers"][node.started["db/more"]]["cpus"] = other
    node.record.write_text(json.dumps(state))
    node.run("update", "web")
    sets = node.all()
    assert (sets["db/main"], sets["db/more"]) == ("0,4", left)
    said = "konfine: shop/db/more had CPUs that another container has alone, and has lost them"
    assert said in capsys.readouterr().err
    node.run("update", "db/more", ask=2)
    more = node.sets()["db/more"]
    assert len(more) == 2
    assert not more & (node.sets()["db/main"] | node.sets()["web"])


def test_cpus_changed_by_others_are_corrected(node: GivingNode) -> None:
    node.start("web")
    node.start("db/main", ask=2)
    for name in ("web", "db/main"):
        node.files.put(node.started[name], "cpuset.cpus", "0-7\n")
    node.start("other")
    assert node.all() == {"web": "1-3,5-7", "db/main": "0,4", "other": "1-3,5-7"}


def test_failed_move_of_another_container_refuses_the_new_one(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("web")
    real = os.open
    file = node.files.file(node.started["web"], "cpuset.cpus")

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == file and flags & os.O_WRONLY:
            raise OSError(errno.EACCES, "Permission denied")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert "cpuset.cpus: Permission denied (EACCES)" in node.refusal("db/main", ask=2)
    monkeypatch.undo()
    node.run("update", "web")
    assert node.all() == {"web": "0-7"}


def test_untrusted_or_unwritable_record_is_refused(v2: GivingNode) -> None:
    v2.start("web")
    v2.record.parent.chmod(0o777)
    assert "is writable by others" in v2.refusal("db/main", ask=2)
    v2.conf["run"] = str(v2.root / "mountinfo")
    assert v2.refusal("web").startswith(f"{v2.conf['run']}/nri")


def test_container_started_despite_a_killed_plugin_gets_its_cpus(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the failure policy ``ignore``, or a late create."""
    node.start("web")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nri.plugins.konfine.written.Written.settle", killed)
    path = node.make("db/main")
    with pytest.raises(KeyboardInterrupt):
        node.run("create", "db/main", ask=2)
    monkeypatch.undo()
    node.started["db/main"] = path
    node.start("db/more", ask=2)
    assert node.all() == {"web": "2-3,6-7", "db/main": "0,4", "db/more": "1,5"}


def test_record_is_made_of_containers_alone(node: GivingNode) -> None:
    """The first request after a boot: classes and pods without containers are no containers, services neither."""
    others = ("/kubepods/besteffort", "/kubepods/podempty", "/system.slice/sshd.service")
    for path in others:
        node.files.make(path)
    node.start("web")
    node.start("db/main", ask=2)
    assert node.state()["containers"].keys() == set(node.started.values())
    node.record.unlink()
    node.files.make("/system.slice/abc")
    request = node.request("create", "web")
    assert request.spec is not None
    spec = request.spec.replace(cgroups_path="/system.slice/abc")
    assert invoke(Konfine(), request.replace(spec=spec)).error == ""
    assert [node.files.get(path, "cpuset.cpus") for path in others] == ["", "", ""]


def test_container_with_cgroups_of_its_own_keeps_its_cpus_when_the_record_is_lost(
    node: GivingNode,
) -> None:
    node.start("db/main", ask=2)
    node.files.make(f"{node.started['db/main']}/init.scope")
    node.record.unlink()
    node.start("other/main", ask=2)
    assert not node.sets()["db/main"] & node.sets()["other/main"]


def test_second_container_of_an_id_does_not_free_the_cpus_of_the_first(
    v2: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime refuses it after its setup."""
    v2.start("db/main", ask=2)
    v2.run("setup", "db/main", ask=2)
    monkeypatch.setattr("nri.plugins.konfine.record.SETUP_WITHIN", -1.0)
    v2.start("other/main", ask=2)
    assert not v2.sets()["db/main"] & v2.sets()["other/main"]


@pytest.mark.parametrize(
    ("file", "make", "fault"),
    [
        ("state.json", os.mkfifo, "found a FIFO, expected a regular file"),
        ("state.json", os.mkdir, "found a directory, expected a regular file"),
        ("lock", os.mkdir, "Is a directory"),
    ],
)
def test_record_that_is_no_file_is_named_and_not_waited_for(
    v2: GivingNode, file: str, make: Callable[[Path], None], fault: str
) -> None:
    v2.start("web")
    (v2.record.parent / file).unlink()
    make(v2.record.parent / file)
    wanted = "a directory of root's alone, and files in it that it can read and write"
    why = f"konfine keeps its record of CPUs in {v2.record.parent}: {wanted}"
    assert v2.refusal("db/main", ask=2) == f"{v2.record.parent / file}: {fault}; {why}"


# What is believed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            ("cpus", "x"),
            ("cpus", ""),
            ("cpus", [0]),
            ("cpus", None),
            ("within", 7),
            ("within", "0-"),
            ("kind", "all"),
        ),
        *(
            ("cgroup", "../x"),
            ("cgroup", 1),
            ("cgroup", "relative"),
            ("told", ["x"]),
            ("told", "0-1"),
            ("plus", 1),
        ),
        *(("since", "now"), ("subgroup", 0), ("id", None)),
    ],
)
def test_entry_that_breaks_a_rule_makes_the_record_anew(
    v2: GivingNode, key: str, value: object
) -> None:
    v2.start("web")
    v2.start("db/main", ask=2)
    document = v2.state()
    document["containers"][v2.started["db/main"]][key] = value
    v2.record.write_text(json.dumps(document))
    rebuilt = v2.start("late").metadata["rebuilt"]
    assert rebuilt.startswith("it was damaged: state.json.containers")
    assert v2.all() == {"web": "1-3,5-7", "db/main": "0,4", "late": "1-3,5-7"}


@pytest.mark.parametrize("key", ["boot", "containers", "pools"])
@pytest.mark.parametrize("value", [None, [], 1, {"a": 1}])
def test_document_that_breaks_a_rule_is_made_anew(v2: GivingNode, key: str, value: object) -> None:
    v2.start("web")
    v2.start("db/main", ask=2)
    v2.record.write_text(json.dumps(v2.state() | {key: value}))
    assert v2.start("late").error == ""
    assert v2.all() == {"web": "1-3,5-7", "db/main": "0,4", "late": "1-3,5-7"}


@pytest.mark.parametrize("path", ["/system.slice/sshd.service", "/docker/abc"])
def test_record_that_is_made_for_a_stranger_takes_in_no_other_strangers(
    node: GivingNode, path: str
) -> None:
    """The first request was for a container outside of the pods, and the whole machine became containers."""
    others = ("/system.slice/kubelet.service", "/user.slice/a/b", "/docker/abc/kubepods/podx/c")
    node.start("web")
    node.record.unlink()
    for other in (*others, path):
        node.files.make(other)
        if node.files.kind == "v1":
            node.files.put(other, "cpuset.cpus", "0-7\n")
    request = node.request("create", "web", ask=2)
    assert request.spec is not None
    result = invoke(
        Konfine(),
        request.replace(spec=request.spec.replace(cgroups_path=path), id="x", sandbox_id=""),
    )
    assert result.error == ""
    assert {node.files.get(other, "cpuset.cpus") for other in others} <= {"", "0-7"}
    assert node.cpus("web") == "1-3,5-7"  # a pod's


# Lists that others set


def test_container_without_an_event_is_not_widened(node: GivingNode) -> None:
    """The kubelet's static policy, or a person, has narrowed it before konfine came."""
    for name, cpus in (("old/main", "1\n"), ("old/side", "2-5\n")):
        node.files.put(node.make(name), "cpuset.cpus", cpus)
        node.started[name] = node.path(name)
    node.start("web")
    node.start("db/main", ask=2)
    assert (node.cpus("old/main"), node.cpus("old/side")) == ("1", "2-5")  # they are theirs
    assert not node.sets()["db/main"] & {1, 2, 3, 4, 5}
    node.run("update", "old/side", cpu={"cpus": "2-5"})  # it shares CPUs, as it says now
    node.stop("db/main")
    assert (node.cpus("old/main"), node.cpus("old/side")) == ("1", "2-5")
    assert node.sets()["web"] == {0, 2, 3, 4, 5, 6, 7}


# A part of the hierarchy is mounted


def test_containers_of_a_node_in_a_container_are_found_where_they_were(node: GivingNode) -> None:
    """v1 without a cgroup namespace: the runtime's paths do not begin with what the mount shows."""
    lines = (node.root / "mountinfo").read_text().splitlines()
    (node.root / "mountinfo").write_text(
        "\n".join([line.replace(" / ", " /docker/node ", 1) for line in lines])
    )
    for name, ask in (("web", None), ("a/main", 2), ("b/main", 2)):
        path = node.make(name)
        request = node.request("create", name, ask=ask)
        with_path = request.replace(
            spec=request.spec and request.spec.replace(cgroups_path=f"/docker/node{path}")
        )
        assert invoke(Konfine(), with_path).error == ""
        node.started[name] = path
    assert node.all() == {"web": "2-3,6-7", "a/main": "0,4", "b/main": "1,5"}
    node.record.unlink()
    request = node.request("create", "late", ask=1)
    path = node.make("late")
    with_path = request.replace(
        spec=request.spec and request.spec.replace(cgroups_path=f"/docker/node{path}")
    )
    assert invoke(Konfine(), with_path).error == ""
    node.started["late"] = path
    sets = node.sets()
    assert len(sets["late"]) == 1
    assert not sets["late"] & (sets["web"] | sets["a/main"] | sets["b/main"])
    assert node.cpus("a/main") == "0,4"


# A container that keeps its CPUs


class Keeping:
    """Refuse to change the CPUs of some cgroups, as the kernel does for some of v1 with cpusets below them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
        self.files = files
        real = os.open

        def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if path in self.files and flags & os.O_WRONLY:
                raise OSError(errno.EBUSY, "Device or resource busy")
            return real(path, flags, *rest, **more)

        monkeypatch.setattr(os, "open", refuse)


def test_set_is_of_other_cpus_if_a_container_keeps_some(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("web")
    node.start("nested", cpu={"cpus": "0-1,4-5"})
    Keeping(monkeypatch, node.files.file(node.started["nested"], "cpuset.cpus"))
    result = node.start("db/main", ask=2)
    assert result.metadata["cpus"] == "2,6"
    assert result.metadata["held"].startswith("shop/nested/nested keeps 0-1,4-5: ")
    assert node.all() == {"web": "0-1,3-5,7", "nested": "0-1,4-5", "db/main": "2,6"}
    assert node.start("late").metadata["cpus"] == "0-1,3-5,7"


def test_container_that_keeps_the_cpus_is_named_if_no_others_will_do(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("web")
    node.start("nested", cpu={"cpus": "0-1,4-5"})
    Keeping(monkeypatch, node.files.file(node.started["nested"], "cpuset.cpus"))
    refused = node.run("setup", "db/main", ask=6)
    assert refused.refused
    assert "shop/nested/nested keeps 0-1,4-5: " in refused.error
    assert node.all() == {"web": "0-7", "nested": "0-1,4-5"}
    pooled: dict[str, Any] = {"annotations": {"qos.class": "batch"}, "cpu": {"shares": 2048}}
    node.conf["pools"] = [{"name": "batch", "classes": ["batch"]}]
    assert len(parse_cpus(node.start("a", **pooled).metadata["cpus"])) == 2
    assert not node.sets()["a"] & node.sets()["nested"]


def test_request_does_not_fail_for_what_another_container_keeps(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("web")
    node.start("db/main", ask=2)
    node.files.put(node.started["web"], "cpuset.cpus", "0-7\n")  # somebody has widened it
    Keeping(monkeypatch, node.files.file(node.started["web"], "cpuset.cpus"))
    for result in (
        node.start("late"),
        node.run("update", "late"),
        node.run("update", "db/main", ask=2),
    ):
        assert result.error == ""
        assert result.metadata["held"].startswith("shop/web/web keeps 0-7: ")
    assert "shop/web/web keeps 0-7: " in node.refusal("cache/main", ask=2)
    stopped = node.stop("late")
    assert stopped is not None and stopped.error == ""


@pytest.mark.parametrize("damage", ["text", "directory", "link"])
def test_request_does_not_fail_for_another_containers_file(node: GivingNode, damage: str) -> None:
    node.start("web")
    node.start("odd")
    file = Path(node.files.file(node.started["odd"], "cpuset.cpus"))
    if damage == "text":
        file.write_text("what?\n")
    else:
        file.unlink()
        file.mkdir() if damage == "directory" else file.symlink_to("/etc/passwd")
    assert node.run("setup", "db/main", ask=1).refused
    for result in (node.start("late"), node.run("update", "web"), node.stop("late")):
        assert result is not None
        assert result.error == ""
    node.record.unlink()
    assert node.run("update", "web").error == ""
