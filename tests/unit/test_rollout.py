"""The rules of the simulation in bench/rollout.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.rollout import FLEET, PERIOD, PLANS, SEEDS, Outcome, Plan, Rollout, Wave, waves

ONE = Plan(waves=(Wave(nodes=200, max_unavailable=1),), bad=0.0)


def run(plan: Plan, seed: int = 0) -> Outcome:
    return Rollout(plan, seed).run()


def of(nodes: int, limit: int, **options: bool) -> tuple[Wave, ...]:
    return (Wave(nodes=nodes, max_unavailable=limit, **options),)


def test_the_same_seed_gives_the_same_rollout_and_another_seed_another_one() -> None:
    plan = PLANS["four waves, maxUnavailable"]
    assert run(plan, 1) == run(plan, 1)
    assert len({run(plan, seed).nodes for seed in SEEDS}) > 1


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_where_nothing_fails_every_node_is_reached(plan: Plan) -> None:
    outcome = run(replace(plan, bad=0.0))
    assert (outcome.nodes, outcome.bad, outcome.failed_starts, outcome.is_complete) == (FLEET, 0, 0, True)


def test_a_node_takes_its_replacement_a_probe_and_the_minimum_and_the_next_one_begins_then() -> None:
    each = run(ONE).seconds / 200
    assert ONE.replacing + ONE.min_ready < each < ONE.replacing + PERIOD + ONE.min_ready


def test_twice_the_nodes_at_a_time_take_about_half_of_the_time() -> None:
    twice = run(replace(ONE, waves=of(200, 2))).seconds
    assert 0.45 < twice / run(ONE).seconds < 0.6


@pytest.mark.parametrize("limit", [1, 3])
def test_a_rollout_stops_when_as_many_pods_as_the_limit_are_not_available(limit: int) -> None:
    outcome = run(replace(ONE, waves=of(200, limit), bad=1.0, fails_loading=True))
    assert (outcome.nodes, outcome.bad, outcome.is_complete) == (limit, limit, False)


def test_a_fault_that_shows_after_the_pod_was_available_stops_the_rollout_then() -> None:
    """Containers start so seldom that the pod is available long before."""
    seldom = replace(ONE, bad=1.0, starts=20.0)
    outcome = run(seldom)
    assert 1 < outcome.nodes < 200
    often = run(replace(seldom, starts=100_000.0))
    assert often.nodes == 1


def test_a_surge_is_not_stopped_by_pods_that_get_worse_after_the_handover() -> None:
    outcome = run(replace(ONE, waves=of(200, 1, surge=True), bad=1.0))
    assert (outcome.nodes, outcome.bad) == (200, 200)


def test_a_surge_takes_as_many_at_a_time_as_it_may() -> None:
    one, ten = (run(replace(ONE, waves=of(200, limit, surge=True))).seconds for limit in (1, 10))
    assert 0.08 < ten / one < 0.13


def test_a_config_map_in_place_reaches_the_whole_group_at_once_and_no_other_group() -> None:
    two = (*of(50, 1, in_place=True), *of(50, 1, in_place=True))
    outcome = run(replace(ONE, waves=two, bad=1.0))
    assert (outcome.nodes, outcome.is_complete) == (50, False)


def test_a_wave_that_gets_worse_in_the_pause_is_the_last_one() -> None:
    waited = replace(ONE, waves=(*of(3, 3), *of(100, 10)), bad=1.0, starts=200.0)
    assert run(waited).nodes == 3
    assert run(replace(waited, pause=0.0, starts=1.0)).nodes > 3


def test_failed_starts_grow_with_the_time_until_somebody_reacts() -> None:
    plan = replace(ONE, bad=1.0, fails_loading=True, starts=2400.0)
    soon, late = (run(replace(plan, reaction=seconds)).failed_starts for seconds in (3600.0, 7200.0))
    assert late - soon == 100  # an hour of one node


def test_waves_are_the_whole_fleet() -> None:
    assert sum(wave.nodes for wave in waves()) == FLEET
