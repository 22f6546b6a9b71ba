"""The confs of all plugins: a plugin refuses what its schema refuses, and names the key and what would be right."""

from collections.abc import Callable
from typing import Any

import pytest

from nri import skel
from nri.plugins.clearcfs import ClearCFS
from nri.plugins.device_injector import DeviceInjector
from nri.plugins.hook_injector import HookInjector
from nri.plugins.konfine import Konfine
from nri.plugins.logger import FIELDS, Logger
from nri.plugins.qos import QoS
from nri.plugins.ulimit_adjuster import UlimitAdjuster
from nri.skel.process import schema_of
from nri.types.v1 import STATES
from tests.support.confs import validate_conf
from tests.unit.plugins import asking
from tests.unit.plugins.running import PluginNode

Confs = list[tuple[Any, str]]
"""Confs, each with the beginning of the error; "" for one that is accepted."""

ANY_PLUGIN: Confs = [
    (None, ""),
    ({"x-note": ["anything"], "x-": None}, ""),
    ([], "conf: found an array, expected an object"),
    ({"\x1b[2J": 1}, "conf['\\x1b[2J']: unknown key, expected one of "),
]


def allowing(*properties: str) -> Confs:
    """The key ``allow`` of a plugin whose pods can ask for these."""
    first = properties[0]
    return [
        *(({"allow": {each: ["a", "b"]}}, "") for each in properties),
        ({"allow": {first: None}}, ""),
        ({"allow": {"x-note": True}}, "conf.allow.x-note: unknown key, "),
        (
            {"allow": {first: "a"}},
            f"conf.allow.{first}: found the string 'a', expected true, false, or an array of",
        ),
        (
            {"allow": {first: [""]}},
            f"conf.allow.{first}[0]: found the string '', expected the name of a namespace",
        ),
    ]


RESERVED_NUMBERS: list[tuple[Any, str]] = [
    ([0, 8191, 0], ""),
    (0, ": found the number 0, expected an array of CPU numbers, or"),
    (["0"], "[0]: found the string '0', expected the number of a CPU, 0 to 8191"),
    ([-1], "[0]: found the number -1, expected the number of a CPU, 0 to 8191"),
    ([8192], "[0]: found the number 8192, expected the number of a CPU"),
]
RESERVED_LISTS = [
    *("", " \n", "100-200", " 100 ,\t102-0104\n", "100\u2003,101", "000000000000000008191"),
    *("0", "999", "1000", "7999", "8000", "8099", "8189", "8191"),
]
NO_RESERVED_LISTS = [
    *("8192", "8200", "9000", "0-99999", "10000", "0,81910"),
    *("1 2", "1 - 2", "1-", "-", ",", "1,", "1-2-3", "٣", "all", "1," * 50_000 + "1"),
]
CONFS: dict[type[skel.Plugin], Confs] = {
    ClearCFS: [
        *allowing("class"),
        ({"key": ""}, "conf.key: found the string '', expected a string that is not empty"),
        ({"classes": ["a", "a", ""]}, ""),
        ({"classes": "ls"}, "conf.classes: found the string 'ls', expected an array of strings"),
        ({"pod": "yes"}, "conf.pod: found the string 'yes', expected true or false"),
    ],
    Konfine: [
        *allowing("class", "cpus", "exclusive"),
        *(
            ({"systemReserved": value}, why and f"conf.systemReserved{why}")
            for value, why in RESERVED_NUMBERS
        ),
        *(({"systemReserved": text}, "") for text in RESERVED_LISTS),
        *(
            ({"systemReserved": text}, "conf.systemReserved: found the string ")
            for text in NO_RESERVED_LISTS
        ),
        (
            {"pools": [{"name": "a/b"}]},
            "conf.pools[0].name: found the string 'a/b', expected a name without '/'",
        ),
    ],
    DeviceInjector: allowing(
        *(
            "devices",
            "mounts",
            "cdiDevices",
            "netDevices",
            "sysctl",
            "memoryPolicy",
            "ioPriority",
            "scheduler",
        )
    ),
    UlimitAdjuster: allowing("ulimits"),
    QoS: [
        *allowing("class", "batch", "env"),
        (
            {
                "containers": {
                    "LS": {"cpu.weight": 1, "memory.low": "50% of request", "cpu.idle": True}
                }
            },
            "",
        ),
        ({"pods": {"LS": {"cpu.max.burst": "1000% of limit"}}, "lacking": "refuse"}, ""),
        (
            {"pods": {"LS": {"cpu.max.burst": "50% of request"}}},
            "conf.pods.LS['cpu.max.burst']: found the string ",
        ),
        (
            {"containers": {"LS": {"cpu.shares": 2}}},
            "conf.containers.LS['cpu.shares']: unknown key, ",
        ),
        (
            {"containers": {"LS": {"cpu.weight": 0}}},
            "conf.containers.LS['cpu.weight']: found the number 0, expected",
        ),
        *(
            (
                {"pods": {"LS": {"memory.low": text}}},
                "conf.pods.LS['memory.low']: found the string ",
            )
            for text in (
                "0% of limit",
                "101% of limit",
                "050% of limit",
                "5%",
                "5% of quota",
                "x% of limit",
                "",
            )
        ),
        ({"env": {"A": {"annotation": "a", "items": "x[].y"}}}, ""),
        ({"env": {"A": {}}}, "conf.env.A.annotation: missing, expected a string that is not empty"),
        (
            {"env": {"A=": {"annotation": "a"}}},
            "conf.env: found the key 'A=', expected a name without '='",
        ),
    ],
    HookInjector: [
        *allowing("annotations"),
        ({"dirs": []}, ""),
        ({"dirs": ["etc"]}, "conf.dirs[0]: found the string 'etc', expected an absolute path"),
        ({"dirs": ["/a\0"]}, "conf.dirs[0]: found the string '/a\\x00', expected an absolute path"),
    ],
    Logger: [
        ({"file": "log"}, "conf.file: found the string 'log', expected an absolute path"),
        ({"file": "/"}, "conf.file: found the string '/', expected"),
        ({"states": [*map(str, STATES)], "fields": [*FIELDS]}, ""),
        (
            {"states": ["create", "create"]},
            "conf.states[1]: found the string 'create' again, expected it once",
        ),
        ({"fields": ["conf"]}, "conf.fields[0]: found the string 'conf', expected one of time, "),
        ({"allow": {}}, "conf.allow: unknown key, "),
    ],
}
OF_CGROUPS = (ClearCFS, Konfine)


def runner(kind: type[skel.Plugin]) -> Callable[[Any], str]:
    """A function that runs a plugin with a conf and returns its error."""
    plugin = kind()
    node = PluginNode(plugin) if kind in OF_CGROUPS else None

    def refusal(conf: Any) -> str:
        result = asking.run(plugin, {}, conf) if node is None else node.run(conf)
        assert len(result.error) < 1000
        assert result.error.isprintable()
        return result.error

    return refusal


@pytest.mark.parametrize("kind", CONFS, ids=lambda kind: kind.type)
def test_a_plugin_and_its_schema_refuse_the_same_confs(kind: type[skel.Plugin]) -> None:
    schema, refusal = schema_of(kind()), runner(kind)
    for conf, message in [*ANY_PLUGIN, *CONFS[kind]]:
        assert (validate_conf(schema, conf) == []) == (message == ""), f"{conf!r:.100}"
        error = refusal(conf)
        assert error.startswith(message or "conf") == bool(message), f"{conf!r:.100}: {error}"


def test_the_plugin_refuses_a_conf_that_its_schema_accepts() -> None:
    """A schema cannot compare the ends of a range, and takes 100.0 for an integer."""
    confs: list[Any] = [{"systemReserved": "3-1"}, {"systemReserved": [100.0]}]
    for conf in confs:
        assert validate_conf(schema_of(Konfine()), conf) == []
        assert PluginNode(Konfine()).error(conf).startswith("conf.systemReserved")


@pytest.mark.parametrize("kind", OF_CGROUPS, ids=lambda kind: kind.type)
def test_a_bad_conf_changes_nothing_and_is_not_read_in_other_states(
    kind: type[skel.Plugin],
) -> None:
    node = PluginNode(kind())
    before = node.cpus()
    confs: list[Any] = [[], {"key": ""}, {"allow": True}]
    for conf in confs:
        assert node.error(conf, annotations={"qos.class": "ls"})
        assert node.fine(conf, annotations={"qos.class": "ls"}, state="pause") == {}
    assert node.tree.written == {}
    assert node.cpus() == before
