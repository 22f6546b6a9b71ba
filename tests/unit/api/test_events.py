"""The table of events, and the masks made from it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri import api
from nri.api import events, runtime_pb2

PLUGIN = runtime_pb2.DESCRIPTOR.services_by_name["Plugin"].methods_by_name
NO_EVENTS = {"Configure", "Synchronize", "Shutdown", "StateChange"}


def test_every_event_is_in_the_table_once_and_in_order() -> None:
    values = api.Event.values()
    assert [method.event for method in events.METHODS] == values[1:-1]
    assert (values[0], values[-1]) == (api.Event.UNKNOWN, api.Event.LAST)


def test_every_call_of_the_service_that_is_an_event_is_in_the_table() -> None:
    assert set(events.BY_RPC) == set(PLUGIN) - NO_EVENTS


@pytest.mark.parametrize("method", events.METHODS, ids=lambda method: method.rpc)
def test_a_call_takes_and_gives_what_the_service_says(method: events.EventMethod) -> None:
    assert method.request.DESCRIPTOR is PLUGIN[method.rpc].input_type
    assert method.response.DESCRIPTOR is PLUGIN[method.rpc].output_type
    assert events.BY_EVENT[method.event] is events.BY_RPC[method.rpc] is method
    assert api.Event.Name(method.event).replace("_", "") == method.rpc.upper()


def test_state_change_brings_what_has_no_call_of_its_own_up_to_nri_0_11() -> None:
    own = {method.rpc for method in events.METHODS if not method.state_change}
    assert own == {
        "CreateContainer",
        "UpdateContainer",
        "StopContainer",
        "UpdatePodSandbox",
        "ValidateContainerAdjustment",
    }
    for method in events.METHODS:
        if method.state_change:  # a StateChangeEvent has nothing else to fill a request from
            assert {field.name for field in method.request.DESCRIPTOR.fields} <= {"pod", "container"}
            assert not method.response.DESCRIPTOR.fields


@pytest.mark.parametrize(
    ("wanted", "mask"),
    [
        ([], 0),
        ([api.Event.RUN_POD_SANDBOX], 1),
        ([api.Event.STOP_POD_SANDBOX], 2),
        ([api.Event.REMOVE_CONTAINER, api.Event.RUN_POD_SANDBOX, api.Event.RUN_POD_SANDBOX], 0x401),
        ([api.Event.START_CONTAINER, api.Event.STOP_CONTAINER], 0x220),
        ([api.Event.VALIDATE_CONTAINER_ADJUSTMENT], 0x2000),
    ],
)
def test_a_mask_has_bit_n_minus_1_for_event_n(wanted: Any, mask: int) -> None:
    assert events.mask(wanted) == mask
    assert events.in_mask(mask) == tuple(sorted(set(wanted)))


@given(st.sets(st.sampled_from(sorted(events.BY_EVENT))))
def test_events_of_a_mask_are_those_that_it_was_made_of(wanted: Any) -> None:
    assert set(events.in_mask(events.mask(wanted))) == wanted


@pytest.mark.parametrize("number", [-1, 0, 15, 16, 99])
def test_what_is_no_event_gets_no_bit(number: int) -> None:
    with pytest.raises(ValueError, match=rf"^{number} is not the number of an event; those are 1 to 14$"):
        events.mask([number])


@pytest.mark.parametrize("method", events.METHODS, ids=lambda method: method.rpc)
def test_an_event_is_found_by_number_and_by_name_in_any_case(method: events.EventMethod) -> None:
    for event in (method.event, method.rpc, method.rpc.upper(), f" {method.rpc} "):
        assert events.find(event) is method


@pytest.mark.parametrize("event", ["", "Configure", "RUN_POD_SANDBOX", 0, 15, True, 1.0, None, [], b"RunPodSandbox"])
def test_what_is_no_event_is_refused_with_the_names_of_all(event: object) -> None:
    with pytest.raises(ValueError) as caught:
        events.find(event)
    assert str(caught.value) == f"found {event!r}, expected one of {', '.join(events.BY_RPC)}"


@pytest.mark.parametrize(("mask", "bits"), [(0x4000, "0x4000"), (0x4001, "0x4000"), (-1, "0xffffc000")])
def test_a_bit_that_stands_for_no_event_is_refused(mask: int, bits: str) -> None:
    with pytest.raises(ValueError, match=rf"bits that stand for no event: {bits}$"):
        events.in_mask(mask)


@pytest.mark.parametrize(
    ("version", "mask"),
    [((0, 2), 0x7FF), ((0, 6), 0x7FF), ((0, 8), 0x7FF), ((0, 9), 0x7FF), ((0, 10), 0x3FFF), ((0, 12), 0x3FFF)],
)
def test_what_a_runtime_knows_depends_on_its_nri(version: events.Version, mask: int) -> None:
    assert events.valid(version) == mask


def test_the_valid_mask_is_that_of_the_newest() -> None:
    assert events.valid((0, 12)) == events.VALID
