"""The table of events, the masks made from it, and the events that a runtime knows."""

import pytest

from nri.v2 import api
from nri.v2.api import events, runtime_pb2
from nri.v2.api.runtimes import RELEASES, nri_version
from nri.v2.stub import RuntimeInfo

PLUGIN = runtime_pb2.DESCRIPTOR.services_by_name["Plugin"].methods_by_name


def test_table_has_every_event_with_its_messages() -> None:
    values = api.Event.values()
    assert [method.event for method in events.METHODS] == values[1:-1]
    assert (values[0], values[-1]) == (api.Event.UNKNOWN, api.Event.LAST)
    assert set(events.BY_RPC) == set(PLUGIN) - {
        "Configure",
        "Synchronize",
        "Shutdown",
        "StateChange",
    }
    for method in events.METHODS:
        assert method.request.DESCRIPTOR is PLUGIN[method.rpc].input_type
        assert method.response.DESCRIPTOR is PLUGIN[method.rpc].output_type
        assert events.BY_EVENT[method.event] is events.BY_RPC[method.rpc] is method
        assert api.Event.Name(method.event).replace("_", "") == method.rpc.upper()


def test_mask_has_bit_n_minus_1_for_event_n() -> None:
    wanted = [api.Event.REMOVE_CONTAINER, api.Event.RUN_POD_SANDBOX, api.Event.RUN_POD_SANDBOX]
    assert events.mask(wanted) == 0x401
    assert events.names(0x401) == ["RunPodSandbox", "RemoveContainer"]
    assert (events.mask([]), events.names(0)) == (0, [])


def test_event_is_found_by_number_and_by_name_in_any_case() -> None:
    for method in events.METHODS:
        for event in (method.event, method.rpc, method.rpc.upper(), f" {method.rpc} "):
            assert events.find(event) is method


@pytest.mark.parametrize("event", ["", "Configure", 0, 15, True, 1.0, None, [], b"RunPodSandbox"])
def test_unknown_event_is_refused_with_the_names_of_all(event: object) -> None:
    with pytest.raises(ValueError) as caught:
        events.find(event)
    assert str(caught.value) == f"found {event!r}, expected one of {', '.join(events.BY_RPC)}"


def test_events_that_a_runtime_knows_depend_on_its_nri() -> None:
    masks = [events.valid((0, minor)) for minor in (2, 6, 8, 9, 10, 12)]
    assert masks == [0x7FF] * 4 + [0x3FFF] * 2


# The NRI of a runtime, from what it says of itself


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("containerd", "v1.7.0", (0, 3)),
        ("containerd", "v2.1.4-k3s1", (0, 8)),
        ("containerd", "v2.2", (0, 10)),
        ("cri-o", "1.34.0", (0, 10)),
        ("cri-o", "1.25.0", (0, 9)),
        ("containerd", "(devel)", (0, 9)),
        ("containerd", "9" * 100, (0, 9)),
        ("docker", "99.0.0", (0, 9)),
    ],
)
def test_one_that_says_nothing_of_its_nri_is_looked_up(
    name: str, version: str, expected: events.Version
) -> None:
    assert nri_version(name, version) == expected
    assert RuntimeInfo(name=name, version=version).knows == events.valid(expected)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("v0.12.0", (0, 12)),
        ("v1.0.0", (1, 0)),
        ("v0.0.0-20260101000000-0123456789ab", (0, 12)),
        ("v0.11.1-0.20260101000000-0123456789ab", (0, 11)),
        ("v" + "9" * 5000, (0, 12)),
    ],
)
def test_runtime_with_an_odd_nri_version_has_0_12_or_newer(
    said: str, expected: events.Version
) -> None:
    assert nri_version("containerd", "v1.7.24", said) == expected
    assert RuntimeInfo(name="containerd", version="v1.7.24", nri_version=said).knows == 0x3FFF


@pytest.mark.parametrize("name", RELEASES)
def test_the_table_is_in_order(name: str) -> None:
    releases = RELEASES[name]
    assert [first for first, _ in releases] == sorted({first for first, _ in releases})
    assert [nri for _, nri in releases] == sorted(nri for _, nri in releases)
