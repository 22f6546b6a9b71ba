"""CDI devices become an ``adjust``: what their files say, which of them count, and what is refused."""

from __future__ import annotations

import copy
import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from nri.adjust import AdjustError, Changes, OCIAbilities
from nri.adjust.apply import apply
from nri.adjust.cdi import CDI, MAX_LISTED
from nri.adjust.cdi_files import MAX_SIZE
from nri.adjust.reading import read_adjust
from nri.types import DecodeError
from nri.types.v1 import Request, Result

if TYPE_CHECKING:
    from pathlib import Path

KIND = "vendor.com/net"
NULL = {"type": "c", "major": 1, "minor": 3}
FULL: dict[str, Any] = {
    "env": ["A=1", "B=x=y", "A=2"],
    "deviceNodes": [{"path": "/dev/a", "type": "b", "major": 8, "minor": 1, "fileMode": 0o660, "uid": 5, "gid": 6}],
    "netDevices": [{"hostInterfaceName": "eth1", "name": "net1"}],
    "mounts": [{"hostPath": "/srv", "containerPath": "/data/", "type": "bind", "options": ["rbind", "ro"]}],
    "hooks": [
        {"hookName": "createRuntime", "path": "/bin/a", "args": ["a"], "env": ["X=1"], "timeout": 3},
        {"hookName": "poststop", "path": "/bin/b"},
    ],
    "additionalGids": [0, 7, 8, 7],
    "intelRdt": {"closID": "gold", "l3CacheSchema": "", "schemata": ["L3:0=f"], "enableMonitoring": True},
}


def specification(devices: dict[str, Any], edits: Any = None, **others: Any) -> dict[str, Any]:
    listed = [{"name": name, "containerEdits": each} for name, each in devices.items()]
    whole = {"cdiVersion": "1.1.0", "kind": KIND, "devices": listed} | others
    return whole if edits is None else whole | {"containerEdits": edits}


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "etc", tmp_path / "run"]
    for each in made:
        each.mkdir(mode=0o755)
    return made


def write(path: Path, document: Any) -> None:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    path.chmod(0o644)


def resolve(dirs: list[Path], *names: str, config: Any = None) -> dict[str, Any]:
    return CDI([*map(str, dirs)]).resolve([f"{KIND}={name}" for name in names], config or {})


def wrong(dirs: list[Path], *names: str, config: Any = None) -> str:
    with pytest.raises(AdjustError) as caught:
        resolve(dirs, *names, config=config)
    return str(caught.value).replace(str(dirs[0].parent), "")


def without_extras(adjust: dict[str, Any]) -> dict[str, Any]:
    plain = copy.deepcopy(adjust)
    plain.pop("additionalGids", None)
    for device in plain.get("linux", {}).get("devices", []):
        device.pop("access", None)
    return plain


# The edits


def test_every_edit_becomes_a_part_of_the_adjust(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": FULL}))
    adjust = resolve(dirs, "x")
    assert adjust == {
        "env": {"A": "2", "B": "x=y"},
        "mounts": {"/data": {"source": "/srv", "type": "bind", "options": ["rbind", "ro"]}},
        "hooks": {
            "createRuntime": [{"path": "/bin/a", "args": ["a"], "env": ["X=1"], "timeout": 3}],
            "poststop": [{"path": "/bin/b"}],
        },
        "linux": {
            "devices": [
                {"path": "/dev/a", "type": "b", "major": 8, "minor": 1, "fileMode": 0o660, "uid": 5, "gid": 6},
            ],
            "netDevices": {"eth1": {"name": "net1"}},
            "intelRdt": {"remove": True, "closID": "gold", "schemata": ["L3:0=f"], "enableMonitoring": True},
        },
        "additionalGids": [7, 8],
    }
    plain = without_extras(adjust)
    assert read_adjust(plain) == plain


def test_the_edits_of_the_specification_come_first_and_once(dirs: list[Path]) -> None:
    hook = {"hookName": "prestart", "path": "/bin/once"}
    own = [{"env": [f"NAME={name}", f"{name.upper()}=1"]} for name in ("x", "y")]
    write(dirs[0] / "a.json", specification({"x": own[0], "y": own[1]}, {"hooks": [hook], "env": ["NAME=0", "S=1"]}))
    write(dirs[0] / "b.json", specification({"z": {"env": ["Z=1"]}}, {"hooks": [hook]}))
    assert resolve(dirs, "x", "y", "x") == {
        "env": {"NAME": "y", "S": "1", "X": "1", "Y": "1"},
        "hooks": {"prestart": [{"path": "/bin/once"}]},
    }
    assert len(resolve(dirs, "x", "z")["hooks"]["prestart"]) == 2


def test_a_later_mount_or_device_replaces_the_one_at_its_place(dirs: list[Path]) -> None:
    def edits(source: str, minor: int) -> dict[str, Any]:
        return {
            "mounts": [{"hostPath": source, "containerPath": "/data"}],
            "deviceNodes": [{"path": "/dev/null", "type": "c", "major": 1, "minor": minor, "fileMode": 0o600}],
        }

    write(dirs[0] / "a.json", specification({"x": edits("/x", 1), "y": edits("/y", 2)}))
    adjust = resolve(dirs, "x", "y")
    assert adjust["mounts"] == {"/data": {"source": "/y"}}
    assert [device["minor"] for device in adjust["linux"]["devices"]] == [2]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"path": "/dev/null"}, NULL | {"path": "/dev/null", "fileMode": 0o666}),
        ({"path": "/dev/x", "hostPath": "/dev/null"}, NULL | {"path": "/dev/x", "fileMode": 0o666}),
        ({"path": "/dev/null", "type": "c", "fileMode": 0o600}, NULL | {"path": "/dev/null", "fileMode": 0o600}),
        ({"path": "/dev/null", "type": "u"}, {**NULL, "type": "u", "path": "/dev/null", "fileMode": 0o666}),
        (
            {"path": "/dev/null", "type": "c", "major": 9},
            {"path": "/dev/null", "type": "c", "major": 9, "minor": 0, "fileMode": 0o666},
        ),
        (
            {"path": "/dev/no", "type": "b", "major": 9, "minor": 1},
            {"path": "/dev/no", "type": "b", "major": 9, "minor": 1},
        ),
        ({"path": "/dev/no", "type": "p"}, {"path": "/dev/no", "type": "p"}),
        ({"path": "//dev/./null/"}, NULL | {"path": "/dev/null", "fileMode": 0o666}),
        (
            {"path": "/dev/null", "permissions": "rw", "uid": 0},
            NULL | {"path": "/dev/null", "fileMode": 0o666, "uid": 0, "access": "rw"},
        ),
        (
            {"path": "/dev/null", "permissions": "none"},
            NULL | {"path": "/dev/null", "fileMode": 0o666, "access": ""},
        ),
        (
            {"path": "/dev/null", "fileMode": 0o20640, "permissions": "rwm"},
            NULL | {"path": "/dev/null", "fileMode": 0o640},
        ),
    ],
)
def test_what_is_missing_of_a_device_is_taken_from_the_host(
    dirs: list[Path], node: dict[str, Any], expected: dict[str, Any]
) -> None:
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": [node]}}))
    adjust = resolve(dirs, "x")
    assert adjust["linux"]["devices"] == [expected]
    read_adjust(without_extras(adjust))
    config: dict[str, Any] = {}
    apply(config, adjust)
    assert "access" not in config["linux"]["devices"][0]
    rules = config["linux"].get("resources", {}).get("devices", [])
    assert [rule["access"] for rule in rules] == ([] if node.get("type") == "p" else [expected.get("access", "rwm")])


def test_a_fifo_of_the_host_has_no_numbers(dirs: list[Path]) -> None:
    fifo = dirs[0].parent / "fifo"
    os.mkfifo(fifo, 0o600)
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": [{"path": "/pipe", "hostPath": str(fifo)}]}}))
    (device,) = resolve(dirs, "x")["linux"]["devices"]
    assert device == {"path": "/pipe", "type": "p", "fileMode": stat.S_IMODE(fifo.stat().st_mode)}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"path": "/dev/no"}, "/dev/no is not on this host: No such file or directory"),
        ({"path": "/dev/x", "hostPath": "/dev/no", "type": "c"}, "/dev/no is not on this host: No such file or"),
        ({"path": "/dev/x", "hostPath": "/etc/passwd"}, "/etc/passwd is not on this host: it is no device node"),
        ({"path": "/dev/null", "type": "b"}, "/dev/null has the type c, expected b"),
    ],
)
def test_a_device_node_that_is_not_on_the_host_is_named_with_its_file(
    dirs: list[Path], node: dict[str, Any], reason: str
) -> None:
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": [node]}}))
    assert wrong(dirs, "x").startswith(f"/etc/a.json: the device x: the device node {reason}")


def test_a_device_node_belongs_to_the_process_unless_it_is_roots(dirs: list[Path]) -> None:
    nodes = [{"path": "/dev/null"}, {"path": "/dev/zero", "uid": 0, "gid": 9}]
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": nodes}}))
    config: Any = {"process": {"user": {"uid": 1000, "gid": 100}}}
    devices = resolve(dirs, "x", config=config)["linux"]["devices"]
    assert [(device["uid"], device["gid"]) for device in devices] == [(1000, 100), (0, 9)]
    assert "uid" not in resolve(dirs, "x", config={"process": {"user": {"uid": 0}}})["linux"]["devices"][0]
    wrong_configs: list[tuple[Any, str]] = [
        ({"process": []}, "process: found an array"),
        ({"process": {"user": 1}}, "process.user: found the number 1"),
        ({"process": {"user": {"uid": "a"}}}, "process.user.uid: found the string 'a'"),
        ({"linux": {"namespaces": {"a": 1}}}, "linux.namespaces: found an object"),
    ]
    for config, place in wrong_configs:
        with pytest.raises(DecodeError, match=f"^{place}"):
            resolve(dirs, "x", config=config)


@pytest.mark.parametrize(
    ("mount", "options"),
    [
        ({"options": ["rbind", "ro"]}, ["rbind", "ro", "ridmap"]),
        ({"options": ["bind"]}, ["bind", "idmap"]),
        ({"type": "bind"}, ["idmap"]),
        ({"options": ["bind", "idmap"]}, ["bind", "idmap"]),
        ({"type": "tmpfs", "options": ["ro"]}, ["ro"]),
    ],
)
def test_a_bind_mount_maps_ids_in_a_user_namespace(
    dirs: list[Path], mount: dict[str, Any], options: list[str]
) -> None:
    mount = {"hostPath": "/srv", "containerPath": "/data"} | mount
    write(dirs[0] / "a.json", specification({"x": {"mounts": [mount]}}))
    config = {"linux": {"namespaces": [{"type": "user"}]}}
    assert resolve(dirs, "x", config=config)["mounts"]["/data"]["options"] == options
    assert resolve(dirs, "x")["mounts"]["/data"].get("options", []) == mount.get("options", [])


# The files


def test_a_later_directory_replaces_a_device_of_an_earlier_one(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": {"env": ["A=etc"]}, "y": {"env": ["Y=1"]}}))
    write(dirs[0] / "b.json", specification({"x": {"env": ["A=conflict"]}}))
    write(dirs[1] / "c.json", specification({"x": {"env": ["A=run"]}}))
    assert resolve(dirs, "x", "y")["env"] == {"A": "run", "Y": "1"}


def test_a_device_in_two_files_of_a_directory_is_a_conflict_of_that_device_alone(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": {"env": ["A=1"]}, "y": {"env": ["Y=1"]}}))
    write(dirs[0] / "b.yaml", json.dumps(specification({"x": {"env": ["A=2"]}})))
    assert resolve(dirs, "y")["env"] == {"Y": "1"}
    assert wrong(dirs, "x") == (
        "the CDI device vendor.com/net=x is in /etc/a.json and /etc/b.yaml; expected it in one of them"
    )


def test_a_device_of_another_kind_is_another_device(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": {"env": ["A=1"]}}))
    write(dirs[0] / "b.json", specification({"x": {"env": ["A=2"]}}, kind="other.com/net"))
    assert resolve(dirs, "x")["env"] == {"A": "1"}


def test_an_unknown_device_is_named_with_the_known_ones_and_the_broken_files(dirs: list[Path]) -> None:
    assert (
        wrong(dirs, "x")
        == "the CDI device vendor.com/net=x is not in /etc or /run; known of vendor.com/net: no device"
    )
    write(dirs[0] / "a.json", specification({"a": {"env": ["A=1"]}, "b": {"env": ["A=1"]}}))
    write(dirs[1] / "b.json", "{")
    write(dirs[1] / "c.txt", "no specification")
    (dirs[1] / "d.json").symlink_to("nowhere")
    (dirs[1] / "e.json").mkdir()
    os.mkfifo(dirs[1] / "f.json")
    assert wrong(dirs, "x") == (
        "the CDI device vendor.com/net=x is not in /etc or /run; known of vendor.com/net: a, b; files that cannot be "
        "used: /run/b.json: line 1 column 2: expecting property name enclosed in double quotes, found the end of the "
        "document; /run/d.json: cannot be read: No such file or directory; "
        "/run/f.json: is a FIFO, expected a regular file"
    )
    assert resolve(dirs, "a")["env"] == {"A": "1"}


def test_an_error_lists_some_devices_and_escapes_all(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({f"d{number}": {"env": ["A=1"]} for number in range(MAX_LISTED + 5)}))
    (dirs[0] / "\x1b[2J.json").touch()
    message = wrong(dirs, "x\n")
    assert ", d9, and 5 more; " in message
    assert message.isprintable()


def test_a_missing_directory_has_no_devices_and_one_that_is_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = wrong([tmp_path / "no", tmp_path / "file"], "x")
    assert message.endswith("/file: cannot be read: Not a directory")


@pytest.mark.parametrize("mode", [0o646, 0o664])
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_file_that_others_can_change_is_not_read(dirs: list[Path], what: str, mode: int) -> None:
    write(dirs[0] / "a.json", specification({"x": {"env": ["A=1"]}}))
    changed = dirs[0] / "a.json" if what == "file" else dirs[0]
    os.chown(changed, -1, 12345) if os.geteuid() == 0 else None
    changed.chmod(mode | (0o111 if what == "directory" else 0))
    if os.geteuid() != 0 and mode == 0o664:
        pytest.skip("the group is our own")
    assert "is writable by others" in wrong(dirs, "x")
    assert CDI([str(dirs[0])], check_owner=False).resolve([f"{KIND}=x"], {}) == {"env": {"A": "1"}}


def test_a_file_that_is_too_long_is_not_read(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", " " * (MAX_SIZE + 1))
    assert f"/etc/a.json: found more than {MAX_SIZE} bytes" in wrong(dirs, "x")


# In a chain


def test_what_devices_stand_for_is_below_what_plugins_set(dirs: list[Path]) -> None:
    edits = {"env": ["A=cdi", "B=cdi"], "additionalGids": [7], "hooks": [{"hookName": "poststop", "path": "/bin/b"}]}
    write(dirs[0] / "a.json", specification({"x": {"env": ["X=1"]}, "y": {"env": ["Y=1"]}}, edits))
    config = {"process": {"env": ["A=old", "X=old"]}}
    changes = Changes(OCIAbilities("runc", lambda: (1, 0), CDI([*map(str, dirs)]).resolve), config)
    request = Request(state="setup", id="a")
    changes.take("p", request, Result(plugin="p", adjust={"env": {"A": "plugin"}, "cdiDevices": [f"{KIND}=x"]}))
    changes.take("q", request, Result(plugin="q", adjust={"cdiDevices": [f"{KIND}=y"]}))
    assert config == {"process": {"env": ["A=old", "X=old"]}}
    assert changes.config["process"] == {
        "env": ["A=plugin", "X=1", "B=cdi", "Y=1"],
        "user": {"additionalGids": [7]},
    }
    assert changes.config["hooks"] == {"poststop": [{"path": "/bin/b"}]}
    assert changes.adjust["cdiDevices"] == [f"{KIND}=x", f"{KIND}=y"]
    assert changes.resolved_adjust["additionalGids"] == [7]
    assert changes.resolved_adjust["env"] == {"A": "plugin", "B": "cdi", "X": "1", "Y": "1"}
    assert "cdiDevices" not in changes.resolved_adjust


def test_neither_yaml_nor_cdi_is_imported_before_it_is_needed(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": {"env": ["A=1"]}}))
    code = (
        "import sys, nri.adjust, nri.client\n"
        "assert not [name for name in sys.modules if name.startswith(('yaml', 'nri.adjust.cdi'))]\n"
        "from nri.adjust.cdi import CDI\n"
        "CDI([sys.argv[1]]).resolve(['vendor.com/net=x'], {})\n"
        "assert not {'yaml', 'json', 'nri.adjust.cdi_yaml', 're', 'typing'} & set(sys.modules)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    subprocess.run([sys.executable, "-S", "-c", code, dirs[0]], check=True, env=environment)
