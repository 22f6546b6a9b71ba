"""Adjustments and updates put together as NRI's own adaptation does, and a table of where this one differs.

Source: ``tests/golden/nri-0.12/merge.json``, which pkg/adaptation of containerd/nri 0.12 has made.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format

from nri import api
from nri.adaptation import ConflictError, EventError
from nri.adaptation.merge import Merger
from tests.support.golden import GOLDEN

RECORD = json.loads((GOLDEN / "nri-0.12/merge.json").read_text())
FAILS_OR_VALIDATES = {
    "plugin errs",
    "UpdateContainer errs",
    "StopContainer errs",
    "validator rejects",
}  # not a merger's
SCENARIOS = [scenario for scenario in RECORD["scenarios"] if scenario["name"] not in FAILS_OR_VALIDATES]

DIFFERENT: dict[str, dict[str, Any]] = {
    # An entry that is taken away is so in every list: Go leaves the earlier plugin's annotation in, ...
    "annotation removed of earlier plugin": {"adjust": {"annotations": {"-k": ""}}},
    # ... does not tell the runtime of variables and devices that are to go, ...
    "env removed, container's": {"adjust": {"env": [{"key": "-OLD"}]}},
    "env removed, earlier plugin's": {"adjust": {"env": [{"key": "-A"}]}},
    "device removed, container's": {"adjust": {"linux": {"devices": [{"path": "-/dev/old"}]}}},
    # ... and puts sysctls that are to go among the annotations.
    "sysctl removed": {"adjust": {"linux": {"sysctl": {"-net.old": ""}}}},
    "sysctl removed, alone": {"adjust": {"linux": {"sysctl": {"-zzz": ""}}}},
    # What was taken away belongs to no plugin, so a later one may set it. For Go it belongs to one of the two.
    "annotation removed, set by third": {"adjust": {"annotations": {"-k": "", "k": "w"}}},
    "mount removed, third sets": {"adjust": {"mounts": [{"destination": "/m", "source": "/3"}]}},
    "env removed, third sets": {"adjust": {"env": [{"key": "A", "value": "3"}]}},
    "device removed, third sets": {"adjust": {"linux": {"devices": [{"path": "/dev/x", "type": "b"}]}}},
    "sysctl removed, third sets": {"adjust": {"linux": {"sysctl": {"-a": "", "a": "3"}}}},
    "rdt removed, third sets": {"adjust": {"linux": {"rdt": {"schemata": {"value": ["x"]}}}}},
    "rdt removed first, second sets": {"adjust": {"linux": {"rdt": {"clos_id": {"value": "b"}}}}},
    "namespace removed by two": {"adjust": {"linux": {"namespaces": [{"type": "-network"}]}}},
    "namespace set, removed by second": {"adjust": {"linux": {"namespaces": [{"type": "-ipc"}]}}},
    # An entry of a list that is set replaces the container's, so that the runtime need not be told to remove that.
    "removed before it is set by another": {"adjust": {"mounts": [{"destination": "/old", "source": "/x"}]}},
    # A plugin may say a thing twice; the last word counts.
    "same plugin: mount twice": {"adjust": {"mounts": [{"destination": "/m", "source": "/2"}]}},
    "same plugin: env twice": {"adjust": {"env": [{"key": "A", "value": "2"}]}},
    "same plugin: device twice": {"adjust": {"linux": {"devices": [{"path": "/dev/x", "type": "b"}]}}},
    "same plugin: rlimit twice": {"adjust": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": "2"}]}},
    "same plugin: CDI twice": {"adjust": {"CDI_devices": [{"name": "a"}]}},
    "same plugin: namespace twice": {"adjust": {"linux": {"namespaces": [{"type": "ipc", "path": "/p"}]}}},
    "same plugin: hugepages twice": {
        "adjust": {"linux": {"resources": {"hugepage_limits": [{"page_size": "1GB", "limit": "2"}]}}}
    },
    "same plugin: updates same container and field twice": {
        "update": [{"container_id": "ctr1", "linux": {"resources": {"cpu": {"shares": {"value": "2"}}}}}]
    },
    # An update that is dropped claims nothing.
    "updates of other conflict late, ignored, then third": {
        "update": [
            {
                "container_id": "ctr1",
                "linux": {"resources": {"cpu": {"quota": {"value": "1"}, "shares": {"value": "4"}}}},
            }
        ]
    },
    # In an update Go loses the limit of processes and device rules, and doubles limits of huge pages.
    "UpdateContainer pids": {
        "update": [
            {
                "container_id": "ctr0",
                "linux": {
                    "resources": {
                        "cpu": {"quota": {"value": "70000"}, "period": {"value": "100000"}},
                        "pids": {"limit": "2"},
                    }
                },
            }
        ]
    },
    "UpdateContainer pids asked for": {
        "update": [
            {
                "container_id": "ctr0",
                "linux": {
                    "resources": {"cpu": {"shares": {"value": "1"}, "quota": {"value": "1"}}, "pids": {"limit": "2"}}
                },
            }
        ]
    },
    "UpdateContainer devices": {
        "update": [
            {
                "container_id": "ctr0",
                "linux": {
                    "resources": {
                        "cpu": {"quota": {"value": "70000"}, "period": {"value": "100000"}},
                        "devices": [{"allow": True}],
                    }
                },
            }
        ]
    },
    "UpdateContainer hugepages": {
        "update": [
            {
                "container_id": "ctr0",
                "linux": {"resources": {"hugepage_limits": [{"page_size": "2MB", "limit": "3"}]}},
            }
        ]
    },
}
"""Scenarios with another outcome here, by their names, and that outcome."""


def merged(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a scenario here, in the words of the record."""
    merger = Merger(scenario["event"], read(api.Container, RECORD["container"]))
    try:
        for plugin in scenario["plugins"]:
            response = plugin.get("response", {})
            if "adjust" in response:
                merger.adjust(read(api.ContainerAdjustment, response["adjust"]), plugin["name"])
            merger.update([read(api.ContainerUpdate, each) for each in response.get("update", [])], plugin["name"])
    except (ConflictError, EventError) as error:
        return {"error": str(error)}
    own = merger.updates.get("ctr0")
    if own is not None:  # Go answers the runtime with what was asked for, too
        own.linux.resources.CopyFrom(merger.wanted(read(api.LinuxResources, scenario["resources"])))
    return {
        "adjust": bare(json_format.MessageToDict(merger.adjustment, preserving_proto_field_name=True)),
        "update": [
            bare(json_format.MessageToDict(each, preserving_proto_field_name=True))
            for each in merger.updates.values()
        ],
    }


def read(kind: Any, value: Any) -> Any:
    return json_format.ParseDict(value, kind())


def bare(value: Any) -> Any:
    """Without what is empty: Go fills in messages that have nothing in them."""
    if isinstance(value, dict):
        kept = {key: bare(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, [])}
    return [bare(each) for each in value] if isinstance(value, list) else value


def as_go(scenario: dict[str, Any]) -> dict[str, Any]:
    if scenario["error"]:
        return {"error": scenario["error"]}
    updates = [{**bare(each), "container_id": each["container_id"]} for each in scenario["update"]]
    return {"adjust": bare(scenario.get("adjust") or {}), "update": updates}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_the_outcome_is_that_of_nris_own_adaptation_or_the_one_of_the_table(scenario: dict[str, Any]) -> None:
    outcome, go = merged(scenario), as_go(scenario)
    if scenario["name"] in DIFFERENT:
        expected = {"adjust": {}, "update": [], **DIFFERENT[scenario["name"]]}
        assert outcome == expected
        assert expected != go, "it does not differ any more"
    elif "error" in go:
        assert set(outcome) == {"error"}
        for plugin in ("00-p0", "10-p1", "20-p2"):
            assert (plugin in outcome["error"]) == (f'"{plugin}"' in go["error"])
    else:
        assert outcome == go


def test_every_difference_is_one_of_a_scenario() -> None:
    assert set(DIFFERENT) <= {scenario["name"] for scenario in SCENARIOS}
    assert len(SCENARIOS) > 80
