"""The metrics of documents: what is known has a series, what is not has none, and no series comes twice."""

import pytest

from tests.support import exposition
from tests.support import status_documents as documents
from tests.support.exposition import of, value


def test_versions_are_labels_of_a_series_that_is_1() -> None:
    series = of(documents.healthy())

    assert value(series, "up") == value(series, "connected") == 1
    assert value(series, "build_info", version="0.9.0", commit="3f2c1ab", date="2025-11-20") == 1
    assert value(series, "runtime_info", name="containerd", version="v2.1.9", nri="0.8") == 1
    series = of(documents.connecting())
    assert (value(series, "up"), value(series, "connected")) == (1, 0)
    assert [name for name, _ in series if "runtime" in name] == []
    assert of(None) == {("nri_v1bridge_up", frozenset()): 0}  # it does not answer


def test_broken_configuration_has_the_time_of_the_last_valid_one() -> None:
    series = of(documents.degraded())

    assert (value(series, "up"), value(series, "configuration_valid")) == (1, 0)
    assert value(series, "configuration_faults") == 1
    assert value(series, "configuration_last_valid_timestamp_seconds") == documents.NOW - 3599
    assert value(series, "configuration_rejected_timestamp_seconds") == documents.NOW - 600
    assert value(of(documents.healthy()), "configuration_rejected_timestamp_seconds") is None


def test_runs_are_counted_by_state_and_outcome_from_zero() -> None:
    of_it = {"plugin": "clearcfs", "source": "10-clearcfs.conf"}
    plugin = documents.plugin(
        states=["create", "delete", "update"],
        runs={"create": documents.runs(ok=9, error=1, killed=2, ignored=3, refused=4)},
    )
    series = of(documents.healthy(plugins=[plugin]))

    found = {
        (state, outcome): value(series, "plugin_runs_total", **of_it, state=state, outcome=outcome)
        for state in ("create", "delete", "update")
        for outcome in ("ok", "error", "killed", "ignored", "refused")
    }
    create = {"ok": 9, "error": 1, "killed": 2, "ignored": 3, "refused": 4}
    assert found == {key: create[key[1]] if key[0] == "create" else 0 for key in found}
    second = {
        **plugin,
        "index": 1,
        "last": {"create": documents.last("error"), "delete": documents.last("refused")},
        "resident": {"state": "failed", "reason": "a thread"},
    }
    # Entries of one file share their counts.
    series = of(documents.healthy(plugins=[plugin, second]))
    assert value(series, "plugin_runs_total", **of_it, state="create", outcome="ok") == 9
    assert value(series, "plugin_last_run_ok", **of_it) == 0
    series = of(documents.healthy(plugins=[second]))
    states = ("ready", "starting", "waiting", "off", "failed")
    resident = {
        state: value(series, "plugin_resident_state", **of_it, resident=state) for state in states
    }
    assert resident == {**dict.fromkeys(states, 0), "failed": 1}


def test_plugin_that_has_not_run_has_no_last_run() -> None:
    series = of(documents.degraded())

    absent = {"plugin": "absent", "source": "10-absent.conf"}
    assert value(series, "plugin_usable", **absent) == 0
    assert value(series, "plugin_last_run_ok", **absent) is None
    assert value(series, "plugin_duration_seconds_count", **absent) == 0
    failed = {"plugin": "clearcfs", "source": "10-clearcfs.conf"}
    assert value(series, "plugin_last_run_ok", **failed) == 0
    assert value(series, "plugin_last_error_timestamp_seconds", **failed) == documents.NOW - 60


def test_a_histogram_counts_up_to_each_bound() -> None:
    plugin = documents.plugin(seconds=documents.histogram(5, 0, 2, *[0] * 9, 1, total=7.5))
    series = of(documents.healthy(plugins=[plugin]))

    of_it = {"plugin": "clearcfs", "source": "10-clearcfs.conf"}
    bounds = [*(str(bound) for bound in documents.BOUNDS), "+Inf"]
    found = [value(series, "plugin_duration_seconds_bucket", **of_it, le=bound) for bound in bounds]
    assert found == [5, 5, *[7] * 10, 8]
    assert value(series, "plugin_duration_seconds_sum", **of_it) == 7.5
    assert value(series, "plugin_duration_seconds_count", **of_it) == 8


def test_events_are_labelled_and_their_waiting_is_added_up() -> None:
    series = of(documents.degraded())
    for name, count in {
        "total": 100,
        "failed_total": 10,
        "late_total": 1,
        "near_deadline_total": 4,
    }.items():
        assert value(series, f"events_{name}", event="StartContainer") == count
    assert value(series, "event_duration_seconds_count", event="StartContainer") == 100

    assert value(of(documents.healthy()), "event_waiting_seconds_count") == 300


def test_late_creates_and_lost_lines_are_there() -> None:
    series = of(documents.degraded())

    pending = [
        value(series, "late_creates_pending", state=state) for state in ("waiting", "running")
    ]
    ended = [
        value(series, "late_creates_total", outcome=outcome) for outcome in ("succeeded", "failed")
    ]
    assert (pending, ended) == ([1, 0], [3, 2])
    assert value(series, "log_lines_lost_total") == 12


@pytest.mark.parametrize(
    "text", ["1.0\nnri_v1bridge_up 0", 'a"b\\', "\ud800", "x" * 5000, "\x1b[31m"], ids=range(5)
)
def test_texts_of_other_programs_stay_within_their_label(text: str) -> None:
    document = documents.healthy()
    document["runtime"]["version"] = document["plugins"][0]["build"] = text

    series = of(document)

    assert value(series, "up") == 1
    (shown,) = [
        dict(labels)["version"] for name, labels in series if name == "nri_v1bridge_runtime_info"
    ]
    assert shown.isprintable()
    assert len(shown) <= 128


def test_no_label_names_a_pod_or_a_container() -> None:
    assert "web" not in repr([family.samples for family in exposition.metrics()])
    labels = {label for family in exposition.metrics() for label in exposition.labels(family)}
    assert labels & {"pod", "container", "namespace", "id"} == set()
