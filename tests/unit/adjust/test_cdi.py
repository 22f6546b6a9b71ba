"""CDI devices become an ``adjust``: the rules of their files, which of these count, and what is refused."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings

from nri.adjust import AdjustError
from nri.adjust.cdi import CDI, MAX_LISTED
from nri.adjust.cdi_document import VERSIONS, read_specification
from nri.adjust.cdi_edits import adjust_of
from nri.adjust.cdi_files import MAX_SIZE
from nri.adjust.cdi_yaml import loads
from nri.adjust.reading import read_adjust
from nri.types import DecodeError
from tests.unit.types.mutations import mutated

if TYPE_CHECKING:
    from pathlib import Path

KIND = "vendor.com/net"
ENV: dict[str, Any] = {"env": ["A=1"]}
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
ADJUST: dict[str, Any] = {
    "env": {"A": "2", "B": "x=y"},
    "mounts": {"/data": {"source": "/srv", "type": "bind", "options": ["rbind", "ro"]}},
    "hooks": {
        "createRuntime": [{"path": "/bin/a", "args": ["a"], "env": ["X=1"], "timeout": 3}],
        "poststop": [{"path": "/bin/b"}],
    },
    "linux": {
        "devices": [{"path": "/dev/a", "type": "b", "major": 8, "minor": 1, "fileMode": 0o660, "uid": 5, "gid": 6}],
        "netDevices": {"eth1": {"name": "net1"}},
        "intelRdt": {"remove": True, "closID": "gold", "schemata": ["L3:0=f"], "enableMonitoring": True},
    },
    "additionalGids": [7, 8],
}


def specification(devices: dict[str, Any], edits: Any = None, **others: Any) -> dict[str, Any]:
    listed = [{"name": name, "containerEdits": each} for name, each in devices.items()]
    whole = {"cdiVersion": "1.1.0", "kind": KIND, "devices": listed} | others
    return copy.deepcopy(whole if edits is None else whole | {"containerEdits": edits})


GOOD = specification({"x": FULL, "y": ENV}, FULL, annotations={"a": "b"})


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
    assert resolve(dirs, "x") == ADJUST
    assert read_adjust(without_extras(ADJUST)) == without_extras(ADJUST)


def test_edits_of_the_specification_come_first_and_once_and_later_ones_replace(dirs: list[Path]) -> None:
    def edits(name: str, minor: int) -> dict[str, Any]:
        return {
            "env": [f"NAME={name}", f"{name}=1"],
            "mounts": [{"hostPath": f"/{name}", "containerPath": "/data"}],
            "deviceNodes": [{"path": "/dev/no", "type": "c", "major": 1, "minor": minor}],
        }

    hook = {"hookName": "prestart", "path": "/bin/once"}
    shared = {"hooks": [hook], "env": ["NAME=0", "S=1"]}
    write(dirs[0] / "a.json", specification({"x": edits("x", 1), "y": edits("y", 2)}, shared))
    write(dirs[0] / "b.json", specification({"z": {"env": ["Z=1"]}}, {"hooks": [hook]}))
    assert resolve(dirs, "x", "y", "x") == {
        "env": {"NAME": "y", "S": "1", "x": "1", "y": "1"},
        "hooks": {"prestart": [{"path": "/bin/once"}]},
        "mounts": {"/data": {"source": "/y"}},
        "linux": {"devices": [{"path": "/dev/no", "type": "c", "major": 1, "minor": 2}]},
    }
    assert len(resolve(dirs, "x", "z")["hooks"]["prestart"]) == 2


NULL = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"path": "//dev/./null/"}, NULL),
        ({"path": "/dev/x", "hostPath": "/dev/null"}, NULL | {"path": "/dev/x"}),
        ({"path": "/dev/null", "type": "c", "fileMode": 0o20600}, NULL | {"fileMode": 0o600}),
        ({"path": "/dev/null", "type": "u"}, NULL | {"type": "u"}),
        ({"path": "/dev/null", "type": "c", "major": 9}, NULL | {"major": 9, "minor": 0}),
        ({"path": "/dev/no", "type": "p"}, {"path": "/dev/no", "type": "p"}),
        ({"path": "/dev/null", "permissions": "rw", "uid": 0}, NULL | {"uid": 0, "access": "rw"}),
        ({"path": "/dev/null", "permissions": "none"}, NULL | {"access": ""}),
        ({"path": "/dev/null", "permissions": "rwm"}, NULL),
    ],
)
def test_missing_parts_of_a_device_are_taken_from_the_host(
    dirs: list[Path], node: dict[str, Any], expected: dict[str, Any]
) -> None:
    fifo = dirs[0].parent / "fifo"
    os.mkfifo(fifo)
    fifo.chmod(0o600)
    pipe = {"path": "/pipe", "hostPath": str(fifo)}
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": [node, pipe]}}))
    assert resolve(dirs, "x")["linux"]["devices"] == [expected, {"path": "/pipe", "type": "p", "fileMode": 0o600}]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"path": "/dev/x", "hostPath": "/dev/no", "type": "c"}, "/dev/no is not on this host: No such file or"),
        ({"path": "/dev/x", "hostPath": "/etc/passwd"}, "/etc/passwd is not on this host: it is no device node"),
        ({"path": "/dev/null", "type": "b"}, "/dev/null has the type c, expected b"),
    ],
)
def test_device_node_that_is_not_on_the_host_is_named_with_its_file(dirs: list[Path], node: Any, reason: str) -> None:
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": [node]}}))
    assert wrong(dirs, "x").startswith(f"/etc/a.json: the device x: the device node {reason}")


def test_device_node_belongs_to_the_process_unless_that_is_roots(dirs: list[Path]) -> None:
    nodes = [{"path": "/dev/null"}, {"path": "/dev/zero", "uid": 0, "gid": 9}]
    write(dirs[0] / "a.json", specification({"x": {"deviceNodes": nodes}}))
    config: Any = {"process": {"user": {"uid": 1000, "gid": 100}}}
    devices = resolve(dirs, "x", config=config)["linux"]["devices"]
    assert [(device["uid"], device["gid"]) for device in devices] == [(1000, 100), (0, 9)]
    assert "uid" not in resolve(dirs, "x", config={"process": {"user": {"uid": 0}}})["linux"]["devices"][0]
    wrong_configs: list[tuple[Any, str]] = [
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
        ({"type": "bind"}, ["idmap"]),
        ({"options": ["bind", "idmap"]}, ["bind", "idmap"]),
        ({"type": "tmpfs", "options": ["ro"]}, ["ro"]),
    ],
)
def test_bind_mount_maps_ids_in_a_user_namespace(dirs: list[Path], mount: dict[str, Any], options: list[str]) -> None:
    mount = {"hostPath": "/srv", "containerPath": "/data"} | mount
    write(dirs[0] / "a.json", specification({"x": {"mounts": [mount]}}))
    config = {"linux": {"namespaces": [{"type": "user"}]}}
    assert resolve(dirs, "x", config=config)["mounts"]["/data"]["options"] == options
    assert resolve(dirs, "x")["mounts"]["/data"].get("options", []) == mount.get("options", [])


# The files


def test_devices_of_directories_files_and_kinds(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": {"env": ["A=etc"]}, "y": {"env": ["Y=1"]}, "z": ENV}))
    write(dirs[0] / "b.yaml", yaml.safe_dump(specification({"x": {"env": ["A=conflict"]}, "z": ENV})))
    write(dirs[0] / "c.json", specification({"y": {"env": ["Y=2"]}}, kind="other.com/net"))
    write(dirs[1] / "d.json", specification({"x": {"env": ["A=run"]}}))
    assert resolve(dirs, "x", "y")["env"] == {"A": "run", "Y": "1"}
    assert wrong(dirs, "z") == (
        "the CDI device vendor.com/net=z is in /etc/a.json and /etc/b.yaml; expected it in one of them"
    )


def test_devices_of_a_long_list_and_broken_places_are_reported_on_one_line(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({f"d{number}": ENV for number in range(MAX_LISTED + 5)}))
    (dirs[0] / "\x1b[2J.json").touch()
    message = wrong([*dirs, dirs[0] / "missing", dirs[0] / "a.json"], "x\n")
    assert ", d9, and 5 more; " in message
    assert message.endswith("/etc/a.json: cannot be read: Not a directory")
    assert message.isprintable()


def test_unknown_device_is_named_with_the_known_ones_and_the_broken_files(dirs: list[Path]) -> None:
    unknown = "the CDI device vendor.com/net=x is not in /etc or /run; known of vendor.com/net: "
    assert wrong(dirs, "x") == f"{unknown}no device"
    write(dirs[0] / "a.json", specification({"a": ENV, "b": ENV}))
    write(dirs[1] / "b.json", '{"kind": 1, "kind": 2}')
    write(dirs[1] / "c.txt", "no specification")
    (dirs[1] / "d.json").symlink_to("nowhere")
    (dirs[1] / "e.json").mkdir()
    os.mkfifo(dirs[1] / "f.json")
    write(dirs[1] / "g.json", " " * (MAX_SIZE + 1))
    assert wrong(dirs, "x") == (
        f"{unknown}a, b; files that cannot be used: "
        "/run/b.json: found the key 'kind' again, expected it once; "
        "/run/d.json: cannot be read: No such file or directory; "
        "/run/f.json: is a FIFO, expected a regular file; "
        f"/run/g.json: found more than {MAX_SIZE} bytes, expected at most that many"
    )
    assert resolve(dirs, "a")["env"] == {"A": "1"}


@pytest.mark.parametrize("part", ["", "a.json"])
def test_file_that_others_can_change_is_not_read(dirs: list[Path], part: str) -> None:
    write(dirs[0] / "a.json", specification({"x": ENV}))
    changed = dirs[0] / part
    changed.chmod(changed.stat().st_mode | 0o002)
    assert "is writable by others" in wrong(dirs, "x")
    assert CDI([str(dirs[0])], check_owner=False).resolve([f"{KIND}=x"], {}) == {"env": {"A": "1"}}


def test_neither_yaml_nor_cdi_is_imported_before_it_is_needed(dirs: list[Path]) -> None:
    write(dirs[0] / "a.json", specification({"x": ENV}))
    code = (
        "import sys, nri.adjust, nri.client\n"
        "assert not [name for name in sys.modules if name.startswith(('yaml', 'nri.adjust.cdi'))]\n"
        "from nri.adjust.cdi import CDI\n"
        "CDI([sys.argv[1]]).resolve(['vendor.com/net=x'], {})\n"
        "assert not {'yaml', 'json', 'nri.adjust.cdi_yaml', 're', 'typing'} & set(sys.modules)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    subprocess.run([sys.executable, "-S", "-c", code, dirs[0]], check=True, env=environment)


# The rules of a specification


def changed(path: str, value: Any) -> Any:
    document = json.loads(json.dumps(GOOD))  # nothing is shared
    around: Any = document
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    for part in parents:
        around = around[part]
    around[last] = value
    return document


def interfaces(*pairs: str) -> list[dict[str, str]]:
    return [{"hostInterfaceName": pair[0], "name": pair[1]} for pair in pairs]


E, AT = "devices.0.containerEdits", "the specification.devices[0]"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "cdiVersion",
            "2.0.0",
            "the specification.cdiVersion: found the string '2.0.0', expected one of 0.1.0, 0.2.0",
        ),
        (
            "kind",
            "vendor",
            "the specification.kind: found the string 'vendor', expected VENDOR/CLASS, both of letters",
        ),
        ("kind", "1vendor/net", "the specification.kind: "),
        ("kind", "vendor/net.", "the specification.kind: "),
        ("devices", [], "the specification.devices: found an array, expected an array of at least one device"),
        ("extra", 1, "the specification: found the key 'extra', expected one of cdiVersion, kind, "),
        ("devices.0.name", "-x", f"{AT}.name: found the string '-x', expected a name of letters"),
        ("devices.0.name", "y", "devices[1].name: found the string 'y' again, expected it once"),
        (E, {"env": []}, "devices[0].containerEdits: found no edits, expected at least one"),
        (f"{E}.env.0", "=A", f"{AT}.containerEdits.env[0]: found the string '=A', expected NAME=VALUE"),
        (f"{E}.env.0", "-A=1", f"{AT}.containerEdits.env[0]: "),
        (f"{E}.deviceNodes.0.permissions", "rx", f"{AT}.containerEdits.deviceNodes[0].permissions: "),
        (
            f"{E}.mounts.0.hostPath",
            "a",
            "devices[0].containerEdits.mounts[0].hostPath: found the string 'a', expected",
        ),
        (f"{E}.hooks.0.timeout", 0, f"{AT}.containerEdits.hooks[0].timeout: found the number 0"),
        (f"{E}.intelRdt.closID", "a/b", f"{AT}.containerEdits.intelRdt.closID: found the string"),
        (f"{E}.netDevices.0.hostInterfaceName", "-x", f"{AT}.containerEdits.netDevices[0].hostInterfaceName: "),
        (f"{E}.netDevices", interfaces("ax", "bx"), "devices[0].containerEdits.netDevices[1].name: found the string"),
        (
            "containerEdits.netDevices",
            interfaces("ax", "ay"),
            "containerEdits.netDevices[1].hostInterfaceName: found",
        ),
    ],
)
def test_wrong_specification_is_refused_with_the_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_specification(changed(path, value))
    assert str(caught.value).startswith(message)


def mount(**keys: str) -> dict[str, Any]:
    return {"mounts": [{"hostPath": "/a", "containerPath": "/a", **keys}]}


@pytest.mark.parametrize(
    ("needed", "document"),
    [
        ("0.4.0", specification({"x": mount(type="none")})),
        ("0.5.0", specification({"x": {"deviceNodes": [{"path": "/a", "hostPath": "/b"}]}})),
        ("0.5.0", specification({"0": ENV})),
        ("0.6.0", specification({"x": ENV}, annotations={"a": "b"})),
        ("0.6.0", specification({"x": ENV}, kind="vendor.com/a.b")),
        ("0.7.0", specification({"x": ENV}, {"additionalGids": [1]})),
        ("0.7.0", specification({"x": {"intelRdt": {"closID": "a"}}})),
        ("1.1.0", specification({"x": {"intelRdt": {"schemata": []}}})),
        ("1.1.0", specification({"x": ENV}, {"netDevices": interfaces("ab")})),
    ],
)
def test_specification_needs_the_version_of_what_it_uses(needed: str, document: dict[str, Any]) -> None:
    older = VERSIONS[VERSIONS.index(needed) - 1]
    read_specification(document | {"cdiVersion": f"v{needed}"})
    with pytest.raises(DecodeError, match=rf"^cdiVersion: .*, expected {needed} or newer, which "):
        read_specification(document | {"cdiVersion": older})
    read_specification(specification({"x": ENV}, cdiVersion="0.1.0"))


@settings(max_examples=200, deadline=None)
@given(mutated([GOOD, specification({"x": FULL})]))
def test_whatever_is_accepted_becomes_an_adjust_that_is_accepted(document: Any) -> None:
    try:
        found = read_specification(document)
    except DecodeError as error:
        assert len(str(error)) < 1000
        return
    many = [found.get("containerEdits", {}), *[device["containerEdits"] for device in found["devices"]]]
    try:
        plain = without_extras(adjust_of([("a file", edits) for edits in many], {}))
    except AdjustError:
        return
    assert read_adjust(plain) == plain


# YAML


def test_specification_is_the_same_in_yaml() -> None:
    for flow in (None, True, False):
        text = "---\n" + yaml.safe_dump(json.loads(json.dumps(GOOD)), default_flow_style=flow)
        assert read_specification(loads(text.encode())) == GOOD


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("env: [A=1, yes, 2001-01-01, 1:2]", {"env": ["A=1", "yes", "2001-01-01", "1:2"]}),
        ("major: 10\nminor: '10'", {"major": 10, "minor": "10"}),
        ("fileMode: 0660\nmajor: 0o660", {"fileMode": 0o660, "major": 0o660}),
        ("fileMode: 09\nminor: -1\nuid: 0x10\ngid: ten", {"fileMode": "09", "minor": -1, "uid": 16, "gid": "ten"}),
        ("additionalGids:\n- 1\n- 2", {"additionalGids": [1, 2]}),
        ("uid: ~\ngid:\ntype: null", {"uid": None, "gid": None, "type": None}),
        ("enableMonitoring: true", {"enableMonitoring": True}),
        ("enableMonitoring: 'true'", {"enableMonitoring": "true"}),
        ("a: |\n  b\n  c", {"a": "b\nc"}),
        ("[{uid: 1, a: [b, {c: d}]}, e]", [{"uid": 1, "a": ["b", {"c": "d"}]}, "e"]),
        ("text", "text"),
    ],
)
def test_scalar_is_a_string_unless_its_key_is_a_numbers(text: str, value: object) -> None:
    found = loads(text.encode())
    assert (found, repr(found)) == (value, repr(value))


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"# nothing", "the document is empty, expected YAML"),
        (b"\xff", "the byte 0 is not UTF-8, expected text in UTF-8"),
        (b"a: &x 1", "line 1 column 4: found the anchor &x, expected a value without one"),
        (b"a: *x", "line 1 column 4: found the alias *x, expected the value itself"),
        (b"a: !!python/name:os.system x", "line 1 column 4: found the tag 'tag:yaml.org,2002:python/name:os.system'"),
        (b"{a: 1, a: 2}", "line 1 column 8: found the key 'a' again, expected it once"),
        (b"? [a]\n: b", "line 1 column 3: found a collection as a key, expected a string"),
        (b"a: 1\n---\nb: 2", "line 2 column 1: found a second document, expected one"),
        (b"a: [1", "line 2 column 1: did not find expected ',' or ']'"),
        (b"a: \x01", "control characters are not allowed"),
        (b"[" * 300 + b"]" * 300, "line 1 column 257: nested too deep; expected at most 256 levels"),
        (BOMB.encode(), "line 1 column 5: found the anchor &a0"),
    ],
)
def test_yaml_that_is_wrong_or_could_be_large_is_refused(document: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        loads(document)
    assert str(caught.value).startswith(message)
