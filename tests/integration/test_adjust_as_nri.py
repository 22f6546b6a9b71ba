"""Two v0.1 plugins are in conflict exactly where NRI's own rules say so of two v2 plugins that ask for the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nri import adaptation
from nri.adjust import AdjustError, Changes, NRIAbilities
from nri.types import DecodeError
from nri.types.v1 import Request, Result
from nri.v2 import api
from nri.v2.api import oci
from tests.support.merged import merge

SETUP = Request(state="setup", id="ctr0")
CONTAINER = api.Container(id="ctr0", env=["A=1"], args=["sh"], mounts=[{"destination": "/a"}])


def _entries(names: list[str], value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with entries that are set, removed, or taken over."""
    kinds = st.sampled_from(["set", "take"] if not names[0].startswith("/r") else ["set"])
    sets = st.dictionaries(st.sampled_from(names), st.tuples(kinds, value), max_size=2)

    def entries(chosen: dict[str, tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, (kind, item) in chosen.items():
            if kind == "take":
                found[f"-{name}"] = None
            found[name] = item
        return found

    return sets.map(entries)


WORDS = st.sampled_from(["x", "y"])
SHARES = st.fixed_dictionaries({}, optional={"shares": st.just(2), "quota": st.just(3)})
DEVICE = {"type": "c", "major": 1, "minor": 3}
DEVICES = st.lists(
    st.sampled_from(
        [
            [{"path": "/dev/a", **DEVICE}],
            [{"path": "/dev/a", "remove": True}],
            [{"path": "/dev/a", "remove": True}, {"path": "/dev/a", **DEVICE}],
            [{"path": "/dev/b", **DEVICE}],
        ]
    ),
    max_size=1,
).map(lambda lists: [item for each in lists for item in each])
NAMESPACES = st.sampled_from(
    [[], [{"type": "ipc"}], [{"type": "ipc", "remove": True}], [{"type": "uts"}]]
)
RDT = st.sampled_from(
    [{"closID": "a"}, {"remove": True}, {"remove": True, "closID": "b"}, {"schemata": ["L3:0=f"]}]
)
ADJUSTMENTS = st.fixed_dictionaries(
    {},
    optional={
        "annotations": _entries(["A", "B"], WORDS),
        "env": _entries(["A", "B"], WORDS),
        "mounts": _entries(["/a", "/b"], st.just({"source": "/s", "type": "bind"})),
        "args": st.sampled_from([["sh"], ["", "sh"], [""], []]),
        "hooks": st.just({"poststop": [{"path": "/bin/hook"}]}),
        "rlimits": st.sampled_from([[{"type": "RLIMIT_CORE", "hard": 1, "soft": 1}], []]),
        "cdiDevices": st.sampled_from([["v.com/c=d"], ["v.com/c=e"]]),
        "scheduler": st.just({"policy": "SCHED_BATCH"}),
        "linux": st.fixed_dictionaries(
            {},
            optional={
                "devices": DEVICES,
                "namespaces": NAMESPACES,
                "intelRdt": RDT,
                "sysctl": _entries(["a", "b"], WORDS),
                "netDevices": _entries(["a", "b"], st.just({"name": "n"})),
                "oomScoreAdj": st.just(0),
                "cgroupsPath": st.just("/there"),
                "resources": st.fixed_dictionaries(
                    {},
                    optional={
                        "cpu": SHARES,
                        "unified": st.dictionaries(st.sampled_from(["a", "b"]), WORDS),
                        "hugepageLimits": st.just([{"pageSize": "2MB", "limit": 1}]),
                        "devices": st.just([{"allow": True}]),
                    },
                ),
            },
        ),
    },
)


@given(st.lists(ADJUSTMENTS, min_size=2, max_size=3))
def test_the_verdict_is_nris(adjustments: list[dict[str, Any]]) -> None:
    changes = Changes(NRIAbilities("any", (0, 12)), {})
    named = [(f"p{index}", adjust) for index, adjust in enumerate(adjustments)]
    ours = nris = ""
    try:
        for plugin, adjust in named:
            changes.take(plugin, SETUP, Result(plugin=plugin, adjust=adjust))
    except (AdjustError, DecodeError) as error:
        ours = str(error)
    responses = [
        (p, api.CreateContainerResponse(adjust=oci.adjustment(adjust))) for p, adjust in named
    ]
    try:
        merge("CreateContainer", CONTAINER, responses)
    except adaptation.EventError as error:
        nris = str(error)
    assert bool(ours) == bool(nris), (ours, nris)
