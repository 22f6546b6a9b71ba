"""device-injector: what pods get by annotation, who gets it, and what is refused."""

import json
from typing import Any

import pytest

from nri.plugins.annotated import MAX_ANNOTATION
from nri.plugins.device_injector import INJECTIONS, DeviceInjector
from tests.unit.plugins.asking import NAMED, SHOP, error, run

PLUGIN = DeviceInjector()
EVERYTHING = {"allow": {injection.kind: ["shop"] for injection in INJECTIONS}}
NULL = {"path": "/dev/nri-null", "type": "c", "major": 1, "minor": 3}


def adjust(annotations: dict[str, str], **changes: Any) -> Any:
    result = run(PLUGIN, annotations, EVERYTHING, **changes)
    assert (result.error, result.pod_asked) == ("", result.adjust is not None)
    return result.adjust


# What is injected

OF_WEB = "noderesource.dev/container.web"
DEVICE = {
    "path": "/dev/a",
    "type": "b",
    "major": 8,
    "minor": 0,
    "fileMode": 0o640,
    "uid": 5,
    "gid": 6,
}
SYSCTL = {"net.core.somaxconn": "256", "net.ipv4.tcp_rmem": "1 2 3", "kernel.msgmax": "65536"}
INTERLEAVE = {"mode": "MPOL_INTERLEAVE", "nodes": "2,3", "flags": ["MPOL_F_STATIC_NODES"]}
HOME = {"/host-home": {"source": "/home", "type": "bind", "options": ["bind", "ro"]}}
CDI = ["v0.com/device=d0", "v1.com/device=d0"]
REAL_TIME = {"class": "IOPRIO_CLASS_RT", "priority": 3}
FIFO = {"policy": "SCHED_FIFO", "priority": 10}
CACHE = {"source": "tmpfs", "type": "tmpfs", "options": ["size=64m"]}


def linux(**parts: Any) -> Any:
    return {"linux": parts}


SAID: list[tuple[str, str, Any]] = [
    (
        f"devices.{OF_WEB}",
        "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n",
        linux(devices=[NULL]),
    ),
    (
        "devices.nri.io",
        "- {path: /dev/a, type: b, major: 8, minor: 0, file_mode: 0640, uid: 5, gid: 6}",
        linux(devices=[DEVICE]),
    ),
    (
        "devices.nri.io",
        '[{"PATH": "/dev/a", "type": "p", "major": 0, "minor": 0, "file_mode": 0, "uid": null}]',
        linux(devices=[{"path": "/dev/a", "type": "p", "major": 0, "minor": 0}]),
    ),
    (
        "devices.nri.io",
        "- {path: /dev//nri-null/, type: c, major: 1, minor: 3}",
        linux(devices=[NULL]),
    ),
    (
        "mounts.noderesource.dev/pod",
        "- source: /home\n  destination: /host-home\n  type: bind\n  options:\n  - bind\n  - ro\n",
        {"mounts": HOME},
    ),
    (
        "mounts.nri.io",
        json.dumps([CACHE | {"destination": "/cache"}]),
        {"mounts": {"/cache": CACHE}},
    ),
    (
        "mounts.nri.io",
        "- {destination: //a/./b/, source: /x/, type: bind}",
        {"mounts": {"/a/b": {"source": "/x/", "type": "bind"}}},
    ),
    (f"cdi-devices.{OF_WEB}", "- v0.com/device=d0\n- v1.com/device=d0\n", {"cdiDevices": CDI}),
    (
        f"network-devices.{OF_WEB}",
        "- hostIf: ens2.100\n  Name: netdev0\n- hostIf: eth1\n",
        linux(netDevices={"ens2.100": {"name": "netdev0"}, "eth1": {"name": "eth1"}}),
    ),
    (
        f"sysctl.{OF_WEB}",
        'net.core.somaxconn: "256"\nnet.ipv4.tcp_rmem: 1 2 3\nkernel.msgmax: 65536\n',
        linux(sysctl=SYSCTL),
    ),
    (
        "memory-policy.nri.io",
        'mode: MPOL_INTERLEAVE\nnodes: "2,3"\nflags: [ MPOL_F_STATIC_NODES ]\n',
        linux(memoryPolicy=INTERLEAVE),
    ),
    (
        "memory-policy.nri.io",
        "{mode: MPOL_BIND, nodes: 0}",
        linux(memoryPolicy={"mode": "MPOL_BIND", "nodes": "0"}),
    ),
    ("io-priority.nri.io", "class: IOPRIO_CLASS_RT\npriority: 3", linux(ioPriority=REAL_TIME)),
    ("io-priority.noderesource.dev", "class: IOPRIO_CLASS_NONE", None),
    ("scheduling-policy.nri.io", "policy: SCHED_FIFO\npriority: 10", {"scheduler": FIFO}),
    ("scheduling-policy.nri.io", "policy: SCHED_NONE", None),
    *[("mounts.nri.io", value, None) for value in ("", " \n", "~", "null")],
    ("devices.nri.io", "[]", None),
    ("devices.nri.io/container.other", "not even read", None),
]


@pytest.mark.parametrize(("key", "value", "expected"), SAID)
def test_annotation_becomes_an_adjustment(key: str, value: str, expected: Any) -> None:
    assert adjust({key: value}) == expected


def test_annotations_are_combined_and_reported() -> None:
    said = {
        "devices.nri.io": json.dumps([NULL]),
        "mounts.nri.io": '[{"destination": "/a"}, {"destination": "/b"}]',
        "sysctl.noderesource.dev": '{"kernel.msgmax": "1"}',
        "memory-policy.nri.io": '{"mode": "MPOL_LOCAL"}',
    }
    told = {
        "mounts": "/a, /b",
        "sysctl": "kernel.msgmax",
        "memoryPolicy": "MPOL_LOCAL",
        "devices": "/dev/nri-null",
    }
    result = run(PLUGIN, said, EVERYTHING)
    assert sorted(result.adjust) == ["linux", "mounts"]
    assert sorted(result.adjust["linux"]) == ["devices", "memoryPolicy", "sysctl"]
    assert result.metadata == told


def test_most_specific_key_counts_then_the_newer_one() -> None:
    names = ("cdi-devices.noderesource.dev", "cdi-devices.nri.io")
    keys = [f"{name}{scope}" for scope in ("/container.web", "/pod", "") for name in names]
    said = {key: f"[v.com/d={number}]" for number, key in enumerate(keys)}
    for first in range(len(keys)):
        expected = {"cdiDevices": [f"v.com/d={first}"]}
        assert adjust({key: said[key] for key in reversed(keys[first:])}) == expected
    assert (
        adjust({"devices.nri.io/container.web": "", "devices.nri.io/pod": json.dumps([NULL])})
        is None
    )


def test_only_a_container_that_is_set_up_is_adjusted() -> None:
    said = {"devices.nri.io": json.dumps([NULL])}
    changes: dict[str, Any]
    for changes in ({"state": "create"}, {"state": "update"}, {"state": "delete"}, {"id": "pod"}):
        assert adjust(said, **changes) is None
    assert adjust({}, spec=None) is None


def test_host_that_would_drop_the_adjustment_gets_an_error() -> None:
    said = {"devices.nri.io": json.dumps([NULL])}
    message = error(PLUGIN, said, EVERYTHING, extensions={})
    assert message.startswith("the request lacks the extension adjust: this host would drop")
    assert run(PLUGIN, said, extensions={}).error == ""
    assert run(PLUGIN, {}, EVERYTHING, extensions={}).error == ""


# Who may ask


@pytest.mark.parametrize(
    ("allow", "labels", "why"),
    [
        (None, SHOP, "is for no pod"),
        ({"devices": []}, SHOP, "is for no pod"),
        ({"mounts": ["shop"]}, SHOP, "is for no pod"),
        ({"devices": ["other"]}, SHOP, "is not for the namespace shop"),
        ({"devices": ["shop"]}, {}, "needs a namespace, and none is known"),
        ({"devices": ["shop"]}, SHOP, ""),
        ({"devices": True}, {}, ""),
    ],
)
def test_pod_that_is_not_allowed_counts_as_one_that_did_not_ask(
    allow: Any, labels: dict[str, str], why: str
) -> None:
    said = {"devices.nri.io/pod": json.dumps([NULL]), "io.kubernetes.pod.namespace": "shop"}
    result = run(PLUGIN, said, {"allow": allow}, labels=labels)
    assert (result.adjust is None, result.error) == (bool(why), "")
    assert result.metadata.get("ignored") == (
        f"devices.nri.io/pod: allow.devices {why}" if why else None
    )
    if why:  # the value is not even read
        for value in ("][", "&a *a", "x" * 200_000, "\x00"):
            assert (
                run(
                    PLUGIN, said | {"devices.nri.io/pod": value}, {"allow": allow}, labels=labels
                ).error
                == ""
            )
    in_labels = labels | {"devices.nri.io": json.dumps([NULL])}
    assert run(PLUGIN, {}, {"allow": allow}, labels=in_labels).adjust is None


# What is refused


REFUSED = {
    "devices.nri.io/pod": [
        ("- &a [x]\n- *a", ": line 1 column 3: found an anchor or alias"),
        ("[" * 1000, ": line 1 column 17: nested too deep"),
        ('[{"path": "/a", "path": "/b"}]', ": found the key 'path' again, expected it once"),
        ('[{"path": "/a", "Path": "/b"}]', "[0]: found the key 'Path' again, expected it once"),
        ("path: /dev/null", ": found an object, expected an array"),
        ("- {path: /dev/a, mayor: 1}", "[0].mayor: unknown key, did you mean major?"),
        (
            "- {type: c, major: 1, minor: 1}",
            "[0].path: missing, expected an absolute path without '..'",
        ),
        ("- {path: /dev/../etc}", "[0].path: found the string '/dev/../etc', expected"),
        ('[{"path": "/dev/a\\u0000"}]', "[0].path: found the string '/dev/a\\x00', expected"),
        ("- {path: /dev/a, type: x}", "[0].type: found the string 'x', expected one of c, b, u, p"),
        ("- {path: /dev/a, type: c}", "[0].major: missing, expected an integer from 0 to 4095"),
        (
            "- {path: /dev/a, type: c, major: 4096, minor: 1}",
            "[0].major: found the number 4096, expected an integer",
        ),
        (
            "- {path: /dev/a, type: c, major: 1, minor: 1048576}",
            "[0].minor: found the number 1048576, expected an",
        ),
        (
            "- {path: /dev/a, type: c, major: 1, minor: 3, file_mode: 0o10000}",
            "[0].file_mode: found the number 4096",
        ),
        (
            json.dumps([NULL, NULL | {"path": "/dev//./nri-null"}]),
            "[1].path: found '/dev/nri-null' again, expected it once",
        ),
    ],
    "mounts.nri.io": [
        ("- {source: /a}", "[0].destination: missing, expected an absolute path"),
        ("- {destination: ../a}", "[0].destination: found the string '../a', expected"),
        (
            "- {destination: /a, source: /b/../c, options: [rbind]}",
            "[0].source: found the string '/b/../c'",
        ),
        ("- {destination: /a, type: bind}", "[0].source: found none, expected an absolute path"),
        ("- {destination: /a}\n- {destination: /a/}", "[1].destination: found '/a' again"),
    ],
    "cdi-devices.nri.io": [
        ("- vendor.com/gpu", "[0]: found the string 'vendor.com/gpu', expected a device's full"),
        ("- v.com/d=a\n- v.com/d=a", "[1]: found the string 'v.com/d=a' again, expected it once"),
    ],
    "network-devices.nri.io": [
        (
            "- {hostIf: -eth0}",
            "[0].hostIf: found the string '-eth0', expected the name of a network interface",
        ),
        ("- {hostIf: eth0, name: 'eth%d'}", "[0].name: found the string 'eth%d', expected"),
        (
            "- {hostIf: eth0, name: a}\n- {hostIf: eth0, name: b}",
            "[1].hostIf: found 'eth0' again, expected it once",
        ),
        (
            "- {hostIf: a234567890123456}",
            "[0].hostIf: found the string 'a234567890123456', expected",
        ),
        ("- {name: eth0}", "[0].hostIf: missing, expected"),
        ("- {hostIf: eth0}\n- {hostIf: eth1, name: eth0}", "[1].name: found 'eth0' again"),
    ],
    "sysctl.noderesource.dev": [
        ("-kernel.msgmax: 1", ": found the key '-kernel.msgmax', expected the name of a sysctl"),
        ("../x: 1", ": found the key '../x', expected the name of a sysctl"),
        ("kernel.msgmax: yes", "['kernel.msgmax']: found the boolean true, expected a string"),
    ],
    "memory-policy.nri.io": [
        ("nodes: 0", ".mode: missing, expected one of MPOL_DEFAULT, "),
        ("mode: BIND", ".mode: found the string 'BIND', expected one of MPOL_DEFAULT"),
        (
            "{mode: MPOL_BIND, nodes: all}",
            ".nodes: found the string 'all', expected a list of NUMA nodes",
        ),
    ],
    "io-priority.nri.io": [
        ("{class: RT}", ".class: found the string 'RT', expected one of IOPRIO_CLASS_")
    ],
    "scheduling-policy.nri.io": [
        ("{policy: SCHED_FIFO, nice: 99}", ".nice: found the number 99, expected")
    ],
}


@pytest.mark.parametrize("key", REFUSED)
def test_a_bad_annotation_is_refused_with_its_place(key: str) -> None:
    for value, message in REFUSED[key]:
        assert error(PLUGIN, {key: value}, EVERYTHING).startswith(key + message)


def test_one_bad_annotation_discards_the_others() -> None:
    said = {"devices.nri.io": json.dumps([NULL]), "scheduling-policy.nri.io": "policy: FAST"}
    assert error(PLUGIN, said, EVERYTHING).startswith("scheduling-policy.nri.io.policy: ")


def test_longest_annotation_that_is_read() -> None:
    value = json.dumps([NULL]).ljust(MAX_ANNOTATION)
    assert adjust({"devices.nri.io": value}) == {"linux": {"devices": [NULL]}}
    assert "65537 characters" in error(PLUGIN, {"devices.nri.io": value + " "}, EVERYTHING)


def test_hostile_name_makes_no_long_message() -> None:
    name = "\x1b[2J" + "x" * 100_000
    key = f"devices.nri.io/container.{name}"
    said = {**NAMED, "io.kubernetes.cri.container-name": name, key: "]"}
    assert len(error(PLUGIN, said, EVERYTHING)) < 500
    assert len(run(PLUGIN, said).metadata["ignored"]) < 300
