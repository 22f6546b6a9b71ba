"""conf/resource.d: what `make install` lays out works as it is, and is closed to pods outside of kube-system.

The plugins that adjust containers have samples that are not installed: an operator copies one
without its suffix.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from harness import json_schemas
from nri.config import PluginEntry, load
from nri.config.plugin_conf import check_conf, open_to_every_pod
from nri.plugins.clearcfs import ClearCFS
from nri.plugins.device_injector import DeviceInjector
from nri.plugins.hook_injector import HookInjector
from nri.plugins.konfine import ANNOTATION, Konfine
from nri.plugins.logger import Logger
from nri.plugins.qos import QoS
from nri.plugins.ulimit_adjuster import UlimitAdjuster
from nri.skel.process import schema_of
from nri.types.v1 import State
from tests.unit.plugins.running import CONTAINER, PluginNode

SAMPLES = Path(__file__).parents[2] / "conf/resource.d"
BRIDGE = SAMPLES.parents[1] / "deploy/systemd/v1bridge.json"
SYSTEM, OTHER = ({"io.kubernetes.pod.namespace": name} for name in ("kube-system", "shop"))


def sample(plugin: type[Any]) -> PluginEntry:
    (entry,) = [
        each for each in load(str(SAMPLES), "/nonexistent").plugins if each.type == plugin.type
    ]
    return entry


@pytest.mark.parametrize("file", [*sorted(SAMPLES.iterdir()), BRIDGE], ids=lambda file: file.name)
def test_a_sample_names_the_schema_that_it_keeps(file: Path) -> None:
    value = json.loads(file.read_text())
    name = "bridge-options" if file == BRIDGE else "host-config"
    assert value["$schema"] == f"file:///opt/nri/lib/schemas/{name}.schema.json"
    json_schemas.validator(name).validate(value)


@pytest.mark.parametrize("plugin", [Konfine, ClearCFS])
def test_a_sample_is_right_and_closed_to_all_but_kube_system(plugin: type[Any]) -> None:
    entry = sample(plugin)
    assert check_conf(entry, schema_of(plugin())) == ()
    assert open_to_every_pod(schema_of(plugin()), entry.conf) == ()
    assert set(map(json.dumps, entry.conf["allow"].values())) == {'["kube-system"]'}
    assert (entry.failure_policy, entry.wants(State.UPDATE)) == ("ignore", True)


ADJUSTING: list[type[Any]] = [DeviceInjector, HookInjector, UlimitAdjuster, Logger, QoS]


@pytest.mark.parametrize("plugin", ADJUSTING)
def test_sample_of_an_adjusting_plugin_is_not_read(plugin: type[Any], tmp_path: Path) -> None:
    (file,) = SAMPLES.glob(f"*-{plugin.type}.conf.sample")
    assert plugin.type not in [each.type for each in load(str(SAMPLES), "/nonexistent").plugins]
    (tmp_path / file.stem).write_text(file.read_text())
    (entry,) = load(str(tmp_path), "/nonexistent").plugins
    assert (entry.type, check_conf(entry, schema_of(plugin()))) == (plugin.type, ())
    assert entry.wants(State.SETUP)
    assert entry.failure_policy == ("ignore" if plugin in (Logger, QoS) else "fail")
    assert open_to_every_pod(schema_of(plugin()), entry.conf) == ()
    assert set(map(json.dumps, entry.conf.get("allow", {}).values())) <= {'["kube-system"]'}


@pytest.mark.parametrize("plugin", ADJUSTING)
def test_without_conf_a_plugin_that_adjusts_is_closed(plugin: type[Any]) -> None:
    assert open_to_every_pod(schema_of(plugin()), None) == ()


@pytest.mark.parametrize(
    ("labels", "quota_stays", "cpus"),
    [(SYSTEM, False, "3"), (OTHER, True, "1-7"), ({}, True, "1-7")],
)
def test_pods_of_other_namespaces_keep_quota_and_cpus(
    labels: dict[str, str], quota_stays: bool, cpus: str
) -> None:
    said = {"qos.class": "ls", ANNOTATION: "3"}
    clearcfs = PluginNode(ClearCFS())
    clearcfs.limit(CONTAINER, 50_000)
    clearcfs.fine(sample(ClearCFS).conf, annotations=said, labels=labels)
    assert clearcfs.is_limited(CONTAINER) == quota_stays
    konfine = PluginNode(Konfine())
    konfine.fine(sample(Konfine).conf, annotations=said, labels=labels)
    assert konfine.cpus() == cpus
    konfine.fine(sample(Konfine).conf, annotations={"qos.class": "system"}, labels=labels)
    assert konfine.cpus() == ("0-7" if labels == SYSTEM else "1-7")
